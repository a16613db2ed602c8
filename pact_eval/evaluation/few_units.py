"""Few families, or few families with an error: intervals that are left out, or reach further."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from pact_eval.evaluation.registry import Metric
from pact_eval.stats import ClusterText, Estimate

if TYPE_CHECKING:
    from pact_eval.evaluation.items import ScoredItems

FEWEST: Final = 5
"""Families, and families with an error or a right answer, below which there is no interval."""

# Families with an error below which their number is the larger part of what is not known.
_FEW_ERRORS: Final = 10
# Quantile of the normal distribution for the lower end of a 95% interval.
_Z: Final = 1.959964

_AnyEstimate = TypeVar("_AnyEstimate", bound=Estimate)


def too_few(metric: Metric, clusters: int, runs: Sequence[ScoredItems]) -> ClusterText | None:
    """Return why a metric, or a difference of it, has no interval; None if enough families count.

    A loss of runs with few errors rests on these errors: the next family with an error would move
    it by more than the spread of the others tells. The same holds if few answers are right.

    Args:
        metric: entry of the registry.
        clusters: number of families that count.
        runs: the same items of one or more runs; an item is wrong if it is wrong in any of them.
    """
    if 1 < clusters < FEWEST:
        return ClusterText(f"{clusters} {{clusters}}, fewer than {FEWEST}: no interval")
    if not metric.of_errors or clusters < FEWEST:
        return None
    for right, of_what in ((False, "an error"), (True, "a right answer")):
        count = _families(metric, runs, right=right)
        if count < FEWEST:
            counted = f"{count or 'no'} {{{'cluster' if count == 1 else 'clusters'}}}"
            return ClusterText(f"{counted} with {of_what}, fewer than {FEWEST}: no interval")
    return None


def without_interval(estimate: _AnyEstimate, reason: ClusterText | None) -> _AnyEstimate:
    """Return an estimate without its interval, for a reason; as it is if there is none."""
    if reason is None or math.isnan(estimate.low):
        return estimate
    return replace(estimate, low=math.nan, high=math.nan, reason=reason)


def reaching_to_fewer_errors(
    metric: Metric, estimate: _AnyEstimate, items: ScoredItems
) -> _AnyEstimate:
    r"""Return a loss whose interval allows for its number of errors being too large by chance.

    With k < 10 families with an error, the lower end is at most the loss times

    .. math:: \left(1 - \frac{1}{9 k} - \frac{z_{0.975}}{3 \sqrt k}\right)^3

    the lower limit of the mean of a Poisson number k, relative to k (Wilson and Hilferty 1931).

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
    share = (1 - 1 / (9 * count) - _Z / (3 * math.sqrt(count))) ** 3
    return replace(estimate, low=min(estimate.low, share * estimate.value))


def _families(metric: Metric, runs: Sequence[ScoredItems], *, right: bool) -> int:
    """Return how many families have an item that is right, or wrong, in any of the runs."""
    members = [run.score_items if "score items" in metric.needs else run for run in runs]
    rows = np.logical_or.reduce([run.correct == right for run in members])
    return members[0].count_clusters(rows)
