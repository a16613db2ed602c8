"""P-values from the bootstrap, against intervals at every level and against the t test."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from pact_eval.stats.bootstrap import (
    Resampled,
    inverted_p_value,
    least_p_value,
    mean_statistic,
    resample,
)


def test_least_p_value_by_hand() -> None:
    """No replicate of nine is beyond 0: a = 1 / (9 + 1), and t in place of z."""
    t = math.sqrt(4 / 5) * stats.norm.ppf(0.1)
    assert least_p_value(9, 5) == pytest.approx(2 * stats.t.cdf(t, 4))
    assert least_p_value(9, 10**7) == pytest.approx(0.2, abs=1e-6)
    assert least_p_value(1, 5) == 1.0
    beyond = Resampled(1.0, 9, lambda: np.linspace(0.5, 1.5, 9), 5, 5)
    assert beyond.p_value() == least_p_value(9, 5)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(-3, 5), min_size=40, max_size=200), st.integers(20, 200))
def test_inverted_intervals_against_every_level(values: list[float], clusters: int) -> None:
    """The smallest level of 40 at which the interval leaves 0 out."""
    assume(max(values) > min(values))
    mean, n = float(np.mean(values)), len(values)
    drawn = Resampled(mean, n, lambda: np.array(values), clusters, clusters)
    p_value = inverted_p_value(drawn.estimate, len(values), clusters)
    for level in np.linspace(0.0125, 0.9875, 40):
        interval = drawn.estimate(1 - level)
        if interval.low > 0 or interval.high < 0:
            assert p_value <= max(level, least_p_value(len(values), clusters)) + 1e-9
        else:
            assert p_value >= level - 1e-9


def test_p_values_are_near_those_of_the_t_test() -> None:
    rng = np.random.default_rng(1)
    for lead in (0.0, 0.1, 0.2, 0.3):
        values = rng.normal(lead, 1, 150)
        statistic = mean_statistic(values, np.arange(150), 150)
        drawn = resample({"mean": statistic}, n_clusters=150, n=150, rng=rng)["mean"]
        assert drawn.p_value() == pytest.approx(
            float(stats.ttest_1samp(values, 0).pvalue), abs=0.02
        )


def test_no_interval_is_no_p_value() -> None:
    none = Resampled(math.nan, 10, lambda: np.full(10, math.nan), 0, 0)
    assert math.isnan(inverted_p_value(none.estimate, 10, 2))
