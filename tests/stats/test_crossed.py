"""Differences over seeds and families, against the analysis of variance and a simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from pact_eval.stats.bootstrap import Resampled, mean_statistic, resample
from pact_eval.stats.crossed import crossed_difference


def drawn(values: np.ndarray, resamples: int = 2_000) -> list[Resampled]:
    """Returns the difference at each seed of (seeds, families) values, on the same resamples."""
    families = values.shape[1]
    return [
        resample(
            {"mean": mean_statistic(row, np.arange(families), families)},
            n_clusters=families,
            n=families,
            rng=np.random.default_rng(3),
            resamples=resamples,
        )["mean"]
        for row in values
    ]


def crossed(rng: np.random.Generator, seeds: int, families: int, of_seeds: float) -> np.ndarray:
    """Returns seeds and families as crossed random effects, with a mean of 0."""
    return (
        rng.normal(0, of_seeds, (seeds, 1))
        + rng.normal(0, 1, (1, families))
        + rng.normal(0, 1, (seeds, families))
    )


def test_interval_against_mean_squares() -> None:
    """The variance of the means of families and of the means of seeds, with scipy's quantile."""
    values = crossed(np.random.default_rng(2), 4, 60, 0.3) + 0.5
    difference = crossed_difference(drawn(values, 40_000))
    of_families = values.mean(axis=0).var(ddof=1) / 60
    of_seeds = values.mean(axis=1).var(ddof=1) / 4
    both = of_families + of_seeds
    degrees = both**2 / (of_families**2 / 59 + of_seeds**2 / 3)
    low, high = stats.t.interval(0.95, degrees, values.mean(), math.sqrt(both))
    assert difference.estimate.value == pytest.approx(values.mean())
    assert (difference.estimate.low, difference.estimate.high) == pytest.approx(
        (low, high), abs=0.01
    )
    assert difference.degrees == pytest.approx(degrees, rel=0.05)
    assert difference.seed_share == pytest.approx(of_seeds / both, rel=0.05)
    p_value = 2 * stats.t.sf(values.mean() / math.sqrt(both), degrees)
    assert difference.p_value == pytest.approx(p_value, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("of_seeds", [0.0, 0.1, 0.3])
def test_coverage_of_three_seeds(of_seeds: float) -> None:
    """Null arms: the interval holds 0, and p is above 0.05, about 95 times in 100."""
    rng = np.random.default_rng(5)
    differences = [
        crossed_difference(drawn(crossed(rng, 3, 100, of_seeds), 200)) for _ in range(300)
    ]
    covered = sum(
        difference.estimate.low <= 0 <= difference.estimate.high for difference in differences
    )
    assert 270 <= covered <= 299
    assert covered == sum(difference.p_value >= 0.05 for difference in differences)


def test_too_few_seeds_are_held_fixed() -> None:
    values = crossed(np.random.default_rng(2), 2, 20, 0.3)
    for seeds, words in ((1, "one seed: no interval over seeds"), (2, "2 seeds: no interval")):
        difference = crossed_difference(drawn(values[:seeds], 100))
        assert difference.estimate.value == pytest.approx(values[:seeds].mean())
        assert math.isnan(difference.estimate.low)
        assert math.isnan(difference.p_value)
        assert difference.estimate.reason is not None
        assert difference.estimate.reason.startswith(words)


def test_undefined_and_certain_differences_have_no_interval() -> None:
    certain = [Resampled(0.5, np.full(10, 0.5), 4, 4)] * 3
    undefined = [*certain[:2], Resampled(math.nan, np.full(10, math.nan), 4, 4)]
    single = [Resampled(0.5, np.full(10, math.nan), 1, 1)] * 3
    for runs, words in (
        (certain, "all seeds and all resamples agree"),
        (undefined, "undefined or infinite at some seed"),
        (single, "one family"),
    ):
        estimate = crossed_difference(runs).estimate
        assert math.isnan(estimate.low)
        assert words in (estimate.reason or "")
