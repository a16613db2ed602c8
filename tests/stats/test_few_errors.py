"""Few clusters with an error: the rule, and the limit of their number against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from messages import assert_says
from scipy import stats

from pact_eval.stats.rates import few_clusters, few_outcomes, lowest_share


def test_the_rule_by_hand() -> None:
    assert few_clusters(1) is None  # the estimate itself has the reason
    assert_says(few_clusters(4), "4 families", "fewer than 5", "no interval")
    assert_says(few_outcomes(0, 40), "no families", "an error", "fewer than 5", "no interval")
    assert_says(few_outcomes(40, 4), "4 families", "a right answer", "fewer than 5", "no interval")
    assert few_outcomes(5, 5) is None


@pytest.mark.parametrize("clusters", [9, 32, 162, 100_000])
@pytest.mark.parametrize("count", [6, 7, 8, 9])
def test_the_lowest_rate_is_that_of_a_cut_binomial_of_scipy(count: int, clusters: int) -> None:
    rate = lowest_share(count, clusters) * count / clusters
    left = stats.binom.sf(count - 1, clusters, rate) / stats.binom.sf(4, clusters, rate)
    assert left == pytest.approx(0.025, rel=1e-6)


def test_five_errors_are_compatible_with_any_lower_rate_by_theory() -> None:
    """Whatever the rate, five is the most likely count of those that have an interval."""
    assert lowest_share(5, 162) == pytest.approx(0, abs=1e-15)


def test_the_lowest_rate_holds_at_every_rate_by_theory() -> None:
    """Of the counts with an interval, at most 2.5% have a limit above the true rate."""
    counts = np.arange(5, 40)
    limits = np.array([lowest_share(int(count), 162) * count / 162 for count in counts])
    for rate in np.geomspace(0.001, 0.2, 40):
        chance = stats.binom.pmf(counts, 162, rate) / stats.binom.sf(4, 162, rate)
        assert float(chance[limits > rate].sum()) <= 0.025 + 1e-9
