"""Differences of ECE: against normal theory, simulated truth, and what they are made of."""

from __future__ import annotations

import math

import numpy as np
import pytest
from messages import assert_says

from pact_eval import metrics
from pact_eval._typing import BoolArray, FloatArray
from pact_eval.evaluation.calibration_error import calibration_error
from pact_eval.evaluation.resampled_groups import DifferencePart, ece_difference
from pact_eval.stats.bootstrap import RowSums, TotalsStatistic, resample
from pact_eval.stats.estimate import Estimate

Run = tuple[FloatArray, BoolArray]


def runs(
    rng: np.random.Generator, gains: tuple[float, float], families: int, *, alike: float
) -> tuple[list[Run], list[FloatArray]]:
    """Confidence and outcome of two runs on families of two, and true probabilities of answers.

    A run is right with the softmax of its four logits and shows that of logits times a gain. Both
    are right or wrong by the same draws, and their logits have the correlation `alike`.
    """
    n = 2 * families
    first = rng.normal(0, 1.5, (n, 4))
    second = alike * first + math.sqrt(1 - alike**2) * rng.normal(0, 1.5, (n, 4))
    draw, shown, true = rng.random(n), [], []
    for logits, gain in zip((first, second), gains, strict=True):
        far = logits - logits.max(axis=1, keepdims=True)
        truth = 1 / np.exp(far).sum(axis=1)
        shown.append((1 / np.exp(gain * far).sum(axis=1), draw < truth))
        true.append(truth)
    return shown, true


def difference(
    shown: list[Run], rng: np.random.Generator, *, resamples: int = 400, confidence: float = 0.95
) -> Estimate:
    """The difference of ECE of two runs on families of two."""
    n = len(shown[0][0])
    family = np.arange(n) // 2
    samples = []
    for confidences, right in shown:
        gaps = RowSums(confidences - right, metrics.bin_index(confidences), metrics.BINS)
        statistic = TotalsStatistic((RowSums(None), gaps), _ece, family, n // 2)
        estimate = calibration_error(
            confidences, right, family, n // 2, rng=rng, resamples=resamples
        )
        samples.append((statistic, estimate))
    drawn = resample(
        {name: statistic for name, (statistic, _) in zip("ab", samples, strict=True)},
        n_clusters=n // 2,
        n=n,
        rng=rng,
        resamples=resamples,
    )
    parts = [
        DifferencePart(sign, estimate, drawn[name])
        for name, sign, (_, estimate) in zip("ab", (1, -1), samples, strict=True)
    ]
    return ece_difference(drawn["a"] - drawn["b"], parts).estimate(confidence)


def _ece(totals: FloatArray) -> FloatArray:
    return metrics.ece_of_gaps(totals[:, 0], totals[:, 1:])


def true_difference(gains: tuple[float, float]) -> float:
    """The difference of binned errors of the population."""
    shown, true = runs(np.random.default_rng(0), gains, 200_000, alike=0.0)
    errors = [
        0.0
        if gain == 1
        else np.abs(np.bincount(metrics.bin_index(c), weights=c - p)).sum() / c.size
        for gain, (c, _), p in zip(gains, shown, true, strict=True)
    ]
    return float(errors[0] - errors[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gains", "alike"),
    [((1.0, 1.0), 0.9), ((1.6, 1.6), 0.9), ((1.6, 1.6), 0.0), ((1.0, 1.8), 1.0)],
)
def test_intervals_hold_the_true_difference(gains: tuple[float, float], alike: float) -> None:
    """The basic bootstrap held it in 76 to 89%, and excluded 0 in 13% of equal errors."""
    truth, sets = true_difference(gains), 120
    rng = np.random.default_rng(3)
    differences = [difference(runs(rng, gains, 162, alike=alike)[0], rng) for _ in range(sets)]
    held = sum(estimate.low <= truth <= estimate.high for estimate in differences)
    # Three binomial standard errors below 95%.
    assert held / sets > 0.89
    if truth == 0:
        assert sum(estimate.low > 0 or estimate.high < 0 for estimate in differences) / sets < 0.11


@pytest.mark.slow
@pytest.mark.parametrize("alike", [0.0, 0.9])
def test_width_of_large_errors_against_normal_theory(alike: float) -> None:
    """Far from 0 no gap changes its sign: n ECE is a sum over families of signed gaps."""
    rng, ratios = np.random.default_rng(4), []
    for _ in range(5):
        shown, _ = runs(rng, (2.5, 4.0), 1_000, alike=alike)
        estimate = difference(shown, rng)
        gaps = np.add.reduceat(
            (shown[0][0] - shown[0][1]) - (shown[1][0] - shown[1][1]), np.arange(0, 2_000, 2)
        )
        error = math.sqrt(1_000 * gaps.var(ddof=1)) / 2_000
        ratios.append((estimate.high - estimate.low) / (2 * 1.96 * error))
    assert 0.9 < np.mean(ratios) < 1.25


def test_equal_runs_and_runs_without_an_interval_have_a_reason() -> None:
    rng = np.random.default_rng(5)
    shown, _ = runs(rng, (1.6, 1.6), 60, alike=0.0)
    same = difference([shown[0], shown[0]], rng)
    assert same.value == 0
    assert math.isnan(same.low)
    assert same.reason is not None
    assert "all resamples agree" in same.reason
    exact = (np.full(120, 0.5), np.arange(120) % 2 == 0)
    none = difference([exact, shown[0]], rng)
    assert math.isnan(none.high)
    assert_says(none.reason, "confidence equals accuracy", "no direction", "interval")


@pytest.mark.parametrize("gains", [(1.0, 1.0), (1.0, 1.8), (2.5, 1.0)])
def test_no_end_lies_beyond_what_the_intervals_of_the_runs_allow(
    gains: tuple[float, float],
) -> None:
    """The lowest A minus the highest B, or 0: an error near 0 cannot be far below 0."""
    rng = np.random.default_rng(8)
    shown, _ = runs(rng, gains, 80, alike=0.5)
    family = np.arange(160) // 2
    estimate = difference(shown, np.random.default_rng(9))
    # The same draws as `difference` makes.
    draws = np.random.default_rng(9)
    a, b = (calibration_error(*run, family, 80, rng=draws, resamples=400) for run in shown)
    assert estimate.low >= min(0.0, a.low - b.high)
    assert estimate.high <= max(0.0, a.high - b.low)
    assert max(a.high, b.high) <= 1


def test_the_end_at_any_confidence_agrees_with_the_other_run_order() -> None:
    rng = np.random.default_rng(6)
    shown, _ = runs(rng, (1.0, 2.5), 100, alike=0.5)
    one = difference(shown, np.random.default_rng(7), confidence=0.99)
    narrow = difference(shown, np.random.default_rng(7), confidence=0.5)
    assert one.low < narrow.low < narrow.high < one.high
    assert str(one.method).startswith("99% MOVER interval")
