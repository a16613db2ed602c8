"""Differences whose interval combines those of runs (MOVER): ECE, and rates of different rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import numpy as np

from pact_eval._typing import FloatArray
from pact_eval.evaluation.calibration_error import CalibrationError
from pact_eval.evaluation.registry import Inference, Metric
from pact_eval.stats.bootstrap import Resampled, TotalsStatistic
from pact_eval.stats.estimate import LEVEL, ClusterText, Estimate, Method
from pact_eval.stats.multiplicity import holm
from pact_eval.stats.proportions import (
    few_clusters,
    few_outcomes,
    lowest_share,
    rate_estimate,
    without_interval,
)
from pact_eval.stats.summed_intervals import SummedInterval, summed_interval

if TYPE_CHECKING:
    from pact_eval.evaluation.items import ScoredItems


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


# Families with an error below which their number is the larger part of what is not known.
_FEW_ERRORS: Final = 10

_AnyEstimate = TypeVar("_AnyEstimate", bound=Estimate)


def too_few(metric: Metric, clusters: int, runs: Sequence[ScoredItems]) -> ClusterText | None:
    """Return the reason for no interval of a metric or difference; None if enough families count.

    Args:
        metric: entry of the registry.
        clusters: number of families that count.
        runs: the same items of one or more runs; an item is wrong if it is wrong in any of them.
    """
    reason = few_clusters(clusters)
    if reason is not None or clusters < 2 or not metric.of_errors:
        return reason
    wrong, right = (_families(metric, runs, right=outcome) for outcome in (False, True))
    return few_outcomes(wrong, right)


def reaching_to_fewer_errors(
    metric: Metric, estimate: _AnyEstimate, items: ScoredItems
) -> _AnyEstimate:
    """Return a loss whose interval allows for its number of errors being too large by chance.

    With fewer than 10 families with an error, the lower end is at most the loss times
    `stats.lowest_share` of their number. ECE has no interval then if calibration is rejected: an
    interval that excludes 0, as the test does, would not allow for the number of errors.

    Args:
        metric: entry of the registry.
        estimate: the metric of a run.
        items: of the run.
    """
    if not metric.of_errors or math.isnan(estimate.low):
        return estimate
    count = _families(metric, [items], right=False)
    if count >= _FEW_ERRORS:
        return estimate
    if isinstance(estimate, CalibrationError) and estimate.rejected:
        few = f"{count} {{clusters}} with an error, fewer than {_FEW_ERRORS}"
        return without_interval(
            estimate, ClusterText(f"{few}, and calibration is rejected: no interval")
        )
    share = lowest_share(count, estimate.clusters)
    return replace(estimate, low=min(estimate.low, share * estimate.value))


def _families(metric: Metric, runs: Sequence[ScoredItems], *, right: bool) -> int:
    """Return how many families have an item that is right, or wrong, in any of the runs."""
    members = [run.score_items if "score items" in metric.needs else run for run in runs]
    rows = np.logical_or.reduce([run.correct == right for run in members])
    return members[0].count_clusters(rows)


TestName = Literal["interval", "t over seeds and families"]
"""What decides whether a difference is marked."""


@dataclass(frozen=True)
class Evidence:
    """Test of a difference, and its mark.

    Attributes:
        test: the test behind the mark.
        p_value: its two-sided p-value; NaN if there is none.
        adjusted_p_value: the same adjusted by Holm for all tests that are named together, or None
            if it is tested alone.
        tests: number of tests that were adjusted together; 0 if it is tested alone.
        marked: whether the difference is shown at the 5% level, after the adjustment. False for
            metrics of which neither direction is better.
    """

    test: TestName
    p_value: float
    adjusted_p_value: float | None
    tests: int
    marked: bool

    @property
    def deciding(self) -> float:
        """The p-value that decides: adjusted if other tests are adjusted with it."""
        return self.p_value if self.adjusted_p_value is None else self.adjusted_p_value


def evidence(test: TestName, p_value: float, *, marked: bool) -> Evidence:
    """Return the evidence of one difference, not adjusted for others."""
    return Evidence(test, p_value, None, 0, marked)


def sign_of(difference: Estimate) -> int:
    """Return the sign of a difference: of its interval if that excludes 0, else of its value.

    The difference of two published ECE can lie outside the interval of the true difference.

    Examples:
        >>> sign_of(Estimate(0.01, -0.09, -0.02, 324, 162))
        -1
        >>> sign_of(Estimate(0.01, -0.02, 0.04, 324, 162))
        1
    """
    if difference.excludes_zero:
        return 1 if difference.low > 0 else -1
    return (difference.value > 0) - (difference.value < 0)


def interval_evidence(metric: Metric, inference: Inference, difference: Estimate) -> Evidence:
    """Return the evidence of an interval.

    Args:
        metric: entry of the registry.
        inference: on the difference.
        difference: with the interval that is shown; there is no evidence without one.
    """
    if math.isnan(difference.low):
        return evidence("interval", math.nan, marked=False)
    marked = bool(difference.excludes_zero and metric.spec.better)
    return evidence("interval", inference.p_value(), marked=marked)


def adjusted(tests: Sequence[Evidence]) -> list[Evidence]:
    """Adjust the p-values of several differences together, by Holm's procedure.

    Args:
        tests: those that are named together; a p-value of NaN is no test.

    Examples:
        >>> one, two = (evidence("interval", p, marked=p <= 0.05) for p in (0.03, 0.01))
        >>> [(test.adjusted_p_value, test.marked) for test in adjusted([one, two])]
        [(0.03, True), (0.02, True)]
    """
    together = holm(np.array([test.p_value for test in tests], dtype=np.float64))
    return [
        replace(
            test,
            adjusted_p_value=math.nan if math.isnan(p_value) else p_value,
            tests=together.tests,
            marked=bool(test.marked and p_value <= LEVEL),
        )
        for test, p_value in zip(tests, together.adjusted.tolist(), strict=True)
    ]
