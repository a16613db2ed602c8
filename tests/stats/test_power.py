"""The smallest difference that an interval would show, against theory and simulation."""

import math

import numpy as np
import pytest
from paired_runs import Pairs
from scipy import stats

from pact_eval.stats.estimate import Estimate
from pact_eval.stats.power import detectable_difference
from pact_eval.stats.rate_differences import paired_rates


def interval(low: float, high: float, clusters: int) -> Estimate:
    return Estimate((low + high) / 2, low, high, 2 * clusters, clusters)


def test_the_z_test_of_a_known_error_has_a_power_of_80_percent() -> None:
    """Theory: a difference of (z_.975 + z_.8) standard errors is beyond 1.96 of them."""
    error, many = 0.02, 1_000_000
    reach = stats.norm.ppf(0.975) * error
    smallest = detectable_difference(interval(-reach, reach, many))
    assert stats.norm.sf(stats.norm.ppf(0.975) - smallest / error) == pytest.approx(0.8, abs=1e-5)


@pytest.mark.parametrize("clusters", [3, 10, 30])
def test_few_clusters_have_quantiles_of_t(clusters: int) -> None:
    """Theory: the t test has about this power, by the noncentral t distribution."""
    reach = stats.t.ppf(0.975, clusters - 1)  # of a standard error of 1 / 100
    smallest = detectable_difference(interval(-reach / 100, reach / 100, clusters))
    assert 100 * smallest == pytest.approx(reach + stats.t.ppf(0.8, clusters - 1), rel=1e-9)
    power = stats.nct.sf(reach, clusters - 1, 100 * smallest)
    assert power == pytest.approx(0.8, abs=0.04)


def test_a_quarter_of_the_width_needs_sixteen_times_the_rows() -> None:
    """Equation of the docstring: n (delta / Delta)^2."""
    wide, narrow = (detectable_difference(interval(-r, r, 5_000)) for r in (0.08, 0.02))
    assert (wide / narrow) ** 2 == pytest.approx(16)


@pytest.mark.parametrize("copies", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(("pairs", "share"), [(162, 0.176), (40, 0.3), (162, 0.03)])
def test_the_interval_has_the_power_that_it_promises(
    pairs: int, share: float, copies: float
) -> None:
    """Simulation: runs that differ by the median difference show it in 80% or a little more."""
    rng = np.random.default_rng(2)

    def estimate(difference: float) -> Estimate:
        runs = Pairs(pairs, max(share, difference), difference, copies).draw(rng)
        return paired_rates(runs.a.astype(int) - runs.b, runs.family, pairs).estimate()

    smallest = float(np.median([detectable_difference(estimate(0.0)) for _ in range(60)]))
    shown = sum(estimate(smallest).excludes_zero for _ in range(300))
    assert 0.72 < shown / 300 < 0.97


@pytest.mark.parametrize(
    "difference",
    [
        Estimate(0.1, math.nan, math.nan, 8, 4),
        Estimate(0.1, -0.1, 0.3, 8, 1),
        interval(-0.9, 0.9, 4),  # 1.2 would be needed
    ],
)
def test_nothing_is_detectable(difference: Estimate) -> None:
    assert math.isnan(detectable_difference(difference))
