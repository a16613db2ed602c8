"""Directions of gaps: against polynomials that are known, and simulated bins that stand out."""

from __future__ import annotations

import numpy as np
import pytest

from pact_eval import metrics
from pact_eval._typing import FloatArray
from pact_eval.evaluation.calibration_error import gap_directions

BINS = metrics.BINS


def gaps_of(confidence: FloatArray, gap: FloatArray) -> FloatArray:
    """Gaps (F, bins) of families of one item each."""
    gaps = np.zeros((confidence.size, BINS))
    gaps[np.arange(confidence.size), metrics.bin_index(confidence)] = gap
    return gaps


def test_a_quadratic_is_its_own_trend_and_the_mean_is_that_of_all_items() -> None:
    """Theory: least squares finds a polynomial of its degree again, whatever the weights."""
    rng = np.random.default_rng(1)
    centre = (rng.integers(4, BINS, 600) + 0.5) / BINS
    expected = 0.1 - 0.6 * (centre - 0.7) + 2 * (centre - 0.7) ** 2
    noise = np.where(np.arange(600) % 2, 0.3, -0.3)
    order = np.argsort(centre, kind="stable")
    gaps = gaps_of(centre[order], (expected[order] + noise))
    trend, mean = gap_directions(gaps, centre)
    count = np.bincount(metrics.bin_index(centre), minlength=BINS)
    exact = np.bincount(metrics.bin_index(centre), weights=expected, minlength=BINS)
    assert trend == pytest.approx(exact, abs=1.5)  # the noise of a bin sums to 0.3 at most
    assert mean == pytest.approx(count * gaps.sum() / 600)


def test_a_bin_that_stands_out_keeps_its_gap_and_noise_elsewhere_is_dropped() -> None:
    rng = np.random.default_rng(2)
    confidence = rng.uniform(0.4, 1, 2_000)
    bad = metrics.bin_index(confidence) == 9
    right = rng.random(2_000) < confidence - 0.3 * bad
    gaps = gaps_of(confidence, confidence - right)
    local, trend, mean = gap_directions(gaps, confidence)
    assert np.flatnonzero(local).tolist() == [9]
    assert local[9] == gaps[:, 9].sum()
    assert np.count_nonzero(trend) == np.count_nonzero(mean) == 9


def test_a_trend_beside_a_bin_that_stands_out_is_kept_if_it_is_significant() -> None:
    rng = np.random.default_rng(3)
    confidence = rng.uniform(0.4, 1, 4_000)
    bad = metrics.bin_index(confidence) == 9
    right = rng.random(4_000) < confidence - 0.1 - 0.25 * bad
    gaps = gaps_of(confidence, confidence - right)
    local, *_ = gap_directions(gaps, confidence)
    count = np.bincount(metrics.bin_index(confidence), minlength=BINS)
    filled = count > 0
    expected = np.where(np.arange(BINS) == 9, 0.35, 0.1)
    assert local[filled] / count[filled] == pytest.approx(expected[filled], abs=0.07)


def test_few_families_say_of_no_bin_that_it_stands_out() -> None:
    """The variance of a bin over six source families is too uncertain."""
    gaps = np.tile(np.where(np.arange(BINS) == 9, 3.0, 0.1), (6, 1))
    gaps += np.linspace(-0.01, 0.01, 6)[:, None]
    assert len(gap_directions(gaps, np.linspace(0.01, 0.99, 600))) == 2


def test_gaps_without_a_trend_are_their_own_direction() -> None:
    gaps = gaps_of(np.array([0.5, 0.5]), np.array([0.5, -0.5]))
    (only,) = gap_directions(gaps, np.array([0.5, 0.5]))
    assert not only.any()
