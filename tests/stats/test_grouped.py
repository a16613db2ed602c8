"""The bootstrap drawn by kinds of clusters has the distribution of the plain one."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from pact_eval.stats import (
    Estimate,
    bootstrap_intervals,
    grouped,
    mean_interval,
    mean_statistic,
    percentile_estimate,
    ratio_interval,
    ratio_statistic,
    resampled_label_counts,
)

Array = npt.NDArray[np.float64]


@pytest.fixture
def replicates(monkeypatch: pytest.MonkeyPatch) -> list[Array]:
    """The replicates of every grouped interval that a test makes."""
    seen: list[Array] = []

    def recording(value: float, drawn: Array, **options: Any) -> Estimate:
        seen.append(drawn)
        return original(value, drawn, **options)

    original = percentile_estimate
    monkeypatch.setattr(grouped, "percentile_estimate", recording)
    return seen


def plain_replicates(
    top: Array, bottom: Array, cluster: npt.NDArray[np.int64], resamples: int, seed: int
) -> Array:
    """Draws clusters one by one."""
    n_clusters = int(cluster.max()) + 1
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(n_clusters, np.full(n_clusters, 1 / n_clusters), resamples)
    statistic = ratio_statistic(top, bottom, cluster, n_clusters)
    return statistic(weights.astype(np.float64))


def assert_same_distribution(one: Array, other: Array, spread: float) -> None:
    """Compares quantiles; of N normal replicates the 2.5% one errs by 2.7 spreads / sqrt(N)."""
    tolerance = 5 * 2.7 * spread * math.sqrt(1 / one.size + 1 / other.size)
    for share in (0.025, 0.25, 0.5, 0.75, 0.975):
        gap = abs(np.quantile(one, share) - np.quantile(other, share))
        assert gap < tolerance, share


def test_few_kinds_against_every_resample(replicates: list[Array]) -> None:
    """Four clusters have 256 resamples; the chance of each ratio is counted."""
    top = np.array([1.0, 1.0, 0.0, 2.0, 0.0, 0.0])
    bottom = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    cluster = np.array([0, 0, 1, 2, 3, 3])
    ratio_interval(top, bottom, cluster, 4, rng=np.random.default_rng(1), resamples=200_000)
    tops, bottoms = np.array([2.0, 0.0, 2.0, 0.0]), np.array([2.0, 1.0, 1.0, 1.0])
    exact: dict[float, float] = {}
    for drawn in product(range(4), repeat=4):
        value = round(float(tops[list(drawn)].sum() / bottoms[list(drawn)].sum()), 12)
        exact[value] = exact.get(value, 0.0) + 1 / 256
    values, counts = np.unique(replicates[0].round(12), return_counts=True)
    assert set(values.tolist()) <= exact.keys()
    for value, chance in exact.items():
        found = counts[values == value].sum() / 200_000
        assert found == pytest.approx(chance, abs=5 * math.sqrt(chance / 200_000))


def test_few_kinds_against_the_plain_bootstrap(replicates: list[Array]) -> None:
    rng = np.random.default_rng(2)
    cluster = rng.integers(0, 80, 150)
    cluster = np.unique(cluster, return_inverse=True)[1]
    wrong = (rng.random(150) < 0.4).astype(float)
    sure = wrong * (rng.random(150) < 0.3)
    estimate = ratio_interval(sure, wrong, cluster, int(cluster.max()) + 1, rng=rng)
    assert estimate.value == pytest.approx(sure.sum() / wrong.sum(), rel=1e-14)
    plain = plain_replicates(sure, wrong, cluster, 40_000, 3)
    assert_same_distribution(replicates[0], plain, float(plain.std()))


@pytest.mark.parametrize("bins", [8, 64])
def test_binned_sums_against_the_plain_bootstrap(bins: int, replicates: list[Array]) -> None:
    """Families of one and two with skewed values: ratio, skewness and all."""
    rng = np.random.default_rng(4)
    cluster = np.r_[np.arange(150).repeat(2), 150 + np.arange(60)]
    values = rng.exponential(size=360) ** 1.5 + (cluster % 2) * 0.5
    estimate = mean_interval(values, cluster, 210, rng=rng, resamples=20_000, bins=bins)
    assert estimate.value == pytest.approx(values.mean(), rel=1e-12)
    assert (estimate.n, estimate.clusters, estimate.reason) == (360, 210, None)
    assert estimate.method == "95% percentile bootstrap over clusters, 20,000 resamples"
    plain = plain_replicates(values, np.ones(360), cluster, 20_000, 5)
    assert_same_distribution(replicates[0], plain, float(plain.std()))
    assert stats.skew(replicates[0]) == pytest.approx(stats.skew(plain), abs=0.12)


def test_the_binning_error_stays_below_its_bound(replicates: list[Array]) -> None:
    """Three bins for 30 values: variance is kept by the normal part, distance by the bound."""
    values = np.random.default_rng(6).exponential(size=30)
    resamples, n = 100_000, 30
    mean_interval(values, rng=np.random.default_rng(7), resamples=resamples, bins=3)
    plain = plain_replicates(values, np.ones(n), np.arange(n), resamples, 8)
    width = np.ptp(values) / 3
    spread = values.std() / math.sqrt(n)
    # Of two samples of N from one distribution the distance is about 0.8 spreads / sqrt(N).
    noise = 4 * spread / math.sqrt(resamples)
    assert stats.wasserstein_distance(replicates[0], plain) <= width / n + noise
    assert replicates[0].mean() == pytest.approx(values.mean(), abs=noise)
    # Without the normal part the spread would be some 8% short.
    assert replicates[0].std() == pytest.approx(spread, rel=0.012)


def test_a_million_nlls_against_the_analytic_interval() -> None:
    nll = np.random.default_rng(9).exponential(size=1_000_000)
    estimate = mean_interval(nll, rng=np.random.default_rng(10), resamples=4_000)
    expected = stats.norm.interval(0.95, nll.mean(), nll.std() / 1_000)
    assert estimate.value == pytest.approx(nll.mean(), rel=1e-13)
    assert (estimate.low, estimate.high) == pytest.approx(expected, abs=0.21e-3)


def test_singletons_against_scipy_bootstrap() -> None:
    values = np.random.default_rng(11).exponential(size=60)
    expected = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=50_000,
        batch=5_000,
        method="percentile",
        rng=np.random.default_rng(12),
    )
    ours = mean_interval(values, rng=np.random.default_rng(13), resamples=50_000, bins=16)
    tolerance = 5 * math.sqrt(2) * 0.012 * float(expected.standard_error)
    interval = tuple(expected.confidence_interval)
    assert (ours.low, ours.high) == pytest.approx(interval, abs=tolerance)


def test_infinities_count_where_they_were_drawn() -> None:
    """One item in 2,000 is infinite: 37% of the resamples miss it."""
    nll = np.r_[np.linspace(0.1, 2, 1999), np.inf]
    estimate = mean_interval(nll, rng=np.random.default_rng(14))
    assert (estimate.value, estimate.high) == (np.inf, np.inf)
    assert 1.0 < estimate.low < 1.1
    assert estimate.reason == "infinite on these rows"
    minus = mean_interval(-nll, rng=np.random.default_rng(14))
    assert (minus.value, minus.low) == (-np.inf, -np.inf)
    both = mean_interval(np.r_[nll, -np.inf], rng=np.random.default_rng(15))
    assert math.isnan(both.value)
    undefined = mean_interval(np.r_[nll[:-1], np.nan], rng=np.random.default_rng(16))
    assert undefined.reason == "undefined on these rows"


def test_infinite_members_make_their_family_infinite() -> None:
    values, cluster = np.array([1.0, np.inf, 2.0, 3.0, 5.0, 6.0]), np.arange(3).repeat(2)
    general = bootstrap_intervals(
        {"nll": mean_statistic(values, cluster, 3)},
        n_clusters=3,
        n=6,
        rng=np.random.default_rng(17),
    )["nll"]
    ours = mean_interval(values, cluster, 3, rng=np.random.default_rng(18))
    assert ours == general


def test_undefined_resamples_are_left_out_and_reported() -> None:
    """The denominator lives in two families of 10: (8/10)^10 = 11% of the resamples miss it."""
    subset = np.r_[np.ones(2), np.zeros(8)]
    rng = np.random.default_rng(19)
    estimate = ratio_interval(subset * np.arange(10), subset, rng=rng)
    assert (estimate.low, estimate.value, estimate.high) == (0.0, 0.5, 1.0)
    share = float(str(estimate.reason).split("%")[0])
    assert share == pytest.approx(100 * 0.8**10, abs=1.5)


def test_too_little_to_resample_has_a_reason() -> None:
    rng = np.random.default_rng(20)
    nothing = mean_interval([], rng=rng)
    assert math.isnan(nothing.value)
    assert nothing.reason == "no rows: nothing to estimate"
    one = mean_interval([1.0, 2.0], [0, 0], 1, rng=rng)
    assert (one.value, one.reason) == (1.5, "one family: no interval")
    agreed = mean_interval(np.ones(50), rng=rng)
    assert (agreed.low, agreed.value, agreed.high) == (1.0, 1.0, 1.0)
    assert agreed.reason == "every resample agrees: the width 0 is no certainty"


@pytest.mark.parametrize("numbers", [1, 300, 5_000])
def test_the_interval_does_not_depend_on_the_batches(
    numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = np.arange(500) % 7 > 1
    whole = mean_interval(right, rng=np.random.default_rng(21), resamples=1_000)
    monkeypatch.setattr(grouped, "_BATCH_NUMBERS", numbers)
    assert mean_interval(right, rng=np.random.default_rng(21), resamples=1_000) == whole


def test_the_order_of_rows_changes_nothing() -> None:
    rng = np.random.default_rng(22)
    values, cluster = rng.exponential(size=900), rng.integers(0, 500, 900)
    order = rng.permutation(900)
    one, other = (
        mean_interval(v, c, 500, rng=np.random.default_rng(23), resamples=500)
        for v, c in ((values, cluster), (values[order], cluster[order]))
    )
    assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-12)


@pytest.mark.parametrize("largest", [1, 2, 3])
def test_label_counts_against_drawing_clusters(largest: int) -> None:
    """Mean, covariance and total of the counts, for clusters of one row, two, and more."""
    rng = np.random.default_rng(30 + largest)
    cluster = np.arange(60).repeat(rng.integers(1, largest + 1, 60))
    label = rng.integers(0, 4, cluster.size)
    label[cluster < 20] = 1
    resamples = 20_000
    ours = resampled_label_counts(label, 4, cluster, 60, rng=rng, resamples=resamples)
    held = np.zeros((60, 4))
    np.add.at(held, (cluster, label), 1.0)
    plain = rng.multinomial(60, np.full(60, 1 / 60), resamples) @ held
    assert (ours == np.round(ours)).all()
    if largest == 1:
        assert (ours.sum(axis=1) == 60).all()
    spread = plain.std(axis=0)
    tolerance = 5 * spread / math.sqrt(resamples)
    assert (np.abs(ours.mean(axis=0) - held.sum(axis=0)) < tolerance).all()
    gap = np.cov(ours.T) - np.cov(plain.T)
    # A covariance of N draws errs by at most about 1.5 products of spreads / sqrt(N).
    assert (np.abs(gap) < 5 * 2.1 * np.outer(spread, spread) / math.sqrt(resamples)).all()


def test_label_counts_keep_the_members_of_a_pair_together() -> None:
    """Every family holds labels 0 and 1, or 2 twice: the counts of 0 and 1 are equal."""
    label, cluster = np.r_[[0, 1, 2, 2] * 10], np.arange(20).repeat(2)
    counts = resampled_label_counts(
        label, 3, cluster, 20, rng=np.random.default_rng(40), resamples=200
    )
    np.testing.assert_array_equal(counts[:, 0], counts[:, 1])
    np.testing.assert_array_equal(counts[:, 2] + 2 * counts[:, 0], 40)
    assert np.unique(counts[:, 2]).size > 5


def test_bad_arguments_are_refused() -> None:
    rng = np.random.default_rng(50)
    for options, message in (
        ({"denominator": [1.0]}, r"two equal shapes \(n,\)"),
        ({"denominator": [1.0, 0.5]}, "denominator: expected whole numbers"),
        ({"denominator": [1.0, -1.0]}, "denominator: expected whole numbers"),
        ({"bins": 0}, "bins: expected at least 1"),
        ({"resamples": 0}, "resamples: expected at least 1"),
        ({"confidence": 95.0}, "confidence: expected a number in"),
        ({"cluster": [0, 1]}, "cluster and n_clusters both, or neither"),
        ({"cluster": [0, 2], "n_clusters": 2}, r"cluster: expected codes in 0\.\.1"),
    ):
        arguments: dict[str, Any] = {"numerator": [1.0, 2.0], "denominator": [1.0, 1.0], **options}
        with pytest.raises(ValueError, match=message):
            ratio_interval(**arguments, rng=rng)
    with pytest.raises(ValueError, match="at most 64 sizes, got 65; use bootstrap_intervals"):
        ratio_interval(np.ones(65), np.arange(65), rng=rng)
    with pytest.raises(ValueError, match=r"label: expected 0\.\.1, got 0\.\.2"):
        resampled_label_counts([0, 2], 2, [0, 1], 2, rng=rng, resamples=1)
