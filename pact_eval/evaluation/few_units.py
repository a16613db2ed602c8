"""Few families, or few with an error: metrics without an interval, or with one that is longer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from pact_eval.evaluation.calibration_error import CalibrationError
from pact_eval.evaluation.registry import Metric
from pact_eval.stats.estimate import ClusterText, Estimate
from pact_eval.stats.few_errors import few_clusters, few_outcomes, lowest_share, without_interval

if TYPE_CHECKING:
    from pact_eval.evaluation.items import ScoredItems

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
