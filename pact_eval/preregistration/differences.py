"""Differences between runs: their intervals, and the runs at fewer views."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from pact_eval import metrics
from pact_eval._typing import FloatArray, IntArray
from pact_eval.calibration.temperatures import Calibrator
from pact_eval.evaluation.arms.cells import MetricRow
from pact_eval.evaluation.combined_differences import DifferencePart, ece_difference
from pact_eval.evaluation.decoding import MetricDecoding
from pact_eval.evaluation.few_units import too_few
from pact_eval.evaluation.items import ScoredItems, counted_views
from pact_eval.evaluation.registry import Inference, find_metric
from pact_eval.evaluation.resampled_groups import (
    GroupStatistics,
    ResampledGroup,
    StatisticSet,
    group_statistics,
    point_estimates,
)
from pact_eval.preregistration.scorecard import WeightedRow
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.bootstrap import Resampled, SampleStatistic, Statistic, resample
from pact_eval.stats.estimate import ClusterText, Estimate
from pact_eval.stats.few_errors import without_interval
from pact_eval.stats.permuted_slots import distinct_orders

__all__ = ["RunDifferences", "with_calibrated_tv"]

Terms = tuple[WeightedRow, ...]
# Arm, seed, decoding, and whether the contexts are ablated.
_Key = tuple[str, int | None, MetricDecoding, bool]
# The same, views (None for all), group and metric.
_Place = tuple[_Key, int | None, str, str]

_CONFIDENCE: Final = 0.95
# Resamples beyond each end of an interval of higher confidence.
_BEYOND: Final = 20


class RunDifferences:
    """Intervals of differences between runs on the same items.

    Args:
        rng: makes the source of the resamples; called for every difference, so that all see the
            same resamples.
        resamples: bootstrap resamples of families. Intervals of more than 95% confidence draw
            more if they need them.
    """

    def __init__(self, rng: Callable[[], np.random.Generator], resamples: int) -> None:
        self._rng = rng
        self._resamples = resamples
        self._items: dict[_Key, ScoredItems] = {}
        self._fewer: dict[tuple[_Key, int], ScoredItems] = {}
        self._groups: dict[_Place, GroupStatistics] = {}
        self._estimates: dict[_Place, Estimate] = {}
        self._inferences: dict[tuple[Terms, int], Inference] = {}

    def add(self, arm: str, seed: int | None, decoding: MetricDecoding, items: ScoredItems) -> None:
        """Add the items of a run under one decoding."""
        self._items[arm, seed, decoding, items.contexts == "ablated"] = items

    def interval(self, terms: Terms, confidence: float) -> Estimate | None:
        """Return a weighted sum of numbers with its interval over families.

        One number alone has the interval of its metric, as in the report.

        Returns:
            None if a number does not come from these runs. `n` counts the items (pairs, Score
            items) of the first number.
        """
        groups = [self._group_of(term.row) for term in terms]
        found_groups = [group for group in groups if group is not None and group.sets]
        if len(found_groups) < len(terms):
            return None
        if [term.weight for term in terms] == [1.0] and confidence == _CONFIDENCE:
            return self._alone(found_groups[0], terms[0].row.cell.metric)
        resamples = self._resamples
        if confidence > _CONFIDENCE:
            resamples = max(resamples, math.ceil(2 * _BEYOND / (1 - confidence)))
        if (terms, resamples) not in self._inferences:
            self._inferences[terms, resamples] = self._inference(terms, found_groups, resamples)
        estimate = self._inferences[terms, resamples].estimate(confidence)
        return without_interval(estimate, _too_few(terms, found_groups))

    def _inference(
        self, terms: Terms, groups: Sequence[GroupStatistics], resamples: int
    ) -> Inference:
        first = terms[0].row.cell.metric
        basis = groups[0].bases.get(first)
        sets = [group.sets[0] for group in groups]
        n = sets[0].n if basis is None else basis.units
        runs = _resampled(terms, sets, n=n, rng=self._rng(), resamples=resamples)
        drawn = Resampled.weighted_sum(
            [(term.weight, run) for term, run in zip(terms, runs, strict=True)]
        )
        metric = find_metric(first)
        if not metric.noise_floor or any(term.row.cell.metric != first for term in terms):
            return metric.difference(drawn)
        parts = [
            DifferencePart(term.weight, self._estimate(term.row, group), run)
            for term, group, run in zip(terms, groups, runs, strict=True)
        ]
        return ece_difference(drawn, parts)

    def _alone(self, group: GroupStatistics, metric: str) -> Estimate:
        """Return one number with the interval that the report of its run shows."""
        of_group = group.sets[0]
        drawn = resample(
            of_group.statistics,
            n_clusters=of_group.n_clusters,
            n=of_group.n,
            rng=self._rng(),
            resamples=self._resamples,
            lazily=True,
        )
        return ResampledGroup("", group, drawn, self._rng()).estimate(metric)

    def with_views(self, row: MetricRow, k: int) -> MetricRow | None:
        """Return the number as the first k views of its run give it; None if it is of no run."""
        items = self._items_of(replace(row, k=k))
        if items is None:
            return None
        cell = row.cell
        at_fewer_views = point_estimates(items, "kind", [cell.metric]).get(cell.group)
        if at_fewer_views is None:
            return None
        fewer = replace(row, k=k, value=at_fewer_views[cell.metric].value)
        group = self._group_of(fewer) if find_metric(cell.metric).noise_floor else None
        calibration = None if group is None else self._alone(group, cell.metric)
        return replace(
            MetricRow.of(cell, row.seed, calibration or at_fewer_views[cell.metric]), k=k
        )

    def _group_of(self, row: MetricRow) -> GroupStatistics | None:
        """Return the group of items that a number rests on, with its one metric."""
        items = self._items_of(row)
        rows = None if items is None else items.rows_by_group("kind").get(row.cell.group)
        if items is None or rows is None:
            return None
        place = self._place(row)
        if place not in self._groups:
            metric = find_metric(row.cell.metric)
            self._groups[place] = group_statistics(items.taken(rows), [metric])
        return self._groups[place]

    def _place(self, row: MetricRow) -> _Place:
        key = _key(row)
        fewer = row.k is not None and row.k != self._items[key].k
        return key, row.k if fewer else None, row.cell.group, row.cell.metric

    def _estimate(self, row: MetricRow, group: GroupStatistics) -> Estimate:
        """Return a metric of one run with its interval, from its evaluation if that has it."""
        if row.calibration is not None:
            return row.calibration
        place = self._place(row)
        if place not in self._estimates:
            self._estimates[place] = self._alone(group, row.cell.metric)
        return self._estimates[place]

    def _items_of(self, row: MetricRow) -> ScoredItems | None:
        key = _key(row)
        items = self._items.get(key)
        if items is None or row.k is None or row.k == items.k:
            return items
        if (key, row.k) not in self._fewer:
            self._fewer[key, row.k] = with_calibrated_tv(items.with_views(row.k))
        return self._fewer[key, row.k]


def with_calibrated_tv(items: ScoredItems) -> ScoredItems:
    """Return the items with the TV of their calibrated views, if they are a calibrated ensemble.

    In an evaluation, view TV is raw. Hypotheses ask for it under the calibrated decoding.
    """
    if items.decoding != "ensemble" or items.calibrator is None or items.contexts == "ablated":
        return items
    return items.with_values("view_tv", _calibrated_tv(items.predictions, items.calibrator))


def _calibrated_tv(predictions: Predictions, calibrator: Calibrator) -> FloatArray:
    views = calibrator.apply(
        predictions.log_probs_by_view,
        kind=predictions.kind,
        n_choices=predictions.n_choices,
        prompt_tokens=predictions.prompt_tokens,
    )
    return metrics.pairwise_tv(views, counted_views(distinct_orders(predictions.code_order)))


def _key(row: MetricRow) -> _Key:
    ablated = "ablated contexts" in find_metric(row.cell.metric).needs
    return row.cell.arm, row.seed, row.cell.decoding, ablated


def _too_few(terms: Terms, groups: Sequence[GroupStatistics]) -> ClusterText | None:
    """Return why a weighted sum has no interval; runs on the same items are judged together."""
    runs = [group.items for group in groups]
    together = [runs] if len({len(items) for items in runs}) == 1 else [[items] for items in runs]
    names = dict.fromkeys(term.row.cell.metric for term in terms)
    reasons = (
        too_few(find_metric(name), min(items.n_clusters for items in some), some)
        for name in names
        for some in together
    )
    return next(filter(None, reasons), None)


def _resampled(
    terms: Terms,
    sets: Sequence[StatisticSet],
    *,
    n: int,
    rng: np.random.Generator,
    resamples: int,
) -> list[Resampled]:
    # Groups, and full and ablated contexts, may have different families: resample all together.
    families = np.unique(np.concatenate([statistic_set.families for statistic_set in sets]))
    statistics = {
        str(at): _over(
            statistic_set.statistics[term.row.cell.metric],
            np.searchsorted(families, statistic_set.families),
            len(families),
        )
        for at, (term, statistic_set) in enumerate(zip(terms, sets, strict=True))
    }
    drawn = resample(
        statistics, n_clusters=len(families), n=n, rng=rng, resamples=resamples, lazily=True
    )
    return list(drawn.values())


def _over(statistic: Statistic, codes: IntArray, n_families: int) -> Statistic:
    """Return a statistic of some families as one of more families, of which they are these."""
    if isinstance(statistic, SampleStatistic):
        return statistic.over(codes, n_families)
    return lambda weights: statistic(weights[:, codes])
