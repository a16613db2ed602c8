"""The metrics of a group of items: their values, and their values on resamples of families."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval._choices import GroupBy
from pact_eval._typing import IntArray, TextArray
from pact_eval.errors import NO_PROBABILITIES
from pact_eval.evaluation.combined_differences import reaching_to_fewer_errors, too_few
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.labels import Labels
from pact_eval.evaluation.registry import (
    Basis,
    Metric,
    Reduced,
    find_metric,
    metrics_for,
    undefined,
)
from pact_eval.stats.bootstrap import Resampled, SampleStatistic, Statistic, resample, same_stream
from pact_eval.stats.estimate import ClusterText, Estimate
from pact_eval.stats.proportions import without_interval


@dataclass(frozen=True)
class StatisticSet:
    """Statistics with the same resamples.

    Attributes:
        statistics: by metric name, the statistic.
        family_labels: the families or source families that are resampled, in the order of weights.
        n: number of items.
    """

    statistics: Mapping[str, Statistic]
    family_labels: Labels
    n: int

    @property
    def n_clusters(self) -> int:
        """Number of families that are resampled, F."""
        return len(self.family_labels)

    @property
    def families(self) -> TextArray:
        """(F,) names of the families."""
        return self.family_labels.names


@dataclass(frozen=True)
class GroupStatistics:
    """All metrics of one group of items, as functions of how often each family is drawn.

    Attributes:
        items: the items of the group.
        sets: the statistics; metrics of Score items resample only the families with such items, so
            every group has the same interval for these metrics.
        bases: by metric name, the units from which the metric is computed, if not all items.
    """

    items: ScoredItems
    sets: tuple[StatisticSet, ...]
    bases: Mapping[str, Basis]

    @property
    def cluster(self) -> npt.NDArray[np.int64]:
        """(n,) code of each item's family, or source family if those are the units."""
        return self.items.cluster

    @property
    def pairs(self) -> metrics.PairIndex:
        """The complete pairs among the items."""
        return self.items.pairs


def group_statistics(
    items: ScoredItems, entries: Sequence[Metric] | None = None
) -> GroupStatistics:
    """Build the statistics of a group of items.

    Args:
        items: the items of the group, one or more.
        entries: the metrics; None uses every reported metric that is defined for such items.
    """
    chosen = metrics_for(items.contexts) if entries is None else entries
    bases: dict[str, Basis] = {}
    sets = []
    for score in (False, True):
        set_metrics = [metric for metric in chosen if ("score items" in metric.needs) == score]
        if not set_metrics:
            continue
        set_items = items.score_items if score else items
        reductions = _reductions(set_items, set_metrics)
        statistics = {name: reduced.statistic for name, reduced in reductions.items()}
        bases |= {
            name: reduced.basis for name, reduced in reductions.items() if reduced.basis is not None
        }
        sets.append(StatisticSet(statistics, set_items.clusters, len(set_items)))
    return GroupStatistics(items, tuple(sets), bases)


def _reductions(items: ScoredItems, entries: Sequence[Metric]) -> dict[str, Reduced]:
    """Reduce every metric."""

    def reduced(metric: Metric) -> Reduced:
        if not metric.defined_for(items.known):
            return undefined(NO_PROBABILITIES[items.known])
        return metric.reduction(items, metric.name)

    return {metric.name: reduced(metric) for metric in entries}


def point_values(group: GroupStatistics) -> dict[str, float]:
    """Return the value of every metric on the items, without resampling; NaN if undefined."""
    values: dict[str, float] = {}
    for statistic_set in group.sets:
        for name, statistic in statistic_set.statistics.items():
            if not statistic_set.n_clusters:
                values[name] = float("nan")
            elif isinstance(statistic, SampleStatistic):
                values[name] = statistic.on_rows()
            else:
                values[name] = float(statistic(np.ones((1, statistic_set.n_clusters)))[0])
    return values


def point_estimates(
    items: ScoredItems, by: GroupBy, names: Sequence[str] | None = None
) -> dict[str, dict[str, Estimate]]:
    """Return metrics of all items and of each group, without intervals.

    Args:
        items: the items of a run under one decoding.
        by: kind, domain or source_family.
        names: names of the metrics; None uses every reported metric that is defined for such items.

    Returns:
        The estimates by group, all items first, and by metric.
    """
    entries = None if names is None else [find_metric(name) for name in names]
    estimates = {}
    for group, rows in items.rows_by_group(by).items():
        statistics = group_statistics(items.taken(rows), entries)
        estimates[group] = {
            name: _point(statistics, name, value)
            for name, value in point_values(statistics).items()
        }
    return estimates


def _point(group: GroupStatistics, name: str, value: float) -> Estimate:
    basis = group.bases.get(name) or Basis(len(group.items), group.items.n_clusters, "")
    reason = _reason_text(basis.reason_if_none) if math.isnan(value) else None
    return Estimate(value, math.nan, math.nan, basis.units, basis.families, None, reason)


def _reason_text(reason: str) -> ClusterText | None:
    return ClusterText(reason) if reason else None


