"""The score interval of a difference of rates: against its likelihood, by hand, and McNemar."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import assert_says
from scipy import optimize, stats
from statsmodels.stats.contingency_tables import mcnemar

from pact_eval.stats.linearised import linear_inference, linearised_ratio
from pact_eval.stats.rate_differences import PairedRates, paired_rates


def constrained_share(b: float, c: float, difference: float) -> float:
    """Maximise b log(q + d) + c log(q) + (1 - b - c) log(1 - 2 q - d) over q."""

    def loss(q: float) -> float:
        parts = ((b, q + difference), (c, q), (1 - b - c, 1 - 2 * q - difference))
        return -sum(weight * math.log(max(share, 1e-300)) for weight, share in parts if weight)

    low, high = max(0.0, -difference), (1 - difference) / 2
    minimum = optimize.minimize_scalar(
        loss, bounds=(low, high), method="bounded", options={"xatol": 1e-12}
    )
    return float(minimum.x)


@pytest.mark.parametrize(
    ("b", "c", "n"), [(39, 18, 324), (2, 6, 20), (0, 5, 30), (12, 1, 14), (3, 3, 9)]
)
def test_ends_against_the_score_test_by_maximum_likelihood(b: int, c: int, n: int) -> None:
    interval = PairedRates((b - c) / n, (b + c) / n, n, n, 8, 7).estimate()
    t = stats.t.ppf(0.975, 7)
    for end in (interval.low, interval.high):
        if abs(end) < 1 - 1e-9:
            q = constrained_share(b / n, c / n, end)
            score = (interval.value - end) / math.sqrt((2 * q + end * (1 - end)) / n)
            assert abs(score) == pytest.approx(t, rel=1e-4)
    assert -1 <= interval.low < interval.value < interval.high <= 1


def test_no_row_differs_by_hand() -> None:
    """q = 0, so n d^2 = t^2 d (1 - d): both ends are t^2 / (n + t^2) away from 0."""
    rates = paired_rates([0] * 16, np.arange(8).repeat(2), 8)
    t = stats.t.ppf(0.975, 7)
    assert rates.n_effective == 8
    estimate = rates.estimate()
    assert (estimate.low, estimate.high) == pytest.approx((-(t**2) / (8 + t**2), -estimate.low))
    assert (estimate.value, rates.p_value(), estimate.reason) == (0.0, 1.0, None)


def test_effective_rows_by_hand() -> None:
    """Leads 1, -1, 2, 0 of pairs: d = 1/4, V = 4/3 (1/4 + 9/4 + 9/4 + 1/4) / 64 = 5/48."""
    rates = paired_rates([1, 0, 0, -1, 1, 1, 0, 0], np.arange(4).repeat(2), 4)
    assert (rates.value, rates.differing) == (0.25, 0.5)
    assert rates.n_effective == pytest.approx((0.5 - 0.0625) / (5 / 48))


@pytest.mark.parametrize("lead", [[1, -1] * 6, [1, 0] * 6, [1, 1] * 6])
def test_clusters_of_one_lead_count_once_each(lead: list[int]) -> None:
    rates = paired_rates(lead, np.arange(6).repeat(2), 6)
    estimate = rates.estimate()
    assert rates.n_effective == 6
    assert estimate.high - estimate.low > 0.3
    assert estimate.low <= estimate.value <= estimate.high


def test_clusters_of_several_sizes_and_empty_ones() -> None:
    lead, cluster = [0, 0, 0, 0, 0, 0], [0, 0, 0, 2, 2, 4]
    rates = paired_rates(lead, cluster, 6)
    assert (rates.clusters, rates.n) == (3, 6)
    assert rates.n_effective == pytest.approx(36 / 14)


def test_independent_rows_against_mcnemar() -> None:
    """The score at 0 is McNemar's, but for n - 1 in place of n."""
    b, c, n = 39, 18, 324
    lead = np.repeat([1, -1, 0], [b, c, n - b - c])
    expected = mcnemar([[0, b], [c, 0]], exact=False, correction=False).statistic
    rates = paired_rates(lead, np.arange(n), n)
    share = (b + c) / n
    of_variance = (share - rates.estimate().value ** 2) / share  # McNemar's variance is under 0
    t = math.sqrt(expected * (n - 1) / n)
    assert rates.n_effective == pytest.approx(n - 1)
    assert rates.p_value() == pytest.approx(2 * stats.t.sf(t, n - 1))
    assert 0.9 < of_variance < 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([-1.0, 0.0, 1.0, 1 / 3, -2 / 3]), min_size=4, max_size=24),
    st.integers(1, 3),
)
def test_the_p_value_inverts_the_interval_and_swapping_mirrors_it(
    lead: list[float], size: int
) -> None:
    cluster = np.arange(len(lead)) // size
    clusters = int(cluster.max()) + 1
    rates = paired_rates(lead, cluster, clusters)
    swapped = paired_rates([-difference for difference in lead], cluster, clusters).estimate()
    estimate = rates.estimate()
    if clusters < 2:
        assert math.isnan(estimate.low)
        return
    assert (swapped.low, swapped.high) == pytest.approx((-estimate.high, -estimate.low))
    assert estimate.low < estimate.high
    p_value = rates.p_value()
    for level in (0.01, 0.05, 0.4):
        other = rates.estimate(1 - level)
        if abs(p_value - level) > 1e-6:
            assert (other.low > 0 or other.high < 0) == (p_value < level)


def test_many_clusters_have_the_interval_of_their_variance() -> None:
    rng = np.random.default_rng(1)
    shared = rng.choice([-1, 0, 1], p=[0.1, 0.75, 0.15], size=(5_000, 1))
    lead = np.where(rng.random((5_000, 2)) < 0.6, shared, 0)
    interval = paired_rates(lead.ravel(), np.arange(5_000).repeat(2), 5_000).estimate()
    linear = linearised_ratio(lead.sum(axis=1).astype(float), np.full(5_000, 2.0))
    plain = linear_inference(float(lead.mean()), linear, n=10_000).estimate()
    width = plain.high - plain.low
    assert interval.low == pytest.approx(plain.low, abs=0.005 * width)
    assert interval.high == pytest.approx(plain.high, abs=0.005 * width)


def test_one_cluster_and_no_rows() -> None:
    assert paired_rates([1, 0], [0, 0], 1).estimate().reason == "one family: no interval"
    assert math.isnan(paired_rates([1, 0], [0, 0], 1).p_value())
    assert_says(paired_rates([], [], 0).estimate().reason, "no rows", "nothing to estimate")
    with pytest.raises(ValueError, match="lead"):
        paired_rates([2, 0], [0, 1], 2)


@pytest.mark.slow
@pytest.mark.parametrize("families", [8, 12, 32])
def test_coverage_with_few_families(families: int) -> None:
    """Members share their lead half of the time; the percentile interval covers 80 to 90%."""
    rng, tries, covered = np.random.default_rng(2), 1_000, 0
    cluster = np.arange(families).repeat(2)
    for _ in range(tries):
        lead = rng.choice([-1, 0, 1], p=[0.08, 0.8, 0.12], size=(families, 2))
        alike = rng.random(families) < 0.5
        lead[alike, 1] = lead[alike, 0]
        interval = paired_rates(lead.ravel(), cluster, families).estimate()
        covered += interval.low <= 0.04 <= interval.high
    assert covered > 0.94 * tries
