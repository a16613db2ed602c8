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
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.report import chance_miscalibration
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.consistency_resampling import shared_draw_rate
from pact_eval.stats.rates import rate_estimate

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


def test_the_shared_rate_does_not_follow_the_luck_of_one_large_family() -> None:
    """A family with half of the items shares one draw: products over pairs are its luck squared.

    Of 400 calibrated samples, ECE or the gap rejected 45 to 50% with such products.
    """
    rng, rejected, rates = np.random.default_rng(14), np.zeros(2), []
    family = np.r_[np.zeros(100, np.int64), 1 + np.arange(100) // 2]
    for _ in range(100):
        confidence = rng.uniform(0.5, 1.0, 200)
        right = rng.random(51)[family] < confidence
        error = calibration_error(confidence, right, family, 51, rng=rng, resamples=200)
        assert error.gap is not None
        rejected += error.p_value <= 0.05, error.gap.p_value <= 0.05
        rates.append(shared_draw_rate(confidence, right, family, 51))
    assert np.mean(rates) > 0.8
    assert (rejected < 16).all()  # 5% of 100 and five standard errors


def test_the_gap_against_the_binomial_and_the_interval_of_wilson() -> None:
    """Independent items of one confidence: a test of a rate, and its score interval."""
    from scipy import stats
    from statsmodels.stats.proportion import proportion_confint

    n, p = 400, 0.8
    for right in (300, 310, 335, 345):
        gap = calibration_error(
            np.full(n, p), np.arange(n) < right, np.arange(n), n, rng=np.random.default_rng(15)
        ).gap
        assert gap is not None
        assert gap.value == pytest.approx(p - right / n)
        tail = min(stats.binom.cdf(right, n, p), stats.binom.sf(right - 1, n, p))
        assert gap.p_value == pytest.approx(min(1, 2 * tail), abs=0.02)
        low, high = proportion_confint(right, n, method="wilson")
        assert [gap.low, gap.high] == pytest.approx([p - high, p - low], abs=0.006)
        assert gap.excludes_zero == (gap.p_value <= 0.05)


@pytest.mark.parametrize(
    ("sizes", "says", "right"),
    [
        ([2] * 6, 0.98, 0.93),  # 50%, before the interval of the accuracy counted
        ([2] * 10, 0.99, 0.96),  # 47%
        ([1] * 12, 0.98, 0.93),  # 58%
        ([1, 2, 2, 3, 8] * 15, 0.9, 0.97),  # 86%
    ],
)
def test_the_gap_of_a_miscalibrated_model_is_covered(
    sizes: list[int], says: float, right: float
) -> None:
    """Half of the families share their luck. 88% is 95% less 3.2 standard errors of 100 draws."""
    rng, family = np.random.default_rng(21), np.repeat(np.arange(len(sizes)), sizes)
    covered = 0
    for _ in range(100):
        shared = (rng.random(len(sizes)) < 0.5)[family]
        luck = np.where(shared, rng.random(len(sizes))[family], rng.random(family.size))
        gap = calibration_error(
            np.full(family.size, says), luck < right, family, len(sizes), rng=rng, resamples=200
        ).gap
        assert gap is not None
        covered += gap.low <= says - right <= gap.high
    assert covered >= 88


@pytest.mark.parametrize(("n", "says"), [(12, 0.9), (40, 0.98), (400, 0.994)])
def test_a_gap_is_as_wide_as_its_accuracy_if_all_are_right(n: int, says: float) -> None:
    """Confidences are constant: gap and accuracy are the same number."""
    gap = calibration_error(
        np.full(n, says), np.full(n, True), np.arange(n), n, rng=np.random.default_rng(5)
    ).gap
    accuracy = rate_estimate(np.ones(n), np.ones(n))
    assert gap is not None
    assert (gap.low, gap.high) == pytest.approx((says - 1, says - accuracy.low), abs=1e-12)


@pytest.mark.parametrize("items", [5, 12, 40])
def test_a_gap_lies_within_what_is_possible_and_agrees_with_its_test(items: int) -> None:
    rng, excluded = np.random.default_rng(16), 0
    for number in range(150):
        confidence = rng.choice([0.5, 0.8, 0.9, 0.999, 1.0], items)
        right = rng.random(items) < rng.choice([0.0, 0.3, 0.8, 0.95, 1.0])
        families = items if number % 2 else max(5, items // 2)
        gap = calibration_error(
            confidence, right, np.arange(items) % families, families, rng=rng, resamples=200
        ).gap
        assert gap is not None
        mean = confidence.mean()
        assert mean - 1 - 1e-12 <= gap.low <= gap.value <= gap.high <= mean + 1e-12
        assert gap.excludes_zero == (gap.p_value <= 0.05)
        excluded += gap.excludes_zero
    assert 20 < excluded < 140


def test_a_gap_has_no_interval_if_one_family_has_half_of_the_items() -> None:
    """100 items in one family, 100 alone: 200^2 / (100^2 + 100) is below 4."""
    rng = np.random.default_rng(2)
    family = np.r_[np.zeros(100, dtype=np.int64), np.arange(1, 101)]
    error = calibration_error(np.full(200, 0.9), rng.random(200) < 0.9, family, 101, rng=rng)
    assert error.gap is not None
    assert math.isnan(error.gap.low)
    assert error.gap.reason == "families worth fewer than 5 of one size: no interval"


def test_twelve_items_of_which_two_are_right_are_over_confident() -> None:
    """Says 90%: a calibrated model has two or fewer of twelve right once in 2e8."""
    error = calibration_error(
        np.full(12, 0.9), np.arange(12) < 2, np.arange(12), 12, rng=np.random.default_rng(17)
    )
    assert error.gap is not None
    assert error.gap.p_value < 0.002
    assert 0.2 < error.gap.low < error.gap.value < error.gap.high <= 0.9


@pytest.mark.parametrize("bins", [1, 5, 30])
def test_the_number_of_bins_is_a_choice(bins: int) -> None:
    confidence, right, family, _ = sample(np.random.default_rng(18), gain=1.8)
    error = calibration_error(
        confidence, right, family, FAMILIES, rng=np.random.default_rng(19), bins=bins
    )
    assert error.value == metrics.ece(confidence, right, bins)
    assert error.bins == bins
    assert error.low <= error.debiased <= error.high
    if bins == 1:
        assert error.gap is not None
        assert error.value == pytest.approx(abs(error.gap.value))


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
    # 92% of 1,000 samples did; three binomial standard errors below.
    assert held / samples > 0.88


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
