"""Directions in which the true gaps of a model may lie, from the gaps of a sample.

A gap is the sum of confidence minus outcome over the items of a bin. The gaps of a sample are
mostly noise, so an interval of the true error scales something smoother.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Final

import numpy as np

from pact_eval import metrics
from pact_eval._typing import BoolArray, FloatArray
from pact_eval.stats.estimate import LEVEL

_ROUNDING: Final = 1e-12
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
    trend = _trend(total, count, count > 0, _DEGREE)
    directions = [trend, _trend(total, count, count > 0, 0)]
    local = _local_bins(gaps, count)
    if local.any():
        directions.insert(0, _beside_local(gaps, count, local))
    kept = [
        direction
        for direction in directions
        if np.abs(direction).sum() > _ROUNDING * confidence.size
    ]
    # Gaps without a trend: nothing is smoother than they are.
    return kept or [total]


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


def _local_bins(gaps: FloatArray, count: FloatArray) -> BoolArray:
    """Return which bins stand out from the trend of the others, the farthest first."""
    total = gaps.sum(axis=0)
    error = np.sqrt(np.diag(_covariance(gaps)))
    estimable = ((gaps != 0).sum(axis=0) >= _FEWEST_FAMILIES) & (error > 0)
    fitted = count > 0
    # Quantile of |z| at 5% divided by the number of bins (Bonferroni).
    local = NormalDist().inv_cdf(1 - LEVEL / (2 * total.size))
    while fitted.sum() > _FEWEST_BINS:
        away = np.abs(total - _trend(total, count, fitted, _DEGREE))
        z = np.divide(away, error, out=np.zeros_like(away), where=estimable & fitted)
        if z.max() <= local:
            break
        fitted[z.argmax()] = False
    return ~fitted & (count > 0)


def _beside_local(gaps: FloatArray, count: FloatArray, local: BoolArray) -> FloatArray:
    """Return the gaps of local bins, and the trend of the others if it is significant."""
    total, fitted = gaps.sum(axis=0), ~local & (count > 0)
    fit = _fit(_powers(total.size, _DEGREE), count, fitted)
    coefficients = fit @ total[fitted]
    covariance = fit @ _covariance(gaps)[np.ix_(fitted, fitted)] @ fit.T
    significant = coefficients @ np.linalg.pinv(covariance) @ coefficients > _TREND
    others = _trend(total, count, fitted, _DEGREE) if significant else np.zeros_like(total)
    return np.where(local, total, others)


def _covariance(gaps: FloatArray) -> FloatArray:
    """Return the covariance (bins, bins) of the total gaps, over families."""
    spread = gaps - gaps.mean(axis=0)
    families = len(gaps)
    return np.asarray(families / (families - 1) * (spread.T @ spread))
