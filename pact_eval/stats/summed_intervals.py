"""The interval of a weighted sum of estimates, from the interval of each (MOVER)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray
from pact_eval.stats._quantiles import t_quantile, t_tail
from pact_eval.stats.bootstrap import Resampled, TotalsStatistic
from pact_eval.stats.estimate import LEVEL, ClusterText, Estimate, Method
from pact_eval.stats.rates import rate_estimate


@dataclass(frozen=True)
class SummedInterval:
    """A weighted sum of estimates, and how far its 95% interval reaches.

    Attributes:
        centre: the weighted sum of the centres.
        below: reach of the 95% interval below the centre.
        above: reach above the centre.
        n_clusters: clusters F behind the estimates, two or more.
    """

    centre: float
    below: float
    above: float
    n_clusters: int

    def at(self, confidence: float) -> tuple[float, float]:
        """Return the ends at another confidence, by the quantiles of t with F - 1 degrees.

        Examples:
            >>> SummedInterval(0.0, 1.96, 1.96, 10_000).at(0.99)[1].__round__(2)
            2.58
        """
        degrees = self.n_clusters - 1
        scale = t_quantile((1 + confidence) / 2, degrees) / t_quantile(0.975, degrees)
        return self.centre - scale * self.below, self.centre + scale * self.above

    def p_value(self) -> float:
        """Return the level at which the interval ends at 0; NaN without a reach.

        Examples:
            >>> SummedInterval(2.0, 2.0, 3.0, 162).p_value().__round__(3)
            0.05
        """
        reach = self.below if self.centre > 0 else self.above
        if not reach:
            return math.nan
        degrees = self.n_clusters - 1
        t = t_quantile(0.975, degrees) * abs(self.centre) / reach
        return 2 * t_tail(t, degrees)


def summed_interval(
    weights: npt.ArrayLike,
    centres: npt.ArrayLike,
    lows: npt.ArrayLike,
    highs: npt.ArrayLike,
    correlation: npt.ArrayLike,
    *,
    n_clusters: int,
    ends_at_zero: bool = True,
) -> SummedInterval:
    r"""Combine the intervals of several estimates into that of their weighted sum.

    Each end moves by the reaches on its side, as variances of a sum do (MOVER):

    .. math:: \sum_i w_i c_i \mp \sqrt{\sum_{i,j} r_{ij} \delta_i \delta_j}, \quad
              \delta_i = |w_i| \cdot reach_i

    where the reach of i towards the lower end of the sum is that below :math:`c_i` if
    :math:`w_i > 0`, else the one above, and :math:`r_{ij}` has the sign of :math:`w_i w_j`.
    Intervals that are cut off at 0, as those of ECE, say nothing of how far chance reaches below:
    the reach below is then taken to be at least the reach above.

    Args:
        weights: (m,) factors; 1 and -1 for a difference.
        centres: (m,) estimates, free of bias.
        lows: (m,) lower ends of 95% intervals.
        highs: (m,) upper ends.
        correlation: (m, m) of the errors of the estimates.
        n_clusters: clusters F behind the estimates, two or more.
        ends_at_zero: whether intervals near 0 are cut off there; Wilson's are not.

    Returns:
        The sum and its reaches.

    References:
        Zou and Donner, "Construction of confidence limits about effect measures: a general
        approach", Statistics in Medicine 27, 2008. Zou, "Toward using confidence intervals to
        compare correlations", Psychological Methods 12, 2007, for dependent estimates.

    Examples:
        >>> sums = summed_interval([1, -1], [0.5, 0.1], [0.2, 0.0], [0.8, 0.4], [[1, 0], [0, 1]],
        ...     n_clusters=162)
        >>> [round(end, 3) for end in sums.at(0.95)]
        [-0.024, 0.824]
    """
    w, centre = np.asarray(weights, dtype=np.float64), np.asarray(centres, dtype=np.float64)
    above = np.asarray(highs, dtype=np.float64) - centre
    below = centre - np.asarray(lows, dtype=np.float64)
    if ends_at_zero:
        below = np.maximum(below, above)
    r = np.asarray(correlation, dtype=np.float64)
    down, up = np.where(w > 0, below, above), np.where(w > 0, above, below)
    return SummedInterval(float(w @ centre), _reach(w * down, r), _reach(w * up, r), n_clusters)


def _reach(parts: FloatArray, correlation: FloatArray) -> float:
    return math.sqrt(max(0.0, float(parts @ correlation @ parts)))


_OF_RATES: Final = " (rates of different items)"


@dataclass(frozen=True)
class CombinedDifference:
    """Inference on a weighted sum, from the intervals of its parts.

    Attributes:
        drawn: the sum on resamples.
        summed: the combined interval; None if a part has no interval.
        detail: what is summed, for the method.
        possible: lowest and highest sum.
        allowed: lowest and highest sum of what the 95% intervals of the parts hold, if these
            end an interval of 95% or less.
        reason: why there is no interval.
    """

    drawn: Resampled
    summed: SummedInterval | None
    detail: str
    possible: tuple[float, float] = (-1.0, 1.0)
    allowed: tuple[float, float] | None = None
    reason: ClusterText | None = None

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the sum with its interval."""
        method = Method("MOVER interval", self.detail, confidence)
        ends = (math.nan, math.nan) if self.summed is None else self.summed.at(confidence)
        most = self.possible if confidence > 1 - LEVEL or not self.allowed else self.allowed
        low, high = np.clip(ends, *most).tolist()
        return Estimate(
            self.drawn.value, low, high, self.drawn.n, self.drawn.n_clusters, method, self.reason
        )

    def p_value(self) -> float:
        """Return the level at which the interval ends at 0; NaN without an interval."""
        return math.nan if self.summed is None else self.summed.p_value()


def difference_of_other_rows(drawn: Resampled) -> CombinedDifference:
    """Return the inference on a weighted sum of rates that are shares of different rows.

    The interval combines the Wilson intervals of the rates (`summed_interval`),
    with the correlation of their linearised values over families, and lies in [-1, 1].

    Args:
        drawn: the sum, with its rates.
    """
    none = CombinedDifference(
        drawn, None, _OF_RATES, reason=ClusterText("items of one {cluster} count: no interval")
    )
    rates, influences = [], []
    for _, statistic in drawn.terms:
        if not isinstance(statistic, TotalsStatistic) or (linear := statistic.linearised()) is None:
            return none
        (counted,), (positive,) = statistic.by_cluster()
        rates.append(rate_estimate(positive, counted, squares=statistic.squares()))
        influences.append(linear.influence)
    if any(math.isnan(rate.low) for rate in rates):
        return none
    summed = summed_interval(
        [weight for weight, _ in drawn.terms],
        [rate.value for rate in rates],
        [rate.low for rate in rates],
        [rate.high for rate in rates],
        # Rates without a spread, as of no family or of all, tell nothing of a correlation.
        np.maximum(correlations(influences), 0.0),
        n_clusters=min(rate.clusters for rate in rates),
        ends_at_zero=False,
    )
    return CombinedDifference(drawn, summed, _OF_RATES)


def correlations(rows: Sequence[FloatArray]) -> FloatArray:
    """Return (m, m) correlations of rows; 0 with a row that does not vary."""
    with np.errstate(invalid="ignore", divide="ignore"):
        matrix = np.atleast_2d(np.nan_to_num(np.corrcoef(np.stack(rows))))
    matrix[np.diag_indices(len(rows))] = 1.0
    return matrix
