"""Intervals that are left out: too few families, or too few families with an error."""

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
    members = [run.score_items if "score items" in metric.needs else run for run in runs]
    wrong = np.logical_or.reduce([~run.correct for run in members])
    right = np.logical_or.reduce([run.correct for run in members])
    for rows, of_what in ((wrong, "an error"), (right, "a right answer")):
        count = members[0].count_clusters(rows)
        if count < FEWEST:
            counted = f"{count or 'no'} {{{'cluster' if count < 2 else 'clusters'}}}"
            return ClusterText(f"{counted} with {of_what}, fewer than {FEWEST}: no interval")
    return None


def without_interval(estimate: _AnyEstimate, reason: ClusterText | None) -> _AnyEstimate:
    """Return an estimate without its interval, for a reason; as it is if there is none."""
    if reason is None or math.isnan(estimate.low):
        return estimate
    return replace(estimate, low=math.nan, high=math.nan, reason=reason)
