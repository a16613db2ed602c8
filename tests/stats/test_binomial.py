"""Exact binomial tests, against scipy and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from pact_eval.stats.rates import critical_count, p_value_above, p_value_below, trials_needed


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.2, 0.5, 0.9])
def test_p_values_against_scipy(rate: float) -> None:
    for n in (1, 7, 40):
        counts = np.arange(n + 1)
        below, above = p_value_below(counts, n, rate), p_value_above(counts, n, rate)
        for k in counts:
            less = binomtest(int(k), n, rate, alternative="less").pvalue
            more = binomtest(int(k), n, rate, alternative="greater").pvalue
            assert below[k] == pytest.approx(less)
            assert above[k] == pytest.approx(more)


def test_without_trials_nothing_is_shown() -> None:
    assert p_value_below(0, 0, 0.1) == p_value_above(0, 0, 0.1) == 1
    assert critical_count(0, 0.1, 0.05) == -1


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.95])
@pytest.mark.parametrize("level", [0.001, 0.05, 0.3])
def test_critical_counts_are_the_largest_that_pass(rate: float, level: float) -> None:
    n = np.arange(1, 300)
    k = critical_count(n, rate, level)
    passes = np.where(k >= 0, binom.cdf(k, n, rate), 0)
    assert (passes <= level).all()
    assert ((binom.cdf(k + 1, n, rate) > level) | (k + 1 > n)).all()


def test_trials_needed_by_hand() -> None:
    # 0.95^58 > 0.05 >= 0.95^59: without errors, 59 trials show an error below 5%.
    assert trials_needed(0.0, 0.05, 0.05) == 59
    # The mirror image: all positive.
    assert trials_needed(1.0, 0.95, 0.05) == 59
    assert trials_needed(0.049999, 0.05, 0.05) is None


def test_trials_needed_have_their_power() -> None:
    for true, rate in ((0.02, 0.05), (0.1, 0.2), (0.3, 0.2)):
        n = trials_needed(true, rate, 0.05)
        assert n is not None
        if true < rate:
            power = binom.cdf(binom.ppf(0.05, n, rate) - 1, n, true)
        else:
            power = binom.sf(binom.isf(0.05, n, rate), n, true)
        assert 0.7 < power < 0.95


def test_a_rate_that_takes_more_than_a_million_trials_has_no_number() -> None:
    """By the normal approximation, 0.049 against 0.05 takes 300,000, and 0.0499 takes 3e7."""
    near = trials_needed(0.049, 0.05, 0.05)
    assert near == pytest.approx((1.645 + 0.842) ** 2 * 0.05 * 0.95 / 0.001**2, rel=0.05)
    assert trials_needed(0.0499, 0.05, 0.05) is None
