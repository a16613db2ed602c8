"""One metric of several runs: the difference between two of them, and the mean over an arm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pact_eval.evaluation.combined_differences import (
    DifferencePart,
    Evidence,
    ece_difference,
    interval_evidence,
    too_few,
)
from pact_eval.evaluation.notes import NOISE
from pact_eval.evaluation.registry import Basis, Inference, find_metric
from pact_eval.evaluation.resampled_groups import ResampledGroup
from pact_eval.stats.bootstrap import Resampled, same_stream
from pact_eval.stats.estimate import ClusterText, Estimate
from pact_eval.stats.proportions import without_interval


def metric_difference(
    metric: str, pairs: Sequence[tuple[ResampledGroup, ResampledGroup]]
) -> tuple[Estimate, Evidence]:
    """Return A minus B in one metric with its interval and evidence: the mean over pairs of runs.

    Args:
        metric: name of the metric.
        pairs: the same group of items in A and in B; one pair per seed.

    Returns:
        The difference with its interval over families, and whether this interval shows it.
    """
    entry = find_metric(metric)
    drawn = Resampled.mean([a.difference(b, metric) for a, b in pairs])
    inference: Inference
    if entry.noise_floor:
        parts = [
            DifferencePart(sign / len(pairs), group.estimate(metric), group.drawn[metric])
            for pair in pairs
            for sign, group in zip((1, -1), pair, strict=True)
        ]
        inference = ece_difference(drawn, parts)
    else:
        inference = entry.difference(drawn)
    groups = [group for pair in pairs for group in pair]
    basis = joint_basis(groups, metric)
    # Of rates over the errors of a run, each run needs enough of them.
    fewest = min(basis.families, *(group.basis(metric).families for group in groups))
    few = too_few(entry, fewest, [group.items for group in groups])
    estimate = _beyond_rounding(entry.within_difference(inference.estimate()))
    estimate = without_interval(estimate, few)
    reasons = (group.undefined_reason(metric) for group in groups)
    reason = next(filter(None, reasons), estimate.reason)
    return (
        replace(estimate, n=basis.units, clusters=basis.families, reason=reason),
        interval_evidence(entry, inference, estimate),
    )


def _beyond_rounding(difference: Estimate) -> Estimate:
    """Leave out an interval within the rounding of float32: of two engines, it may exclude 0."""
    ends = (difference.low, difference.high, difference.value)
    if not all(abs(end) <= NOISE["float32"] for end in ends):
        return difference
    reason = ClusterText("no difference beyond the rounding of float32")
    return replace(difference, low=math.nan, high=math.nan, reason=reason)


def mean_estimate(groups: Sequence[ResampledGroup], metric: str) -> Estimate:
    """Return the mean of a metric over runs, with its 95% interval over families; runs are fixed.

    Args:
        groups: the same group of items in each run, one or more.
        metric: name of the metric.

    Returns:
        The estimate. For one run it is `ResampledGroup.estimate`; for several, `n` and `clusters`
        are those of one run.
    """
    if len(groups) == 1:
        return groups[0].estimate(metric)
    entry = find_metric(metric)
    drawn = Resampled.mean([group.drawn[metric] for group in groups])
    if entry.noise_floor:
        parts = [
            DifferencePart(1 / len(groups), group.estimate(metric), group.drawn[metric])
            for group in groups
        ]
        estimate = ece_difference(drawn, parts).estimate()
    else:
        estimate = entry.interval(groups[0].items, drawn, same_stream(groups[0].rng))
    basis = joint_basis(groups, metric)
    few = too_few(entry, basis.families, [group.items for group in groups])
    estimate = without_interval(entry.within_bounds(estimate), few)
    undefined = next(filter(None, (group.undefined_reason(metric) for group in groups)), None)
    return replace(
        estimate,
        n=basis.units,
        clusters=basis.families,
        reason=undefined or estimate.reason,
    )


def joint_basis(groups: Sequence[ResampledGroup], metric: str) -> Basis:
    """Return the items, pairs or errors from which a difference between runs is computed.

    Args:
        groups: the same group of items in each run, one or more.
        metric: name of the metric.

    Returns:
        The basis of the runs. If it depends on the run (errors), it covers the items that count in
        any run.
    """
    bases = [group.basis(metric) for group in groups]
    masks = [basis.rows for basis in bases if basis.rows is not None]
    if len(masks) < len(bases):
        return min(bases, key=lambda basis: basis.units)
    rows = np.logical_or.reduce(masks)
    families = groups[0].items.count_clusters(rows)
    return Basis(int(rows.sum()), families, bases[0].reason_if_none, rows)
