"""Outcomes of a calibrated model, against the rates and the dependence that they must have."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pact_eval.stats.consistency_resampling import (
    calibrated_outcomes,
    centred_sums,
    shared_draw_rate,
)


def test_outcomes_have_the_confidences_as_rates_and_the_given_dependence() -> None:
    confidence, family = np.array([0.8, 0.6, 0.3]), np.array([0, 0, 1])
    for rate in (-0.7, 0.0, 0.5):
        (drawn,) = calibrated_outcomes(
            confidence, family, 2, rate=rate, rng=np.random.default_rng(4), resamples=100_000
        )
        assert drawn.mean(axis=0) == pytest.approx(confidence, abs=0.006)
        limit = (0.6 - 0.48) if rate >= 0 else (0.48 - 0.4)
        assert np.cov(drawn.T)[0, 1] == pytest.approx(rate * limit, abs=0.005)
        assert np.cov(drawn.T)[0, 2] == pytest.approx(0, abs=0.005)


@pytest.mark.parametrize("rate", [-0.6, 0.0, 0.6])
def test_the_shared_rate_is_found_again(rate: float) -> None:
    rng = np.random.default_rng(5)
    confidence, family = rng.uniform(0.4, 0.95, 4_000), np.arange(4_000) // 2
    (drawn,) = calibrated_outcomes(confidence, family, 2_000, rate=rate, rng=rng, resamples=1)
    rate_of_draws = shared_draw_rate(confidence, drawn[0], family, 2_000)
    assert rate_of_draws == pytest.approx(rate, abs=0.13)  # three standard errors


def test_nothing_shares_no_draw() -> None:
    assert shared_draw_rate([], [], [], 0) == 0.0


def test_centred_sums_have_the_covariance_of_students_t_at_every_size() -> None:
    sums = np.random.default_rng(6).normal(1, 1, (12_000, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    for families in (40, 12_000):
        sums_of_draws = centred_sums(
            sums[:families], rng=np.random.default_rng(7), resamples=20_000
        )
        of_t = (families - 1) / (families - 3)  # variance of t with F - 1 degrees of freedom
        expected = of_t * families * np.cov(sums[:families].T)
        assert np.cov(sums_of_draws.T) == pytest.approx(expected, rel=0.05)
        assert np.abs(sums_of_draws.mean(axis=0)).max() < 0.03 * math.sqrt(expected[0, 0])
