import math
import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paired_runs import Pairs
from scipy import stats

from pact_eval.stats import (
    Estimate,
    Statistic,
    bootstrap_intervals,
    cluster_accuracy_difference,
    difference_statistic,
    difference_statistics,
    item_accuracy_difference,
    mean_statistic,
)
from pact_eval.stats import paired_intervals as module

# (b, c, low, high) of the published table: 324 items, ends in points.
PUBLISHED = [
    (19, 19, -3.7, 3.7),
    (25, 31, -6.5, 2.8),
    (27, 27, -4.6, 4.3),
    (13, 24, -7.1, 0.3),
    (39, 18, 1.9, 11.1),
    (23, 10, 0.6, 7.4),
    (92, 27, 13.9, 26.2),
    (86, 27, 12.0, 24.4),
    (98, 21, 17.9, 29.9),
]


def item_interval(b: int, c: int, n: int, seed: int = 1, resamples: int = 10_000) -> Estimate:
    rng = np.random.default_rng(seed)
    return item_accuracy_difference(b, c, n, rng=rng, resamples=resamples)


def resampled_leads(b: int, c: int, n: int) -> npt.NDArray[np.float64]:
    """Returns the chances (2n + 1,) that B* - C* is -n, ..., n when n items are drawn anew."""
    item, leads = np.array([c, n - b - c, b]) / n, np.ones(1)
    for _ in range(n):
        leads = np.convolve(leads, item)
    return leads


def assert_is_quantile(
    end: float, share: float, b: int, c: int, n: int, replicates: int, rounding: float = 1e-9
) -> None:
    """Checks that `end` is a `share` quantile of the exact distribution, to Monte Carlo error."""
    below = np.cumsum(resampled_leads(b, c, n))
    slack = 4.5 * math.sqrt(share * (1 - share) / replicates)
    least, most = np.searchsorted(below, [share - slack, share + slack]) - n
    assert least / n - rounding <= end <= most / n + rounding


@pytest.mark.parametrize(("b", "c", "low", "high"), PUBLISHED)
def test_published_ends_within_monte_carlo_error(b: int, c: int, low: float, high: float) -> None:
    """The table's ends and ours are both 10,000-resample quantiles of one exact distribution."""
    ours = item_interval(b, c, 324)
    for end, share in ((low, 0.025), (high, 0.975)):
        assert_is_quantile(end / 100, share, b, c, 324, 10_000, rounding=0.0006)
    assert_is_quantile(ours.low, 0.025, b, c, 324, 10_000)
    assert_is_quantile(ours.high, 0.975, b, c, 324, 10_000)
    # One item of 324 is 0.31 points, and the ends move by whole items.
    assert (100 * ours.low, 100 * ours.high) == pytest.approx((low, high), abs=0.37)
    assert 100 * ours.value == pytest.approx(100 * (b - c) / 324)


@pytest.mark.parametrize(("b", "c", "n"), [(2, 1, 6), (1, 0, 4), (3, 5, 12)])
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
def test_interval_against_the_exact_distribution(b: int, c: int, n: int, confidence: float) -> None:
    estimate = item_accuracy_difference(
        b, c, n, rng=np.random.default_rng(2), resamples=100_000, confidence=confidence
    )
    assert_is_quantile(estimate.low, (1 - confidence) / 2, b, c, n, 100_000)
    assert_is_quantile(estimate.high, (1 + confidence) / 2, b, c, n, 100_000)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95])
def test_multinomial_draws_against_drawing_items(confidence: float) -> None:
    """Items drawn one by one, with replacement, have the same quantiles."""
    b, c, n, resamples = 14, 6, 80, 40_000
    lead = np.repeat([1, -1, 0], [b, c, n - b - c])
    drawn = np.random.default_rng(3).integers(0, n, (resamples, n))
    direct = np.quantile(lead[drawn].mean(axis=1), [(1 - confidence) / 2, (1 + confidence) / 2])
    ours = item_accuracy_difference(
        b, c, n, rng=np.random.default_rng(4), resamples=resamples, confidence=confidence
    )
    # At most one item apart: two quantiles with standard errors of a third of an item.
    assert (ours.low, ours.high) == pytest.approx(tuple(direct), abs=1.001 / n)
    assert_is_quantile(float(direct[0]), (1 - confidence) / 2, b, c, n, resamples)


def test_items_against_bootstrap_intervals_on_singletons() -> None:
    lead = np.repeat([1.0, -1.0, 0.0], [39, 18, 267])
    general = bootstrap_intervals(
        {"gap": mean_statistic(lead, np.arange(324), 324)},
        n_clusters=324,
        n=324,
        rng=np.random.default_rng(5),
    )["gap"]
    ours = item_interval(39, 18, 324)
    assert ours.value == pytest.approx(general.value)
    assert (ours.low, ours.high) == pytest.approx((general.low, general.high), abs=1.01 / 324)
    assert (ours.n, ours.clusters, ours.reason) == (324, 324, None)
    assert ours.method == "95% percentile bootstrap over items, paired, 10,000 resamples"


