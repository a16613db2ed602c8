"""Differences whose interval combines those of runs (MOVER): ECE, and rates of different rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from pact_eval._typing import FloatArray
from pact_eval.evaluation.ece_results import CalibrationError
from pact_eval.stats.bootstrap import Resampled, TotalsStatistic
from pact_eval.stats.estimate import ClusterText, Estimate, Method
from pact_eval.stats.proportions import rate_estimate
from pact_eval.stats.summed_intervals import SummedInterval, summed_interval

_METHOD: Final = Method("MOVER interval", " (differences of ECE)")


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
class EceDifference:
    r"""Interval and test of a difference of true calibration errors.

    The interval combines the debiased values of the runs and the ends of their intervals
    (`summed_interval`). The value is the difference of the published ECE, which can lie outside:
    the noise floors of two runs differ if one is surer than the other.

    The errors of two runs on the same items are correlated. Two estimates of this are made, and the
    one is used that makes the interval longer: the correlation of ECE over resamples of families,
    and that of overconfidence, :math:`\pm\sum (c - y)`, over families. The first is too high for
    runs whose gaps are mostly noise, the second for runs whose ECE is near its noise floor.

    Attributes:
        drawn: the weighted sum of ECE on resamples.
        summed: the combined interval; None if a run has no interval, or all resamples agree.
        reason: why there is no interval.
    """

    drawn: Resampled
    summed: SummedInterval | None
    reason: ClusterText | None

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the difference with its interval."""
        ends = (math.nan, math.nan) if self.summed is None else self.summed.at(confidence)
        method = replace(_METHOD, confidence=confidence)
        return Estimate(
            self.drawn.value, *ends, self.drawn.n, self.drawn.n_clusters, method, self.reason
        )

    def p_value(self) -> float:
        """Return the level at which the interval ends at 0; NaN without an interval."""
        return math.nan if self.summed is None else self.summed.p_value()


def ece_difference(drawn: Resampled, parts: Sequence[DifferencePart]) -> EceDifference:
    """Return the inference on a difference of ECE, or of another metric with a noise floor.

    Args:
        drawn: the weighted sum on resamples.
        parts: each run with its weight in the sum, on the same resamples.
    """
    missing = next((part.estimate for part in parts if math.isnan(part.estimate.low)), None)
    if missing is not None:
        return EceDifference(drawn, None, missing.reason)
    plain = drawn.estimate()
    if math.isnan(plain.low):
        return EceDifference(drawn, None, plain.reason)
    estimates = [part.estimate for part in parts]
    summed = summed_interval(
        [part.weight for part in parts],
        [
            estimate.debiased if isinstance(estimate, CalibrationError) else estimate.value
            for estimate in estimates
        ],
        [estimate.low for estimate in estimates],
        [estimate.high for estimate in estimates],
        _correlation(parts),
        n_clusters=drawn.n_clusters,
    )
    return EceDifference(drawn, summed, plain.reason)


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


@dataclass(frozen=True)
class RatesOfOtherRows:
    """Inference on a weighted sum of rates that are shares of different rows of the same families.

    The interval combines the Wilson intervals of the rates (MOVER, see `stats.summed_interval`),
    with the correlation of their linearised values over families, and lies in [-1, 1].

    Attributes:
        drawn: the sum, with its rates.
    """

    drawn: Resampled

    @cached_property
    def _summed(self) -> SummedInterval | None:
        rates, influences = [], []
        for _, statistic in self.drawn.terms:
            if not isinstance(statistic, TotalsStatistic):
                return None
            linear = statistic.linearised()
            if linear is None:
                return None
            (counted,), (positive,) = statistic.by_cluster()
            rates.append(rate_estimate(positive, counted))
            influences.append(linear.influence)
        if any(math.isnan(rate.low) for rate in rates):
            return None
        return summed_interval(
            [weight for weight, _ in self.drawn.terms],
            [rate.value for rate in rates],
            [rate.low for rate in rates],
            [rate.high for rate in rates],
            # Rates without a spread, as of no family or of all, tell nothing of a correlation.
            np.maximum(correlations(influences), 0.0),
            n_clusters=min(rate.clusters for rate in rates),
            ends_at_zero=False,
        )

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the sum with its interval; none if a rate has none."""
        method = Method("MOVER interval", " (rates of different items)", confidence)
        value, n, reason = self.drawn.value, self.drawn.n, None
        low, high = math.nan, math.nan
        if self._summed is None:
            reason = ClusterText("items of one {cluster} count: no interval")
        else:
            low, high = np.clip(self._summed.at(confidence), -1.0, 1.0).tolist()
        return Estimate(value, low, high, n, self.drawn.n_clusters, method, reason)

    def p_value(self) -> float:
        """Return the level at which the interval ends at 0; NaN without an interval."""
        if self._summed is None:
            return math.nan
        return 1.0 if self.drawn.value == 0 else self._summed.p_value()


def correlations(rows: Sequence[FloatArray]) -> FloatArray:
    """Return (m, m) correlations of rows; 0 with a row that does not vary."""
    with np.errstate(invalid="ignore", divide="ignore"):
        matrix = np.atleast_2d(np.nan_to_num(np.corrcoef(np.stack(rows))))
    matrix[np.diag_indices(len(rows))] = 1.0
    return matrix