@dataclass(frozen=True)
class ResampledGroup:
    """A group of items of one run, with the resamples of every metric.

    Attributes:
        name: "all", or the kind, domain or source family.
        statistics: the metrics as functions of how often each family is drawn.
        drawn: by metric name, its value and its replicates. Groups of the same items in two runs
            have the same resamples, so their replicates can be subtracted.
        rng: source of the resamples in its initial state, for intervals that draw more.
    """

    name: str
    statistics: GroupStatistics
    drawn: Mapping[str, Resampled]
    rng: np.random.Generator
    _estimates: dict[str, Estimate] = field(default_factory=dict, repr=False, compare=False)

    @property
    def items(self) -> ScoredItems:
        """The items of the group."""
        return self.statistics.items

    def estimate(self, metric: str) -> Estimate:
        """Return a metric with its interval; computed once, since a run is in several pairs."""
        if metric not in self._estimates:
            self._estimates[metric] = self._estimate(metric)
        return self._estimates[metric]

    def _estimate(self, metric: str) -> Estimate:
        entry = find_metric(metric)
        if not entry.defined_for(self.items.known):
            unknown = ClusterText(NO_PROBABILITIES[self.items.known])
            return Estimate(math.nan, math.nan, math.nan, 0, 0, None, unknown)
        estimate = entry.interval(self.items, self.drawn[metric], same_stream(self.rng))
        estimate = entry.within_bounds(estimate)
        few = too_few(entry, self.basis(metric).families, [self.items])
        estimate = without_interval(estimate, few)
        estimate = reaching_to_fewer_errors(entry, estimate, self.items)
        basis = self.statistics.bases.get(metric)
        if basis is None:
            return estimate
        reason = self.undefined_reason(metric) or estimate.reason
        return replace(estimate, n=basis.units, clusters=basis.families, reason=reason)

    def difference(self, other: ResampledGroup, metric: str) -> Resampled:
        """Return a metric of this group minus the same metric of these items in another run."""
        return self.drawn[metric] - other.drawn[metric]

    def basis(self, metric: str) -> Basis:
        """Return the items, pairs or errors from which a metric is computed."""
        everything = Basis(len(self.items), self.items.n_clusters, "")
        return self.statistics.bases.get(metric) or everything

    def undefined_reason(self, metric: str) -> ClusterText | None:
        """Return why no item of the group has the metric; None if some items have it."""
        basis = self.basis(metric)
        return None if basis.units else _reason_text(basis.reason_if_none)


def resampled_groups(
    items: ScoredItems,
    by: GroupBy | None,
    *,
    rng: np.random.Generator,
    resamples: int,
    entries: Sequence[Metric] | None = None,
) -> tuple[ResampledGroup, ...]:
    """Resample metrics on all items and on each group; each is drawn once.

    Args:
        items: the items of a run under one decoding.
        by: kind, domain or source_family; None has no group but all items.
        rng: source of the resamples; every group starts from its current state.
        resamples: bootstrap resamples of families.
        entries: the metrics; None uses every reported metric that is defined for such items.

    Returns:
        All items first, then the groups in the order of the report.
    """
    sampling = _Sampling(items, rng, resamples, entries)
    if by is None:
        return (sampling.all_items("all"),)
    return tuple(
        sampling.all_items(name) if len(rows) == len(items) else sampling.group(by, name, rows)
        for name, rows in sampling.sorted_items.rows_by_group(by).items()
    )


def resampled_group(
    name: str,
    items: ScoredItems,
    *,
    rng: np.random.Generator,
    resamples: int,
    entries: Sequence[Metric] | None = None,
) -> ResampledGroup:
    """Resample metrics on one group of items; they are drawn once.

    Args:
        name: of the group.
        items: its items.
        rng: source of the resamples; its state does not change.
        resamples: bootstrap resamples of families.
        entries: the metrics; None uses every reported metric that is defined for such items.
    """
    return _Sampling(items, rng, resamples, entries).all_items(name)


class _Sampling:
    """The groups of some items with their resamples, which the items keep for further calls.

    Two calls share a group if they agree on the state of the generator, the number of resamples and
    the metrics. Items that were read from a file keep nothing; see `ScoredItems.once`.

    Attributes:
        sorted_items: a copy of the items with sorted families, to which the groups may refer.
    """

    def __init__(
        self,
        items: ScoredItems,
        rng: np.random.Generator,
        resamples: int,
        entries: Sequence[Metric] | None = None,
    ) -> None:
        self.sorted_items = items.with_sorted_families()
        self._items = items
        self._rng = rng
        self._resamples = resamples
        self._entries = tuple(metrics_for(items.contexts) if entries is None else entries)
        self._key = (pickle.dumps(rng.bit_generator.state), resamples, self._entries)

    def all_items(self, name: str) -> ResampledGroup:
        """Return all items as a group of this name."""
        group = self._items.once(("all", self._key), lambda: self._drawn(name, self.sorted_items))
        return group if group.name == name else replace(group, name=name)

    def group(self, by: GroupBy, name: str, rows: IntArray) -> ResampledGroup:
        """Return the group of these rows."""
        return self._items.once(
            (by, name, self._key), lambda: self._drawn(name, self.sorted_items.taken(rows))
        )

    def _drawn(self, name: str, items: ScoredItems) -> ResampledGroup:
        statistics = group_statistics(items, self._entries)
        drawn: dict[str, Resampled] = {}
        for statistic_set in statistics.sets:
            drawn |= resample(
                statistic_set.statistics,
                n_clusters=statistic_set.n_clusters,
                n=statistic_set.n,
                rng=same_stream(self._rng),
                resamples=self._resamples,
                lazily=True,
            )
        return ResampledGroup(name, statistics, drawn, same_stream(self._rng))