def test_ten_million_items_take_no_more_memory_than_three_hundred() -> None:
    """Counts are all there is: nothing of the size of the items is ever allocated."""

    def peak(b: int, c: int, n: int) -> int:
        item_interval(b, c, n)
        tracemalloc.start()
        estimate = item_interval(b, c, n)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert estimate.low < estimate.value < estimate.high
        return peak

    few, many = peak(39, 18, 324), peak(1_203_704, 555_556, 10_000_000)
    assert many < few + 20_000
    assert many < 2_000_000


def test_clusters_against_bootstrap_intervals() -> None:
    """Kinds of clusters drawn by count, or clusters drawn one by one: the same quantiles."""
    rng = np.random.default_rng(6)
    n, families = 150, 60
    a, b, family = rng.random(n) < 0.8, rng.random(n) < 0.7, rng.integers(0, families, n)
    codes = np.unique(family, return_inverse=True)[1]
    clusters = int(codes.max()) + 1
    gap = difference_statistic(
        mean_statistic(a, codes, clusters), mean_statistic(b, codes, clusters)
    )
    general = bootstrap_intervals(
        {"gap": gap}, n_clusters=clusters, n=n, rng=rng, resamples=40_000
    )["gap"]
    ours = cluster_accuracy_difference(a, b, family, rng=rng, resamples=40_000)
    assert ours.value == pytest.approx(general.value, rel=1e-12)
    # Quantiles of 40,000 replicates, each with a standard error of 0.0134 of their spread.
    spread = (general.high - general.low) / 3.92
    tolerance = 5 * math.sqrt(2) * 0.0134 * spread
    assert (ours.low, ours.high) == pytest.approx((general.low, general.high), abs=tolerance)
    assert (ours.n, ours.clusters) == (150, clusters)
    assert ours.method == "95% percentile bootstrap over clusters, paired, 40,000 resamples"


def test_width_against_the_analytic_standard_error() -> None:
    runs = Pairs(4000, 0.2, 0.03, copies=0.6).draw(np.random.default_rng(7))
    lead = (runs.a.astype(int) - runs.b).reshape(-1, 2).mean(axis=1)
    expected = stats.norm.interval(0.95, lead.mean(), lead.std() / math.sqrt(4000))
    rng = np.random.default_rng(8)
    ours = cluster_accuracy_difference(runs.a, runs.b, runs.family, rng=rng)
    tolerance = 0.13 * float(lead.std()) / math.sqrt(4000)
    assert (ours.low, ours.high) == pytest.approx(expected, abs=tolerance)


def covers(estimate: Estimate, truth: float) -> bool:
    return estimate.low <= truth <= estimate.high


def test_coverage_of_a_paired_difference_on_dependent_pairs() -> None:
    """Families cover at their nominal 95% in both implementations; items do not."""
    rng, truth, tries, families = np.random.default_rng(9), 0.05, 400, 100
    covered = np.zeros(3)
    for _ in range(tries):
        runs = Pairs(families, 0.18, truth, copies=0.6).draw(rng)
        by_run = (
            {"accuracy": mean_statistic(correct, runs.family, families)}
            for correct in (runs.a, runs.b)
        )
        general = bootstrap_intervals(
            difference_statistics(*by_run), n_clusters=families, n=200, rng=rng, resamples=400
        )["accuracy"]
        fast = cluster_accuracy_difference(runs.a, runs.b, runs.family, rng=rng, resamples=400)
        only_a, only_b = int((runs.a & ~runs.b).sum()), int((runs.b & ~runs.a).sum())
        items = item_accuracy_difference(only_a, only_b, 200, rng=rng, resamples=400)
        covered += [covers(general, truth), covers(fast, truth), covers(items, truth)]
    low, high = stats.binom.interval(1 - 2e-4, tries, 0.95)
    # A percentile interval from 100 clusters and 400 resamples really covers about 94%.
    assert low - 0.01 * tries <= covered[0] <= high
    assert low - 0.01 * tries <= covered[1] <= high
    assert covered[2] < low - 0.01 * tries


