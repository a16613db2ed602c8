"""P-values from the bootstrap, against intervals at every level and against the t test."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from pact_eval.stats import (
    Resampled,
    inverted_p_value,
    mean_statistic,
    replicates_p_value,
    resample,
)


def test_p_value_by_hand() -> None:
    """Two of nine replicates are not above 0: a = (1 + 2) / (9 + 1), and t in place of z."""
    drawn = [-1, 0, 1, 2, 3, 4, 5, 6, 7]
    t = math.sqrt(4 / 5) * stats.norm.ppf(0.3)
    assert replicates_p_value(drawn, 5) == pytest.approx(2 * stats.t.cdf(t, 4))
    assert replicates_p_value(drawn, 10**7) == pytest.approx(0.6, abs=1e-6)
    assert replicates_p_value([math.nan, *drawn], 5) == replicates_p_value(drawn, 5)
    assert replicates_p_value([0, 0], 5) == 1.0
    assert math.isnan(replicates_p_value([math.nan], 5))
    assert math.isnan(replicates_p_value(drawn, 1))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-3, 5), min_size=40, max_size=200), st.integers(20, 200))
def test_inverted_intervals_against_every_level(values: list[float], clusters: int) -> None:
    """The smallest level of 40 at which the interval leaves 0 out."""
    assume(max(values) > min(values))
    drawn = Resampled(float(np.mean(values)), np.array(values), clusters, clusters)
    found = inverted_p_value(drawn.estimate, len(values), clusters)
    for level in np.linspace(0.0125, 0.9875, 40):
        interval = drawn.estimate(1 - level)
        if interval.low > 0 or interval.high < 0:
            assert found <= max(level, replicates_p_value(np.ones(len(values)), clusters)) + 1e-9
        else:
            assert found >= level - 1e-9


def test_both_ways_agree_and_are_near_the_t_test() -> None:
    rng = np.random.default_rng(1)
    for lead in (0.0, 0.1, 0.2, 0.3):
        values = rng.normal(lead, 1, 150)
        statistic = mean_statistic(values, np.arange(150), 150)
        drawn = resample({"mean": statistic}, n_clusters=150, n=150, rng=rng)["mean"]
        p_value = replicates_p_value(drawn.replicates, 150)
        assert inverted_p_value(drawn.estimate, 10_000, 150) == pytest.approx(p_value, abs=0.001)
        assert p_value == pytest.approx(float(stats.ttest_1samp(values, 0).pvalue), abs=0.02)


def test_no_interval_is_no_p_value() -> None:
    none = Resampled(math.nan, np.full(10, math.nan), 0, 0)
    assert math.isnan(inverted_p_value(none.estimate, 10, 2))
