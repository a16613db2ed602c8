"""Inference on ECE: against hand computations, the theory of its draws, and simulated truth."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from messages import assert_says
from run_frames import frame_of

from pact_eval import metrics
from pact_eval._typing import FloatArray
from pact_eval.evaluation.calibration_error import calibration_error
from pact_eval.evaluation.chance_miscalibration import chance_miscalibration
from pact_eval.evaluation.items import ScoredItems
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.consistency_resampling import (
    calibrated_outcomes,
    centred_sums,
    shared_draw_rate,
)

FAMILIES = 162


def test_the_miscalibration_of_one_item_by_chance() -> None:
    """An isotonic fit of one outcome is that outcome, so all of its score is miscalibration."""
    items = ScoredItems.of(
        Predictions.from_frame(frame_of(id=["a"], reference=[0], logits=[[math.log(3.0), 0.0]])),
        "single",
    )
    by_chance = chance_miscalibration(items, rng=np.random.default_rng(0))
    assert by_chance.reason is None
    # A right answer has a Brier score of (1 - p)^2, a wrong one p^2, of p = 3/4.
    expected = 0.75 * 0.25**2 + 0.25 * 0.75**2
    assert by_chance.brier == pytest.approx(expected, abs=0.05)


def sample(
    rng: np.random.Generator, *, gain: float, families: int = FAMILIES, shared: float = 0.5
) -> tuple[FloatArray, npt.NDArray[np.bool_], npt.NDArray[np.int64], FloatArray]:
    """Families of two with 2 to 6 answers, whose logits are multiplied by `gain` before softmax.

    Returns confidence, outcome, family, and the true probability of the predicted answer.
    """
    n = 2 * families
    family = np.arange(n) // 2
    answers = rng.integers(2, 7, families).repeat(2)
    logits = np.where(np.arange(6) < answers[:, None], rng.normal(0, 1.5, (n, 6)), -np.inf)
    logits -= logits.max(axis=1, keepdims=True)
    truth, stated = np.exp(logits), np.exp(gain * logits)
    right = truth.max(axis=1) / truth.sum(axis=1)
    own, common = rng.random(n), rng.random(families).repeat(2)
    draw = np.where((rng.random(families) < shared).repeat(2), common, own)
    return stated.max(axis=1) / stated.sum(axis=1), draw < right, family, right


def true_error(gain: float) -> float:
    """The binned calibration error of the population."""
    confidence, _, _, right = sample(np.random.default_rng(0), gain=gain, families=200_000)
    gaps = np.bincount(metrics.bin_index(confidence), weights=confidence - right)
    return float(np.abs(gaps).sum() / confidence.size)


def test_value_is_the_published_ece() -> None:
    confidence, right, family, _ = sample(np.random.default_rng(1), gain=1.4)
    error_estimate = calibration_error(
        confidence, right, family, FAMILIES, rng=np.random.default_rng(2)
    )
    assert error_estimate.value == metrics.ece(confidence, right)
    assert (error_estimate.n, error_estimate.clusters) == (324, 162)


def test_noise_floor_of_one_bin_against_the_binomial() -> None:
    """400 items of confidence 0.7, each its own family: n ECE is |Binomial - 280|."""
    n, p = 400, 0.7
    right = np.arange(n) < 280
    error_estimate = calibration_error(
        np.full(n, p), right, np.arange(n), n, rng=np.random.default_rng(3)
    )
    counts = np.arange(n + 1)
    log = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in counts]
    mass = np.exp(np.array(log) + counts * math.log(p) + (n - counts) * math.log(1 - p))
    floor = float(mass @ np.abs(counts - n * p)) / n
    assert error_estimate.value == pytest.approx(0, abs=1e-12)
    assert error_estimate.floor == pytest.approx(floor, rel=0.04)
    assert error_estimate.p_value == 1
    assert math.isnan(error_estimate.low)
    assert_says(error_estimate.reason, "confidence equals accuracy", "no direction", "interval")


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


def test_a_calibrated_model_is_not_rejected_and_a_wrong_one_is() -> None:
    """The README's first holdout: an ECE of 7.9 where a calibrated model would show 9.0."""
    rng = np.random.default_rng(8)
    confidence, right, family, _ = sample(rng, gain=1.0)
    calibrated = calibration_error(confidence, right, family, FAMILIES, rng=rng)
    assert not calibrated.rejected
    assert calibrated.low == 0 < calibrated.high
    assert calibrated.floor < calibrated.floor_high
    confidence, right, family, _ = sample(rng, gain=3.0)
    wrong = calibration_error(confidence, right, family, FAMILIES, rng=rng)
    assert wrong.rejected
    assert 0 < wrong.low < wrong.debiased < wrong.value < wrong.high


