"""The interval of a sum from those of its parts, against normal theory and its own symmetry."""

import math

import numpy as np
import pytest
from scipy import stats

from pact_eval.stats.summed_intervals import summed_interval


def test_symmetric_parts_against_the_variance_of_a_sum() -> None:
    """Normal estimates: the interval is that of the weighted sum, whatever the correlations."""
    rng = np.random.default_rng(1)
    weights, centres, errors = rng.normal(size=4), rng.normal(size=4), rng.uniform(1, 2, 4)
    correlation = np.corrcoef(rng.normal(size=(4, 9)))
    t = stats.t.ppf(0.975, 39)
    interval = summed_interval(
        weights, centres, centres - t * errors, centres + t * errors, correlation, n_clusters=40
    )
    covariance = correlation * np.outer(errors, errors)
    error = math.sqrt(weights @ covariance @ weights)
    for confidence in (0.8, 0.95, 0.999):
        expected = stats.t.interval(confidence, 39, weights @ centres, error)
        assert interval.at(confidence) == pytest.approx(expected)
    p_value = 2 * stats.t.sf(abs(weights @ centres) / error, 39)
    assert interval.p_value() == pytest.approx(p_value)


def test_an_end_at_zero_does_not_shorten_the_difference() -> None:
    """[0, 4] around 1 reaches 3 down as it does up."""
    interval = summed_interval([1, -1], [1, 9], [0, 7], [4, 12], np.eye(2), n_clusters=50)
    assert interval.at(0.95) == pytest.approx((-8 - math.hypot(3, 3), -8 + math.hypot(3, 3)))
    mirrored = summed_interval([-1, 1], [1, 9], [0, 7], [4, 12], np.eye(2), n_clusters=50)
    assert mirrored.at(0.95) == pytest.approx([-end for end in reversed(interval.at(0.95))])
