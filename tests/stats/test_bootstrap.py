import math

import numpy as np
import numpy.typing as npt
import pytest
from messages import assert_says
from scipy import stats

from pact_eval.stats import bootstrap
from pact_eval.stats.bootstrap import (
    LazyRowSums,
    RowSums,
    Statistic,
    cluster_sums,
    expanded_tail,
    mean_statistic,
    percentile_estimate,
    ratio_statistic,
    resample,
)
from pact_eval.stats.estimate import Estimate


def interval_of(
    statistic: Statistic,
    n_clusters: int,
    seed: int = 1,
    resamples: int = 10_000,
    confidence: float = 0.95,
) -> Estimate:
    drawn = resample(
        {"value": statistic},
        n_clusters=n_clusters,
        n=2 * n_clusters,
        rng=np.random.default_rng(seed),
        resamples=resamples,
    )
    return drawn["value"].estimate(confidence)


def correlated_pairs(
    rng: np.random.Generator, families: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Draws two values a family that share most of their variance; the true mean is 0."""
    shared = rng.standard_normal(families).repeat(2)
    return 0.9 * shared + 0.3 * rng.standard_normal(2 * families), np.arange(families).repeat(2)


def test_cluster_sums_against_naive_loop() -> None:
    rng = np.random.default_rng(2)
    values, cluster = rng.standard_normal((50, 3)), rng.integers(0, 8, 50)
    expected = np.array([values[cluster == f].sum(axis=0) for f in range(10)])
    np.testing.assert_allclose(cluster_sums(values, cluster, 10), expected, atol=1e-14)
    np.testing.assert_allclose(cluster_sums(values[:, 0], cluster, 10), expected[:, 0], atol=1e-14)
    assert cluster_sums([], [], 2).tolist() == [0.0, 0.0]
    assert cluster_sums(np.zeros((0, 3)), [], 2).shape == (2, 3)


@pytest.mark.parametrize("n", [0, 1, 4, 10])
def test_totals_of_blocks_against_naive_loop(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of four rows: none, a part, one, and two and a half."""
    monkeypatch.setattr(bootstrap, "_BLOCK_ROWS", 4)
    values, label = np.arange(1.0, n + 1), np.arange(n) % 4
    sums = [
        sum(value for value, at in zip(values, label, strict=True) if at == k) for k in range(4)
    ]
    plain = LazyRowSums(lambda rows: RowSums(values[rows], label[rows], 4))
    assert plain.total(n).tolist() == sums


def expanded_level(confidence: float, clusters: int) -> float:
    """Returns the coverage of plain percentiles at the levels of Hesterberg 2015, from scipy."""
    t = stats.t.ppf((1 + confidence) / 2, clusters - 1)
    return float(1 - 2 * stats.norm.cdf(-math.sqrt(clusters / (clusters - 1)) * t))


@pytest.mark.parametrize("clusters", [2, 8, 12, 30, 162, 10_000])
def test_levels_of_the_expanded_interval_against_scipy(clusters: int) -> None:
    tail = (1 - expanded_level(0.95, clusters)) / 2
    assert bootstrap.expanded_tail(0.95, clusters) == pytest.approx(tail, rel=1e-8, abs=1e-15)


def test_an_interval_says_whether_it_is_expanded_and_is_wider_then() -> None:
    """The quantiles of numpy at the level of Hesterberg, and at 2.5%."""
    draws = np.random.default_rng(0).normal(size=4_000)
    ends = []
    for expanded, name in ((False, "percentile"), (True, "expanded percentile")):
        estimate = percentile_estimate(
            0.0, draws, n=40, n_clusters=8, confidence=0.95, expanded=expanded
        )
        assert estimate.method is not None
        assert str(estimate.method).startswith(f"95% {name} bootstrap over families, 4,000")
        tail = expanded_tail(0.95, 8) if expanded else 0.025
        assert estimate.low == pytest.approx(np.quantile(draws, tail), abs=0.02)
        assert estimate.high == pytest.approx(np.quantile(draws, 1 - tail), abs=0.02)
        ends.append(estimate.high)
    assert ends[1] > ends[0] + 0.3


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_interval_against_scipy_bootstrap_on_singletons(confidence: float) -> None:
    rows = np.random.default_rng(5).exponential(size=40)
    expected = stats.bootstrap(
        (rows,),
        np.mean,
        n_resamples=100_000,
        batch=10_000,
        method="percentile",
        confidence_level=expanded_level(confidence, 40),
        rng=np.random.default_rng(6),
    )
    statistic = mean_statistic(rows, np.arange(40), 40)
    estimate = interval_of(statistic, 40, resamples=100_000, confidence=confidence)
    # Two quantiles of 100,000 replicates, each with a standard error of 0.0084 of their spread.
    tolerance = 5 * math.sqrt(2) * 0.0084 * float(expected.standard_error)
    interval = expected.confidence_interval
    assert (estimate.low, estimate.high) == pytest.approx(tuple(interval), abs=tolerance)


def test_replicates_against_materialised_resamples() -> None:
    """The weights stand for rows: here the replicates are computed from repeated rows."""
    values, cluster = correlated_pairs(np.random.default_rng(7), 12)
    seen: list[npt.NDArray[np.float64]] = []

    def recording(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        seen.append(weights)
        return mean_statistic(values, cluster, 12)(weights)

    estimate = interval_of(recording, 12, resamples=500)
    ones, weights = seen[0], np.concatenate(seen[1:])
    assert ones.tolist() == [[1.0] * 12]
    assert weights.shape == (500, 12)
    assert (weights.sum(axis=1) == 12).all()
    replicates = [values.repeat(row[cluster].astype(int)).mean() for row in weights]
    level = expanded_level(0.95, 12)
    expected = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
    assert (estimate.low, estimate.high) == pytest.approx(tuple(expected), rel=1e-10)


@pytest.mark.slow
def test_coverage_on_correlated_pairs() -> None:
    """Nominal 95% over families; item by item, the same data are trusted too much."""
    rng, families, tries = np.random.default_rng(8), 60, 400
    covered = {"families": 0, "items": 0}
    for _ in range(tries):
        values, cluster = correlated_pairs(rng, families)
        for name, codes, f in (
            ("families", cluster, families),
            ("items", np.arange(2 * families), 2 * families),
        ):
            seed = int(rng.integers(2**32))
            estimate = interval_of(mean_statistic(values, codes, f), f, seed, resamples=400)
            covered[name] += estimate.low <= 0 <= estimate.high
    low, high = stats.binom.interval(1 - 2e-4, tries, 0.95)
    assert low <= covered["families"] <= high
    assert covered["items"] < low - 0.01 * tries


@pytest.mark.parametrize("numbers", [1, 7 * 42, 1000 * 42])
def test_the_interval_does_not_depend_on_the_batches(
    numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, cluster = correlated_pairs(np.random.default_rng(10), 21)
    statistic = mean_statistic(values, cluster, 21)
    whole = interval_of(statistic, 21, resamples=1500)
    monkeypatch.setattr(bootstrap, "_BATCH_NUMBERS", numbers)
    parts = interval_of(statistic, 21, resamples=1500)
    assert (parts.low, parts.high) == pytest.approx((whole.low, whole.high), rel=1e-12)


def test_all_statistics_see_the_same_resamples() -> None:
    values, cluster = correlated_pairs(np.random.default_rng(11), 20)
    statistic = mean_statistic(values, cluster, 20)
    drawn = resample(
        {"a": statistic, "b": statistic, "gap": lambda w: statistic(w) - statistic(w)},
        n_clusters=20,
        n=40,
        rng=np.random.default_rng(1),
    )
    both = {name: resampled.estimate() for name, resampled in drawn.items()}
    assert both["a"] == both["b"] == interval_of(statistic, 20)
    assert both["gap"].value == 0.0
    assert str(both["gap"].reason).startswith("all resamples agree")


def test_ratio_against_materialised_rows() -> None:
    rng = np.random.default_rng(12)
    top, bottom, cluster = rng.random(30), rng.integers(0, 3, 30), rng.integers(0, 10, 30)
    weights = rng.integers(0, 3, (50, 10)).astype(float)
    rows = weights[:, cluster]
    expected = (rows * top).sum(axis=1) / (rows * bottom).sum(axis=1)
    np.testing.assert_allclose(ratio_statistic(top, bottom, cluster, 10)(weights), expected)


def test_infinities_count_where_they_were_drawn() -> None:
    statistic = mean_statistic([1.0, np.inf, 3.0, -np.inf, np.nan], np.arange(5), 5)
    weights = np.array(
        [
            [1.0, 0, 1, 0, 0],
            [1.0, 2, 1, 0, 0],
            [1.0, 0, 1, 1, 0],
            [1.0, 1, 1, 1, 0],
            [1.0, 0, 1, 0, 1],
            [0.0, 0, 0, 0, 0],
        ]
    )
    expected = [2.0, np.inf, -np.inf, np.nan, np.nan, np.nan]
    np.testing.assert_array_equal(statistic(weights), expected)


def test_an_infinite_nll_keeps_its_finite_lower_end() -> None:
    """One family in 50 is infinite: 36% of the resamples miss it, 64% are infinite."""
    nll = np.r_[np.linspace(0.1, 2, 99), np.inf]
    estimate = interval_of(mean_statistic(nll, np.arange(50).repeat(2), 50), 50)
    assert (estimate.value, estimate.high) == (np.inf, np.inf)
    assert 0.1 < estimate.low < 2
    assert estimate.reason == "infinite on these rows"


def reported_percent(reason: str | None) -> float:
    assert reason is not None
    share, sentence = reason.split("%")
    assert_says(sentence, "resamples are undefined", "left out")
    return float(share)


def test_beside_an_infinite_replicate_the_outer_neighbour_is_taken() -> None:
    """Quantiles 0.25 and 0.75 of four replicates lie between the outer two of either side."""

    def replicates(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.array([2.0, np.inf, 0.0, 1.0])[: len(weights)]

    estimate = interval_of(replicates, 2, resamples=4, confidence=0.5)
    assert (estimate.low, estimate.high) == (0.0, np.inf)


def test_undefined_resamples_are_left_out_and_reported() -> None:
    """The denominator lives in two families of 10: (8/10)^10 = 11% of the resamples miss it."""
    subset = np.r_[np.ones(2), np.zeros(8)]
    statistic = ratio_statistic(subset * np.arange(10), subset, np.arange(10), 10)
    estimate = interval_of(statistic, 10)
    assert (estimate.low, estimate.value, estimate.high) == (0.0, 0.5, 1.0)
    assert reported_percent(estimate.reason) == pytest.approx(100 * 0.8**10, abs=1.5)


def test_a_ratio_that_rests_on_one_family_has_no_interval() -> None:
    """The denominator lives in one family of 10, which (9/10)^10 = 35% of the resamples miss."""
    statistic = ratio_statistic([0.3, *[0.0] * 9], [0.9, *[0.0] * 9], np.arange(10), 10)
    estimate = interval_of(statistic, 10)
    assert estimate.value == pytest.approx(1 / 3)
    assert np.isnan([estimate.low, estimate.high]).all()
    assert reported_percent(estimate.reason) == pytest.approx(100 * 0.9**10, abs=2.5)
    assert_says(estimate.reason, "the others all agree", "no interval")


def test_few_undefined_resamples_pass_without_a_word() -> None:
    """Eight families in 10 hold the denominator: (2/10)^10 of the resamples are undefined."""
    subset = np.r_[np.ones(8), np.zeros(2)]
    statistic = ratio_statistic(subset * np.arange(10), subset, np.arange(10), 10)
    estimate = interval_of(statistic, 10)
    assert estimate.reason is None
    assert estimate.value == 3.5


def test_bad_arguments_are_refused() -> None:
    two = mean_statistic([1.0, 2.0], [0, 1], 2)
    with pytest.raises(ValueError, match="n_clusters >= 0"):
        interval_of(two, -1)
    with pytest.raises(ValueError, match="resamples: expected at least 1"):
        interval_of(two, 2, resamples=0)
    with pytest.raises(ValueError, match="confidence: expected a number in"):
        interval_of(two, 2, confidence=95.0)
    with pytest.raises(ValueError, match=r"statistic 'value': expected shape \(1,\)"):
        interval_of(lambda weights: weights, 3)
    with pytest.raises(ValueError, match=r"cluster: .*0\.\.1, got 0\.\.2"):
        mean_statistic([1.0, 2.0], [0, 2], 2)
    with pytest.raises(ValueError, match=r"cluster: expected integers .*\(2,\)"):
        mean_statistic([1.0, 2.0], [0.0, 1.0], 2)
    with pytest.raises(ValueError, match="denominator: expected finite numbers"):
        ratio_statistic([1.0], [-1.0], [0], 1)
    with pytest.raises(ValueError, match="two equal shapes"):
        ratio_statistic([1.0], [1.0, 1.0], [0], 1)
    with pytest.raises(ValueError, match="values: expected shape"):
        cluster_sums(np.zeros((1, 1, 1)), [0], 1)


def test_replicates_do_not_depend_on_who_asks_first() -> None:
    cluster = np.arange(20) // 2
    values = np.random.default_rng(3).normal(size=(3, 20))
    statistics = {
        name: mean_statistic(row, cluster, 10) for name, row in zip("abc", values, strict=True)
    }
    first, second = (
        bootstrap.resample(
            statistics, n_clusters=10, n=20, rng=np.random.default_rng(4), resamples=50
        )
        for _ in range(2)
    )
    expected = {name: first[name].replicates for name in "abc"}
    for name in "bca":
        np.testing.assert_array_equal(second[name].replicates, expected[name])


def defined_once(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A statistic that is defined on the rows themselves and on no resample."""
    return np.full(len(weights), 1.0 if len(weights) == 1 else np.nan)


@pytest.mark.parametrize(
    ("statistic", "clusters", "value", "reason"),
    [
        (mean_statistic(np.ones(20), np.arange(10).repeat(2), 10), 10, 1.0, "all resamples agree"),
        (mean_statistic([np.inf] * 4, [0, 0, 1, 1], 2), 2, np.inf, "infinite"),
        (mean_statistic([-np.inf] * 4, [0, 0, 1, 1], 2), 2, -np.inf, "infinite"),
        (ratio_statistic([0] * 4, [0] * 4, np.arange(4), 4), 4, np.nan, "undefined on these rows"),
        (defined_once, 4, 1.0, "undefined in every resample"),
        (mean_statistic([1.0, 0.0], [0, 0], 1), 1, 0.5, "one family: no interval"),
        (mean_statistic([], [], 0), 0, np.nan, "no rows"),
    ],
)
def test_no_interval_has_its_reason(
    statistic: Statistic, clusters: int, value: float, reason: str
) -> None:
    estimate = interval_of(statistic, clusters)
    assert estimate.value == pytest.approx(value, nan_ok=True)
    assert np.isnan([estimate.low, estimate.high]).all()
    assert (estimate.n, estimate.clusters) == (2 * clusters, clusters)
    assert_says(estimate.reason, reason)