@pytest.mark.slow
@pytest.mark.parametrize("gain", [1.0, 1.25, 1.8])
def test_intervals_hold_the_true_error_and_the_test_its_level(gain: float) -> None:
    """Percentile intervals held an error of 0 never, and one of 3.8 points in 2% of samples."""
    truth, samples = true_error(gain), 150
    if gain == 1:
        assert truth < 0.003
        truth = 0.0
    rng = np.random.default_rng(9)
    held, rejected, debiased = 0, 0, []
    for _ in range(samples):
        confidence, right, family, _ = sample(rng, gain=gain)
        error_estimate = calibration_error(
            confidence, right, family, FAMILIES, rng=rng, resamples=400
        )
        held += error_estimate.low <= truth <= error_estimate.high
        rejected += error_estimate.rejected
        debiased.append(error_estimate.debiased)
    # Binomial bounds of 150 samples at 95% and 5%, three standard errors away.
    assert held / samples > 0.89
    if gain == 1:
        assert rejected / samples < 0.11
    else:
        assert np.median(debiased) == pytest.approx(truth, abs=0.012)


def test_no_items_one_family_and_many_items() -> None:
    rng = np.random.default_rng(10)
    nothing = calibration_error([], np.empty(0, bool), np.empty(0, int), 0, rng=rng)
    assert math.isnan(nothing.value)
    assert_says(nothing.reason, "no rows", "nothing to estimate")
    one = calibration_error([0.9, 0.8], np.array([True, False]), [0, 0], 1, rng=rng)
    assert one.reason == "one family: no interval"
    assert math.isnan(one.low)
    assert one.value == pytest.approx(0.45)
    # Of more than 20,000 items, gaps are normal draws: the floor is that of label draws.
    confidence, right, family, _ = sample(rng, gain=1.0, families=10_400, shared=0.0)
    many = calibration_error(confidence, right, family, 10_400, rng=rng)
    few = calibration_error(
        confidence[:20_000], right[:20_000], family[:20_000], 10_000, rng=rng, resamples=200
    )
    assert many.floor == pytest.approx(few.floor * math.sqrt(20_000 / 20_800), rel=0.06)


@pytest.mark.parametrize("families", [6, 12, 60])
def test_the_interval_excludes_0_if_and_only_if_the_test_rejects(families: int) -> None:
    rng = np.random.default_rng(13)
    rejected = 0
    for number in range(120):
        confidence, right, family, _ = sample(
            rng, gain=(1.0, 1.3, 1.8)[number % 3], families=families
        )
        error = calibration_error(confidence, right, family, families, rng=rng, resamples=200)
        assert error.excludes_zero == error.rejected
        assert error.low <= error.debiased
        assert error.low <= error.high
        rejected += error.rejected
    assert 5 < rejected < 115


def over_source_families(
    rng: np.random.Generator, sources: int, *, gain: float
) -> tuple[FloatArray, npt.NDArray[np.bool_], npt.NDArray[np.int64], FloatArray]:
    """Source families of 54 items, each over- or underconfident in its own way; as `sample`."""
    source = np.arange(54 * sources) // 54
    logit = np.abs(1.3 + rng.normal(0, 1.14, source.size))
    right = 1 / (1 + np.exp(-logit - rng.normal(0, 0.6, sources)[source]))
    return 1 / (1 + np.exp(-gain * logit)), rng.random(source.size) < right, source, right


@pytest.mark.slow
@pytest.mark.parametrize("gain", [1.5, 2.2])
def test_intervals_over_six_source_families_hold_the_true_error(gain: float) -> None:
    """Without the tails of Student's t and the direction of the mean gap, 84 to 88% did."""
    rng = np.random.default_rng(12)
    confidence, _, _, right = over_source_families(rng, 8_000, gain=gain)
    gaps = np.bincount(metrics.bin_index(confidence), weights=confidence - right)
    truth, held, samples = float(np.abs(gaps).sum() / confidence.size), 0, 400
    for _ in range(samples):
        confidence, outcome, source, _ = over_source_families(rng, 6, gain=gain)
        error_estimate = calibration_error(confidence, outcome, source, 6, rng=rng, resamples=400)
        held += error_estimate.low <= truth <= error_estimate.high
    # Three binomial standard errors below 95%.
    assert held / samples > 0.917


@pytest.mark.slow
def test_width_at_1000_families_against_the_theory_of_a_large_error() -> None:
    """Far from 0 no gap changes its sign: n ECE is a sum over families of signed gaps, so normal
    theory gives the shortest interval that covers. A longer one would waste the data."""
    families, ratios = 1_000, []
    rng = np.random.default_rng(11)
    for _ in range(8):
        confidence, right, family, _ = sample(rng, gain=3.0, families=families)
        error_estimate = calibration_error(confidence, right, family, families, rng=rng)
        gaps = np.bincount(family, weights=confidence - right)
        error = math.sqrt(families * gaps.var(ddof=1)) / confidence.size
        ratios.append((error_estimate.high - error_estimate.low) / (2 * 1.96 * error))
    assert 0.9 < np.mean(ratios) < 1.1
