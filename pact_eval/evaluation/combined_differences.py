"""Differences whose interval combines those of runs (MOVER): ECE, and rates of different rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pact_eval._typing import FloatArray
from pact_eval.evaluation.calibration_error import CalibrationError
from pact_eval.stats.bootstrap import Resampled, TotalsStatistic
from pact_eval.stats.estimate import LEVEL, ClusterText, Estimate, Method
from pact_eval.stats.proportions import rate_estimate
from pact_eval.stats.summed_intervals import SummedInterval, summed_interval

_OF_ECE: Final = " (differences of ECE)"
_OF_RATES: Final = " (rates of different items)"


@dataclass(frozen=True)
class DifferencePart:
    """One run in a difference: a weighted sum of one metric over runs.

    Attributes:
        weight: factor of the run; 1 and -1 for A - B.
        estimate: the metric of the run with its interval.
        drawn: the metric on the resamples, which all runs share, with its statistic.
    """

    weight: float
    estimate: Estimate
    drawn: Resampled


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


def ece_difference(drawn: Resampled, parts: Sequence[DifferencePart]) -> CombinedDifference:
    r"""Return the inference on a difference of ECE, or of another metric with a noise floor.

    The interval is for the difference of true calibration errors. It combines the debiased values
    of the runs and the ends of their intervals (`summed_interval`). The value is the difference of
    the published ECE, which can lie outside: the noise floors of two runs differ if one is surer
    than the other.

    The errors of two runs on the same items are correlated. Two estimates of this are made, and the
    one is used that makes the interval longer: the correlation of ECE over resamples of families,
    and that of overconfidence, :math:`\pm\sum (c - y)`, over families. The first is too high for
    runs whose gaps are mostly noise, the second for runs whose ECE is near its noise floor. Without
    them, intervals cover 91% if one run is over- and the other underconfident.

    An interval of 95% reaches at most from the lowest A minus the highest B to the highest A minus
    the lowest B, or to 0 if that is further.

    Args:
        drawn: the weighted sum on resamples.
        parts: each run with its weight in the sum, on the same resamples.
    """
    plain, estimates = drawn.estimate(), [part.estimate for part in parts]
    missing = [estimate for estimate in (*estimates, plain) if math.isnan(estimate.low)]
    if missing:
        return CombinedDifference(drawn, None, _OF_ECE, reason=missing[0].reason)
    weights = np.array([part.weight for part in parts])
    centres = [
        estimate.debiased if isinstance(estimate, CalibrationError) else estimate.value
        for estimate in estimates
    ]
    lows, highs = np.array([(estimate.low, estimate.high) for estimate in estimates]).T
    summed = summed_interval(
        weights, centres, lows, highs, _correlation(parts), n_clusters=drawn.n_clusters
    )
    possible = _ends(weights, np.zeros(lows.size), np.ones(lows.size))
    lowest, highest = _ends(weights, lows, highs)
    allowed = min(lowest, 0.0), max(highest, 0.0)
    return CombinedDifference(drawn, summed, _OF_ECE, possible, allowed, plain.reason)


def _ends(weights: FloatArray, lows: FloatArray, highs: FloatArray) -> tuple[float, float]:
    """Return the lowest and the highest weighted sum of numbers between two ends each."""
    low, high = np.where(weights > 0, (lows, highs), (highs, lows))
    return float(weights @ low), float(weights @ high)


def _correlation(parts: Sequence[DifferencePart]) -> FloatArray:
    """Return (m, m) correlations of the errors of runs, those that make the interval longer."""
    of_ece = correlations([part.drawn.replicates for part in parts])
    of_gaps = correlations([_overconfidence(part.drawn) for part in parts])
    weight = np.array([part.weight for part in parts])
    same_sign = np.outer(weight, weight) > 0
    return np.where(same_sign, np.maximum(of_ece, of_gaps), np.minimum(of_ece, of_gaps))


def _overconfidence(drawn: Resampled) -> FloatArray:
    """Return (F,) sums of confidence minus outcome by family, with the sign of their total."""
    sums: FloatArray = np.zeros(drawn.n_clusters)
    if isinstance(drawn.statistic, TotalsStatistic):
        *_, gaps = drawn.statistic.by_cluster()  # (bins, F)
        sums = np.asarray(gaps.sum(axis=0), dtype=np.float64)
    return sums if sums.sum() >= 0 else -sums


def difference_of_other_rows(drawn: Resampled) -> CombinedDifference:
    """Return the inference on a weighted sum of rates that are shares of different rows.

    The interval combines the Wilson intervals of the rates (MOVER, see `stats.summed_interval`),
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