def test_all_metrics_share_one_set_of_resamples() -> None:
    """A metric and its copy have one interval, and the difference that never varies has none."""
    rng = np.random.default_rng(10)
    values = rng.random((3, 40))
    a, b, c = (mean_statistic(row, np.arange(20).repeat(2), 20) for row in values)

    def shifted(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.asarray(b(weights) + 1.0)

    gaps = difference_statistics({"x": a, "y": a, "z": b}, {"x": c, "y": c, "z": shifted})
    assert list(gaps) == ["x", "y", "z"]
    found = bootstrap_intervals(gaps, n_clusters=20, n=40, rng=rng)
    assert found["x"] == found["y"]
    assert (found["z"].low, found["z"].value, found["z"].high) == pytest.approx((-1, -1, -1))
    assert found["x"].value == pytest.approx(values[0].mean() - values[2].mean())


def test_the_difference_of_infinities_is_undefined() -> None:
    def infinite(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.full(len(weights), np.inf)

    finite = mean_statistic([1.0, 2.0], [0, 1], 2)
    weights = np.ones((1, 2))
    assert difference_statistic(infinite, finite)(weights).tolist() == [np.inf]
    assert difference_statistic(finite, infinite)(weights).tolist() == [-np.inf]
    assert np.isnan(difference_statistic(infinite, infinite)(weights)).all()


def test_other_metrics_in_one_run_are_refused() -> None:
    mean = mean_statistic([1.0, 2.0], [0, 1], 2)
    one: dict[str, Statistic] = {"nll_nats": mean, "view_tv": mean}
    with pytest.raises(
        ValueError, match=r"the same metrics in both runs, got \['view_tv'\] in one"
    ):
        difference_statistics(one, {"nll_nats": mean})


def test_nothing_to_estimate_has_a_reason() -> None:
    rng = np.random.default_rng(11)
    empty = item_interval(0, 0, 0)
    assert np.isnan([empty.value, empty.low, empty.high]).all()
    assert empty.reason == "no rows: nothing to estimate"
    assert cluster_accuracy_difference([], [], [], rng=rng).reason == empty.reason
    one = item_interval(1, 0, 1)
    assert (one.value, one.reason) == (1.0, "one item: no interval")
    family = cluster_accuracy_difference([True, True], [True, False], [4, 4], rng=rng)
    assert (family.value, family.n, family.clusters) == (0.5, 2, 1)
    assert family.reason == "one family: no interval"
    assert np.isnan([one.low, one.high, family.low, family.high]).all()


def test_runs_that_agree_everywhere_are_no_certainty() -> None:
    for estimate in (
        item_interval(0, 0, 50),
        cluster_accuracy_difference(
            [True] * 4, [True] * 4, [0, 0, 1, 1], rng=np.random.default_rng(12)
        ),
    ):
        assert (estimate.low, estimate.value, estimate.high) == (0.0, 0.0, 0.0)
        assert (
            estimate.reason == "all resamples agree; a zero-width interval does not mean certainty"
        )


def test_the_interval_does_not_depend_on_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = item_interval(9, 4, 60)
    monkeypatch.setattr(module, "_BATCH_NUMBERS", 100)
    assert item_interval(9, 4, 60) == whole


def test_the_same_seed_gives_the_same_interval() -> None:
    assert item_interval(9, 4, 60, seed=3) == item_interval(9, 4, 60, seed=3)
    many = [item_interval(9000, 4000, 60_000, seed=seed).low for seed in (3, 4)]
    assert many[0] != many[1]


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_swapping_the_runs_mirrors_the_item_interval(b: int, c: int, agreed: int) -> None:
    """The value exactly, the ends to Monte Carlo error."""
    n = b + c + agreed
    one, other = (item_interval(*pair, n, resamples=2000) for pair in ((b, c), (c, b)))
    if n == 0:
        assert math.isnan(one.value)
        return
    assert one.value == -other.value
    if n > 1:
        assert -1 <= one.low <= one.value <= one.high <= 1
        # Two quantiles of 2,000 replicates, each with a standard error of 0.06 of their spread.
        spread = math.sqrt((b + c) / n - one.value**2) / math.sqrt(n)
        tolerance = 5 * math.sqrt(2) * 0.06 * spread + 1.001 / n
        assert one.low == pytest.approx(-other.high, abs=tolerance)


rows = st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 6)), min_size=1, max_size=30)


@given(st.data())
def test_permuting_rows_changes_nothing(data: st.DataObject) -> None:
    drawn = data.draw(rows)

    def estimate(sample: list[tuple[bool, bool, int]]) -> Estimate:
        a, b, family = zip(*sample, strict=True)
        rng = np.random.default_rng(13)
        return cluster_accuracy_difference(a, b, family, rng=rng, resamples=50)

    one, other = estimate(drawn), estimate(data.draw(st.permutations(drawn)))
    if one.clusters > 1:
        assert one == other
    else:
        assert (one.value, one.reason) == (other.value, other.reason)


def test_bad_arguments_are_refused() -> None:
    rng = np.random.default_rng(14)
    with pytest.raises(ValueError, match="got b=3, c=2, n=4"):
        item_interval(3, 2, 4)
    with pytest.raises(ValueError, match="got b=-1, c=2, n=4"):
        item_interval(-1, 2, 4)
    with pytest.raises(ValueError, match="resamples: expected at least 1"):
        item_interval(1, 1, 4, resamples=0)
    with pytest.raises(ValueError, match=r"confidence: expected a number in \(0, 1\), got 95"):
        item_accuracy_difference(1, 1, 4, rng=rng, confidence=95)
    with pytest.raises(ValueError, match="the same items in both runs"):
        cluster_accuracy_difference([True], [True, False], [0], rng=rng)
