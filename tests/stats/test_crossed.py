"""Differences over seeds and families, against the analysis of variance and a simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from pact_eval.stats.estimate import ClusterText, Estimate
from pact_eval.stats.seeds import CrossedDifference, crossed_difference

DRAWS = 120


def same_seeds(values: np.ndarray) -> Estimate:
    """Returns the mean of (seeds, families) values with its t interval over families."""
    by_family, families = values.mean(axis=0), values.shape[1]
    low, high = stats.t.interval(0.95, families - 1, by_family.mean(), stats.sem(by_family))
    return Estimate(float(by_family.mean()), float(low), float(high), families, families)


def over_seeds(values: np.ndarray) -> CrossedDifference:
    return crossed_difference(values.mean(axis=1), same_seeds(values))


def crossed(
    rng: np.random.Generator, seeds: int, families: int, spread: tuple[float, float, float]
) -> np.ndarray:
    """Returns seeds, families and their interaction as random effects, with a mean of 0."""
    of_seeds, of_families, of_both = spread
    return (
        rng.normal(0, of_seeds, (seeds, 1))
        + rng.normal(0, of_families, (1, families))
        + rng.normal(0, of_both, (seeds, families))
    )


def test_interval_against_mean_squares() -> None:
    """The variance of the means of families and of the means of seeds, with scipy's quantile."""
    values = crossed(np.random.default_rng(2), 4, 60, (0.3, 1, 1)) + 0.5
    difference = over_seeds(values)
    of_families = values.mean(axis=0).var(ddof=1) / 60
    of_seeds = values.mean(axis=1).var(ddof=1) / 4
    both = of_families + of_seeds
    degrees = math.floor(both**2 / (of_families**2 / 59 + of_seeds**2 / 3))
    expected = stats.t.interval(0.95, degrees, values.mean(), math.sqrt(both))
    estimate = difference.estimate
    assert estimate.value == pytest.approx(values.mean())
    assert (estimate.low, estimate.high) == pytest.approx(expected)
    p_value = 2 * stats.t.sf(values.mean() / math.sqrt(both), degrees)
    assert difference.p_value == pytest.approx(p_value)


def test_seeds_that_agree_leave_the_interval_of_families() -> None:
    values = crossed(np.random.default_rng(3), 1, 50, (0, 1, 0)).repeat(3, axis=0)
    fixed, new = same_seeds(values), over_seeds(values).estimate
    assert (new.low, new.high) == pytest.approx((fixed.low, fixed.high))


@pytest.mark.parametrize(
    "spread", [(0, 1, 0.1), (0.3, 0, 0.1), (0.1, 1, 1), (0.3, 1, 1), (0, 1, 1), (0, 0, 1)], ids=str
)
def test_coverage_of_three_seeds(spread: tuple[float, float, float]) -> None:
    """Null arms with noise of seeds, of families and of both: 0 is held in 95% or more."""
    rng = np.random.default_rng(5)
    differences = [over_seeds(crossed(rng, 3, 100, spread)) for _ in range(DRAWS)]
    covered = sum(not difference.estimate.excludes_zero for difference in differences)
    assert covered >= stats.binom.ppf(0.001, DRAWS, 0.94)
    assert covered == sum(difference.p_value >= 0.05 for difference in differences)


def test_too_few_seeds_are_held_fixed() -> None:
    values = crossed(np.random.default_rng(2), 2, 20, (0.3, 1, 1))
    for seeds, words in ((1, "one seed: no interval over seeds"), (2, "2 seeds: no interval")):
        difference = over_seeds(values[:seeds])
        assert difference.estimate.value == pytest.approx(values[:seeds].mean())
        assert math.isnan(difference.estimate.low)
        assert math.isnan(difference.p_value)
        assert difference.estimate.reason is not None
        assert difference.estimate.reason.startswith(words)


def test_undefined_differences_have_no_interval() -> None:
    interval = Estimate(0.5, 0.4, 0.6, 8, 4)
    none = Estimate(0.5, math.nan, math.nan, 8, 1, reason=ClusterText("one {cluster}: no interval"))
    for by_seed, of_families, words in (
        ([0.5, 0.5, math.nan], interval, "undefined or infinite at some seed"),
        ([0.4, 0.5, 0.6], none, "one family"),
        ([0.4, 0.5, 0.6], Estimate(0.5, -math.inf, 0.6, 8, 4), "no finite interval"),
    ):
        estimate = crossed_difference(by_seed, of_families).estimate
        assert math.isnan(estimate.low)
        assert words in (estimate.reason or "")


def test_it_holds_the_interval_of_the_same_seeds() -> None:
    """Also if that is not around the value, as that of ECE."""
    fixed = Estimate(0.05, -0.01, 0.04, 324, 162)
    new = crossed_difference([0.02, 0.05, 0.08], fixed).estimate
    assert new.low < fixed.low < fixed.high < new.high
    assert new.low + new.high == pytest.approx(0.03)
