import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import assert_says

from pact_eval.stats.bootstrap import Resampled, mean_statistic, resample
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.paired_tests import item_accuracy_difference

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


def test_items_against_the_bootstrap_of_singletons() -> None:
    lead = np.repeat([1.0, -1.0, 0.0], [39, 18, 267])
    general = resample(
        {"gap": mean_statistic(lead, np.arange(324), 324)},
        n_clusters=324,
        n=324,
        rng=np.random.default_rng(5),
    )["gap"].estimate()
    ours = item_interval(39, 18, 324)
    assert ours.value == pytest.approx(general.value)
    assert (ours.low, ours.high) == pytest.approx((general.low, general.high), abs=1.01 / 324)
    assert (ours.n, ours.clusters, ours.reason) == (324, 324, None)
    assert_says(ours.method, "95% percentile bootstrap", "over items", "paired", "10,000 resamples")


def test_all_metrics_share_one_set_of_resamples() -> None:
    """A metric and its copy have one interval; a difference that never varies has none."""
    values = np.random.default_rng(10).random((3, 40))
    a, b, c = (mean_statistic(row, np.arange(20).repeat(2), 20) for row in values)

    def shifted(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.asarray(b(weights) + 1.0)

    statistics = {"a": a, "copy": a, "b": b, "c": c, "shifted": shifted}
    drawn = resample(statistics, n_clusters=20, n=40, rng=np.random.default_rng(10))
    gap = (drawn["a"] - drawn["c"]).estimate()
    assert gap == (drawn["copy"] - drawn["c"]).estimate()
    assert gap.low < gap.high
    assert gap.value == pytest.approx(values[0].mean() - values[2].mean())
    constant = (drawn["b"] - drawn["shifted"]).estimate()
    assert constant.value == pytest.approx(-1)
    assert np.isnan([constant.low, constant.high]).all()


def test_the_difference_of_infinities_is_undefined() -> None:
    infinite = Resampled(math.inf, 3, lambda: np.full(3, np.inf), 4, 2)
    finite = Resampled(1.0, 3, lambda: np.ones(3), 4, 2)
    assert (infinite - finite).value == math.inf
    assert (finite - infinite).replicates.tolist() == [-math.inf] * 3
    assert math.isnan((infinite - infinite).value)
    assert np.isnan((infinite - infinite).replicates).all()


def test_nothing_to_estimate_has_a_reason() -> None:
    empty = item_interval(0, 0, 0)
    assert np.isnan([empty.value, empty.low, empty.high]).all()
    assert_says(empty.reason, "no rows", "nothing to estimate")
    one = item_interval(1, 0, 1)
    assert (one.value, one.reason) == (1.0, "one item: no interval")
    assert np.isnan([one.low, one.high]).all()


def test_runs_that_agree_everywhere_are_no_certainty() -> None:
    estimate = item_interval(0, 0, 50)
    assert estimate.value == 0.0
    assert np.isnan([estimate.low, estimate.high]).all()
    assert_says(estimate.reason, "all resamples agree", "not mean certainty", "no interval")


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_swapping_the_runs_mirrors_the_item_interval(b: int, c: int, agreed: int) -> None:
    """The value exactly, the ends to Monte Carlo error."""
    n = b + c + agreed
    one, other = (item_interval(*pair, n, resamples=2000) for pair in ((b, c), (c, b)))
    if n == 0:
        assert math.isnan(one.value)
        return
    assert one.value == -other.value
    if n in (b, c, agreed):  # all resamples agree, or there is one item
        assert np.isnan([one.low, one.high, other.low, other.high]).all()
    else:
        assert -1 <= one.low <= one.value <= one.high <= 1
        # Two quantiles of 2,000 replicates, each with a standard error of 0.06 of their spread.
        spread = math.sqrt((b + c) / n - one.value**2) / math.sqrt(n)
        tolerance = 5 * math.sqrt(2) * 0.06 * spread + 1.001 / n
        assert one.low == pytest.approx(-other.high, abs=tolerance)


def test_bad_arguments_are_refused() -> None:
    rng = np.random.default_rng(14)
    with pytest.raises(ValueError, match="got b=3, c=2, n=4"):
        item_interval(3, 2, 4)
    with pytest.raises(ValueError, match="got b=-1, c=2, n=4"):
        item_interval(-1, 2, 4)
    with pytest.raises(ValueError, match="resamples: expected at least 1"):
        item_interval(1, 1, 4, resamples=0)
    with pytest.raises(ValueError, match=r"confidence: .*\(0, 1\), got 95"):
        item_accuracy_difference(1, 1, 4, rng=rng, confidence=95)
