"""Inference on ECE: its noise floor, a test of calibration, and an interval by test inversion.

The ECE of a finite sample is a sum of absolute values: it is above 0 even if the model is
calibrated, and a bootstrap adds the same bias again. So a value alone says little, and a percentile
interval does not cover the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval._choices import ECE_BINS
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.stats._quantiles import border
from pact_eval.stats.bootstrap import Resampled, cluster_sums
from pact_eval.stats.clusters import few_worth
from pact_eval.stats.consistency_resampling import calibrated_gaps, centred_sums
from pact_eval.stats.estimate import (
    FEWEST,
    LEVEL,
    NO_ROWS,
    ONE_CLUSTER,
    ClusterText,
    Estimate,
    Method,
)
from pact_eval.stats.rates import rate_estimate

if TYPE_CHECKING:  # they import this module
    from pact_eval.evaluation.items import ScoredItems


_GAP_DIRECTIONS_ROUNDING: Final = 1e-12
_DEGREE: Final = 2
# Quantile of chi-squared with three degrees of freedom at 1%.
_TREND: Final = 11.34
# Families without which the variance of a bin is too uncertain to say that its gap stands out, and
# bins that a trend needs.
_FEWEST_FAMILIES: Final = 10
_FEWEST_BINS: Final = 4


def gap_directions(gaps: FloatArray, confidence: FloatArray) -> list[FloatArray]:
    """Return the directions of which an interval of the true error takes the outermost ends.

    - The likely direction: the quadratic trend of the gaps over confidence, weighted by items. Bins
      that stand out from the trend keep their own gap, and the trend of the others is dropped if it
      is not significant at 1%.
    - The quadratic trend of all bins, if bins stand out.
    - The mean gap in every bin. If the trend changes its sign but noise moves all bins together (as
      the effects of few source families do), the sum of absolute values hardly depends on how large
      the trend is, and the upper end along it is too low.

    Args:
        gaps: (F, bins) sums of confidence minus outcome by family, for two families or more.
        confidence: (n,) top probabilities.

    Returns:
        (bins,) gaps, the likely direction first.

    Examples:
        >>> confidence = np.repeat([0.5, 0.7, 0.9], 8)
        >>> right = np.tile([True, False], 12)
        >>> gaps = np.zeros((24, 15))
        >>> gaps[np.arange(24), metrics.bin_index(confidence)] = confidence - right
        >>> trend, mean = gap_directions(gaps, confidence)
        >>> (trend[[7, 10, 13]].round(2) + 0.0).tolist(), mean[[7, 10, 13]].round(2).tolist()
        ([0.0, 1.6, 3.2], [1.6, 1.6, 1.6])
    """
    total = gaps.sum(axis=0)
    bins = metrics.bin_index(confidence, total.size)
    count = np.bincount(bins, minlength=total.size).astype(np.float64)
    directions = [_trend(total, count, count > 0, degree) for degree in (_DEGREE, 0)]
    spread = gaps - gaps.mean(axis=0)
    covariance = len(gaps) / (len(gaps) - 1) * (spread.T @ spread)  # of the total gaps
    families = (gaps != 0).sum(axis=0)
    fitted = _smooth_bins(total, count, np.sqrt(np.diag(covariance)), families)
    if (local := ~fitted & (count > 0)).any():
        fit = _fit(_powers(total.size, _DEGREE), count, fitted)
        coefficients = fit @ total[fitted]
        inverse = np.linalg.pinv(fit @ covariance[np.ix_(fitted, fitted)] @ fit.T)
        others = _trend(total, count, fitted, _DEGREE)
        if not coefficients @ inverse @ coefficients > _TREND:
            others = np.zeros_like(total)
        directions.insert(0, np.where(local, total, others))
    least = _GAP_DIRECTIONS_ROUNDING * confidence.size
    # Gaps without a trend: nothing is smoother than they are.
    return [one for one in directions if np.abs(one).sum() > least] or [total]


def _trend(total: FloatArray, count: FloatArray, fitted: BoolArray, degree: int) -> FloatArray:
    """Return the gaps (bins,) of a polynomial in confidence, fitted to some bins by their items."""
    powers = _powers(total.size, degree)
    return count * (powers @ (_fit(powers, count, fitted) @ total[fitted]))


def _powers(bins: int, degree: int) -> FloatArray:
    return np.vander((np.arange(bins) + 0.5) / bins, degree + 1)


def _fit(powers: FloatArray, count: FloatArray, fitted: BoolArray) -> FloatArray:
    """Return the matrix that makes coefficients of a polynomial from gaps, by least squares."""
    chosen = powers[fitted]
    return np.asarray(np.linalg.pinv(chosen.T * count[fitted] @ chosen) @ chosen.T)


def _smooth_bins(
    total: FloatArray, count: FloatArray, error: FloatArray, families: IntArray
) -> BoolArray:
    """Return (bins,) whether a bin has items, and does not stand out from the trend of the others.

    Args:
        total: (bins,) gaps.
        count: (bins,) items.
        error: (bins,) standard errors of the gaps.
        families: (bins,) families with a gap.
    """
    estimable, fitted = (families >= _FEWEST_FAMILIES) & (error > 0), count > 0
    # Quantile of |z| at 5% divided by the number of bins (Bonferroni).
    local = NormalDist().inv_cdf(1 - LEVEL / (2 * total.size))
    while fitted.sum() > _FEWEST_BINS:
        away = np.abs(total - _trend(total, count, fitted, _DEGREE))
        z = np.divide(away, error, out=np.zeros_like(away), where=estimable & fitted)
        if z.max() <= local:
            break
        fitted[z.argmax()] = False
    return fitted


_RESAMPLES: Final = 2_000
_HALVINGS: Final = 20
_ROUNDING: Final = 1e-12
# Tail of the lower end relative to that of an error of 0, at least.
_ABOVE_ZERO: Final = 1.03
METHOD: Final = Method("test inversion interval", " (ECE)")
GAP_METHOD: Final = Method("test inversion interval", " (gap)")


@dataclass(frozen=True)
class ConfidenceGap(Estimate):
    """Mean confidence minus accuracy, a fraction; above 0 for an over-confident model.

    Attributes:
        low: lower end of its interval, at least mean confidence minus 1.
        high: upper end, at most mean confidence; the interval excludes 0 if and only if the p-value
            is at most 5%.
        p_value: of the hypothesis that the model is calibrated: how often a calibrated model has a
            gap as far on one side, doubled.
    """

    p_value: float = math.nan


@dataclass(frozen=True)
class CalibrationError(Estimate):
    """The ECE of some items, and what it says about the model.

    Attributes:
        value: the published ECE, a fraction.
        low: lower end of the interval of the true calibration error.
        high: upper end; the interval need not hold the published ECE, which is biased upwards.
        floor: mean ECE of a calibrated model with these confidences and families.
        floor_high: 95% quantile of its ECE.
        p_value: of the hypothesis that the model is calibrated: how often a calibrated model has
            an ECE as large.
        debiased: the true error at which half of the samples would have a larger ECE; 0 if a
            calibrated model exceeds the ECE half of the time.
        bins: number of bins of equal width.
        gap: mean confidence minus accuracy of the same items; None without items.
    """

    floor: float = math.nan
    floor_high: float = math.nan
    p_value: float = math.nan
    debiased: float = math.nan
    bins: int = ECE_BINS
    gap: ConfidenceGap | None = field(default=None, repr=False)

    @property
    def rejected(self) -> bool:
        """Whether calibration is rejected at 5%."""
        return self.p_value < LEVEL


@dataclass(frozen=True)
class ChanceError:
    """The ECE of one or more runs if they were calibrated, such as those of an arm.

    Attributes:
        floor: mean noise floor over the runs, a fraction: what their ECE would be by chance alone.
        lowest_p: smallest p-value of "the run is calibrated" among them.
        highest_p: largest of these p-values; the same for one run.
    """

    floor: float
    lowest_p: float
    highest_p: float

    @classmethod
    def of(cls, errors: Sequence[Estimate | None]) -> ChanceError | None:
        """Summarise the inference on the ECE of runs; None if one of them has none.

        Examples:
            >>> runs = [CalibrationError(0.07, 0, 0.1, 324, 162, floor=floor, p_value=p)
            ...         for floor, p in ((0.06, 0.3), (0.05, 0.02))]
            >>> summary = ChanceError.of(runs)
            >>> round(summary.floor, 3), summary.lowest_p, summary.highest_p
            (0.055, 0.02, 0.3)
        """
        calibration_errors = [error for error in errors if isinstance(error, CalibrationError)]
        if not calibration_errors or len(calibration_errors) < len(errors):
            return None
        if any(math.isnan(error.floor) for error in calibration_errors):
            return None
        p_values = [error.p_value for error in calibration_errors]
        floors = [error.floor for error in calibration_errors]
        return cls(float(np.mean(floors)), min(p_values), max(p_values))


def calibration_error(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    family: npt.ArrayLike,
    n_families: int,
    *,
    rng: np.random.Generator,
    resamples: int = _RESAMPLES,
    bins: int = metrics.BINS,
) -> CalibrationError:
    r"""Compute ECE with its noise floor, the test of calibration and an interval.

    Let :math:`G_b = \sum_{i \in b} (c_i - y_i)` be the gap of bin b, so that
    :math:`ECE = \frac1n \sum_b |G_b|`.

    - **Noise floor and test.** Outcomes drawn at the confidences (`calibrated_gaps`) have the
      ECE of a calibrated model. Floor: their mean. :math:`p = (1 + \#\{ECE^* \ge ECE\}) / (B + 1)`.
    - **Interval.** True gaps are taken to be :math:`t D`, with :math:`t \ge 0`, in a few directions
      D (`gap_directions`): the gaps themselves are mostly noise. The noise N is the centred
      bootstrap of gaps over families, with the tails of Student's t (`centred_sums`). The interval
      reaches to the outermost error :math:`\frac tn \sum_b |D_b|` of any D that a test does not
      reject:

      .. math:: P\Big[\frac1n \sum_b |t D_b + N_b| \ge ECE\Big] \ge \frac\alpha2, \quad
                P\Big[\frac1n \sum_b |t D_b + N_b| \le ECE\Big]
                \ge \frac\alpha2 P\Big[\frac1n \sum_b |N_b| \le ECE\Big]

      The factor on the right keeps the interval from being empty when the ECE is smaller than
      noise alone would make it.
    - **Agreement.** The interval excludes 0 if and only if the test rejects calibration. If the
      test does not reject, the interval starts at 0. If it does, but the first probability is
      :math:`q \ge \alpha / 2` at t = 0, that of the lower end is 1.03 q in place of
      :math:`\alpha / 2`: just enough to be above 0.
    - **Debiased value.** The error at which the first probability is one half, along the likely
      direction.

    Args:
        confidence: (n,) top probabilities in [0, 1].
        correct: (n,) bool.
        family: (n,) code of each item's family, in 0..n_families-1.
        n_families: number of families F.
        rng: source of the draws.
        resamples: draws B of each kind.
        bins: number of bins of equal width.

    Returns:
        Fractions, and the gap (`confidence_gap`) from the same draws. NaN with a reason without
        items; no interval from one family.

    Raises:
        ValueError: shapes differ, or a confidence is NaN or outside [0, 1].

    References:
        Floor and test: Broecker and Smith 2007; Vaicenavicius et al. 2019. Test inversion along one
        direction: DiCiccio and Romano, "Nonparametric confidence limits by resampling methods and
        least favorable families", 1990. Error that cannot be negative: Sun, Chaudhari, Barnett and
        Dobriban, "A confidence interval for the l2 expected calibration error", 2024.
        Upper end: Read, "Presentation of search results: the CLs technique", 2002.

    Examples:
        >>> rng = np.random.default_rng(1)
        >>> confidence = rng.uniform(0.5, 1, size=324)
        >>> right = rng.random(324) < confidence
        >>> error = calibration_error(confidence, right, np.arange(324) // 2, 162, rng=rng)
        >>> 0.02 < error.floor < error.floor_high < 0.1, error.low, error.rejected
        (True, 0.0, False)
    """
    value = metrics.ece(confidence, correct, bins)
    c, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.bool_)
    families = np.asarray(family, dtype=np.int64)
    if not c.size:
        return CalibrationError(math.nan, math.nan, math.nan, 0, n_families, METHOD, NO_ROWS)
    bin_of = metrics.bin_index(c, bins)
    drawn = calibrated_gaps(
        c, right, bin_of, bins, families, n_families, rng=rng, resamples=resamples
    )
    null = metrics.ece_of_gaps(np.full(resamples, float(c.size)), drawn)
    p_value = (1 + int((null >= value - _ROUNDING).sum())) / (resamples + 1)
    low = high = debiased = math.nan
    reason = None if n_families > 1 else ONE_CLUSTER
    if value < _ROUNDING:
        none = "confidence equals accuracy in every bin: no direction for an interval"
        reason = ClusterText(none)
    elif n_families > 1:
        cell = families * bins + bin_of
        gaps = cluster_sums(c - right, cell, n_families * bins).reshape(n_families, bins)
        noise = centred_sums(gaps, rng=rng, resamples=resamples)
        inverted = [
            _invert(value, direction, noise, c.size) for direction in gap_directions(gaps, c)
        ]
        low, high = min(ends[0] for ends in inverted), max(ends[2] for ends in inverted)
        debiased = inverted[0][1]
        if p_value >= LEVEL:
            low = 0.0
        debiased, high = max(debiased, low), max(high, low)
    return CalibrationError(
        value=value,
        low=low,
        high=high,
        n=c.size,
        clusters=n_families,
        method=METHOD,
        reason=reason,
        floor=float(null.mean()),
        floor_high=float(np.quantile(null, 1 - LEVEL)),
        p_value=p_value,
        debiased=debiased,
        bins=bins,
        gap=confidence_gap(c, right, drawn.sum(axis=1) / c.size, families),
    )


def confidence_gap(
    confidence: FloatArray, correct: BoolArray, drawn: FloatArray, families: IntArray
) -> ConfidenceGap:
    r"""Compute mean confidence minus accuracy, with its test of calibration and its interval.

    With the mean confidence m and the gap g = m - accuracy, the test compares g with the gaps of a
    calibrated model, whose 2.5% quantiles on both sides are :math:`q_- \le 0 \le q_+`. The
    interval has the gaps m - a of the accuracies a for which g is not too far off, if deviations
    grow with the standard deviation of a rate:

    .. math:: q_- s \le a - (m - g) \le q_+ s, \quad s^2 = \frac{a (1 - a)}{m (1 - m)}

    This is the score interval of a rate (Wilson 1927), with the dependence in families that the
    draws have. At a = m it is the test, and a lies in [0, 1]. The end that is farther from 0 takes
    the wider quantile, and :math:`\frac1n \sum_i c_i (1 - c_i)` in place of m (1 - m), because
    wrong confidences say less of outcomes.

    Draws of a model that says 98% are right in nearly every item, and say little of an accuracy
    of 90%. So the interval also has m - a for every a in the interval of the accuracy
    (`rate_estimate`), unless that would go beyond 0 where the test rejects.

    Args:
        confidence: (n,) probabilities in [0, 1], one or more.
        correct: (n,) bool.
        drawn: (B,) gaps of a calibrated model (`calibrated_gaps`), as fractions.
        families: (n,) index of the family of each item.

    Returns:
        Fractions; no interval if the families are worth fewer than five of one size.

    References:
        Wilson, "Probable inference, the law of succession, and statistical inference", Journal of
        the American Statistical Association 22, 1927.

    Examples:
        >>> rng, right = np.random.default_rng(1), np.arange(12) < 2
        >>> drawn = 0.9 - rng.binomial(12, 0.9, 2_000) / 12
        >>> gap = confidence_gap(np.full(12, 0.9), right, drawn, np.arange(12))
        >>> [round(number, 2) for number in (gap.low, gap.value, gap.high)], gap.p_value < 0.01
        ([0.4, 0.73, 0.87], True)
    """
    mean, accuracy = float(confidence.mean()), float(correct.mean())
    value, ranked, rows = mean - accuracy, np.sort(drawn), np.bincount(families)
    tails = (int((drawn >= value - _ROUNDING).sum()), int((drawn <= value + _ROUNDING).sum()))
    p_value = min(1.0, 2 * (1 + min(tails)) / (drawn.size + 1))
    n_families = int(np.count_nonzero(rows))
    if few_worth(rows.astype(np.float64)) is not None:
        few = ClusterText(f"{{clusters}} worth fewer than {FEWEST} of one size: no interval")
        nan = math.nan
        return ConfidenceGap(
            value, nan, nan, correct.size, n_families, GAP_METHOD, few, p_value=p_value
        )
    beyond = max(0, math.floor(LEVEL / 2 * (drawn.size + 1) + _ROUNDING) - 1)
    below, above = max(0.0, -float(ranked[beyond])), max(0.0, float(ranked[-1 - beyond]))
    # Confidences of 0 and 1 leave nothing to chance: one family may still be off.
    one = 1.0 / n_families
    spread, own = mean * (1 - mean), float((confidence * (1 - confidence)).mean())
    wide = max(below, above) ** 2 / own if own > _ROUNDING else one
    near = (above if value > 0 else below) ** 2 / spread if spread > _ROUNDING else one
    low = min(value, mean - _score_end(accuracy, near if value > 0 else wide, 1))
    high = max(value, mean - _score_end(accuracy, wide if value > 0 else near, -1))
    of_accuracy = rate_estimate(np.bincount(families, weights=correct), rows)
    least, most = mean - of_accuracy.high, mean - of_accuracy.low
    if p_value > LEVEL or value < 0 or least > 0:
        low = min(low, least)
    if p_value > LEVEL or value > 0 or most < 0:
        high = max(high, most)
    if p_value > LEVEL:
        low, high = min(low, 0.0), max(high, 0.0)
    return ConfidenceGap(value, low, high, correct.size, n_families, GAP_METHOD, p_value=p_value)


def _score_end(rate: float, square: float, side: int) -> float:
    """Return the a in [0, 1] on one side with (a - rate)^2 = a (1 - a) times the square."""
    half = math.sqrt(square * rate * (1 - rate) + square**2 / 4)
    return min(1.0, max(0.0, (rate + square / 2 + side * half) / (1 + square)))


def ece_interval(
    items: ScoredItems, drawn: Resampled, rng: np.random.Generator
) -> CalibrationError:
    """Return the ECE of a group of items with its inference; the registry names this function.

    It draws as often as the metrics are resampled, at most 2,000 times.
    """
    return calibration_error(
        items.confidence,
        items.correct,
        items.cluster,
        items.n_clusters,
        rng=rng,
        resamples=min(_RESAMPLES, drawn.resamples),
        bins=items.ece_bins,
    )


def _invert(
    value: float, direction: FloatArray, noise: FloatArray, n: int
) -> tuple[float, float, float]:
    """Return the lower end, the debiased value and the upper end of the true error."""
    weight = np.full(len(noise), float(n))
    unit = float(np.abs(direction).sum()) / n

    @cache  # the three searches begin at the same points
    def errors(t: float) -> FloatArray:
        return metrics.ece_of_gaps(weight, t * direction + noise)

    def as_large(t: float) -> float:
        return np.count_nonzero(errors(t) >= value - _ROUNDING) / len(noise)

    def as_small(t: float) -> float:
        return np.count_nonzero(errors(t) <= value + _ROUNDING) / len(noise)

    tail, at_zero = LEVEL / 2, as_large(0.0)
    least = tail * max(as_small(0.0), 1 / len(noise))
    lowest = max(tail, min(_ABOVE_ZERO * at_zero, (1 + at_zero) / 2))
    return (
        unit * _first_where(lambda t: as_large(t) >= lowest),
        unit * _first_where(lambda t: as_large(t) >= 0.5),
        min(1.0, unit * _first_where(lambda t: as_small(t) < least)),
    )


def _first_where(condition: Callable[[float], bool]) -> float:
    """Return the smallest t >= 0 at which a condition holds that holds from some t on."""
    if condition(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not condition(high) and high < 2.0**_HALVINGS:
        low, high = high, 2 * high
    return border(lambda t: not condition(t), low, high, _HALVINGS)[1]
