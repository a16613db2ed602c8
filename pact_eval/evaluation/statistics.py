"""The statistics of a group of items: functions of how often each family was drawn."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval.evaluation.items import ScoredItems, group_rows, label_codes
from pact_eval.evaluation.specs import CONFIDENT, GroupBy
from pact_eval.stats import (
    Estimate,
    Resampled,
    Statistic,
    cluster_sums,
    mean_statistic,
    ratio_statistic,
    resample,
    rows_statistic,
    totals_statistic,
)


@dataclass(frozen=True)
class StatisticSet:
    """Statistics that see the same resamples.

    Attributes:
        statistics: by metric name.
        families: (F,) names of the families that are resampled, in the order of the weights.
        n: items behind them.
    """

    statistics: Mapping[str, Statistic]
    families: npt.NDArray[np.str_]
    n: int

    @property
    def n_clusters(self) -> int:
        """Number of families that are resampled, F."""
        return len(self.families)


@dataclass(frozen=True)
class Basis:
    """What a metric rests on where that is not all items.

    Attributes:
        units: items, pairs or errors behind it.
        families: families that they form.
        reason_if_none: why there are none.
    """

    units: int
    families: int
    reason_if_none: str

    def judge(self, estimate: Estimate) -> Estimate:
        """Return the estimate with this basis, and the reason where there is none."""
        reason = estimate.reason if self.units else self.reason_if_none
        return replace(estimate, n=self.units, clusters=self.families, reason=reason)


@dataclass(frozen=True)
class GroupStatistics:
    """All statistics of one group of items.

    Attributes:
        items: the items of the group.
        cluster: (n,) code of each item's family.
        pairs: the complete pairs among them.
        sets: the statistics; score metrics resample the families with score items alone, so that
            every group has the same interval for them.
        bases: by metric name, what the metric rests on where that is not all items.
    """

    items: ScoredItems
    cluster: npt.NDArray[np.int64]
    pairs: metrics.PairIndex
    sets: tuple[StatisticSet, ...]
    bases: Mapping[str, Basis]


def group_statistics(items: ScoredItems) -> GroupStatistics:
    """Build the statistics of a group of items.

    Args:
        items: the items of the group, one or more.

    Returns:
        The statistics of every metric in `METRICS`.
    """
    predictions = items.predictions
    cluster = label_codes(predictions.family)
    families = np.unique(predictions.family)
    n_clusters = len(families)
    pairs = metrics.pair_rows(cluster, predictions.variant == "base")
    pair_accuracy = mean_statistic(
        metrics.pair_correct(pairs, items.correct), cluster[pairs.base], n_clusters
    )
    statistics = _item_statistics(items, cluster, n_clusters) | {"pair_accuracy": pair_accuracy}
    return GroupStatistics(
        items=items,
        cluster=cluster,
        pairs=pairs,
        sets=(StatisticSet(statistics, families, len(predictions)), _score_set(items)),
        bases=metric_bases(
            is_score=predictions.kind == "score",
            correct=items.correct,
            view_tv=items.view_tv,
            gain=items.gain,
            cluster=cluster,
            pairs=len(pairs),
        ),
    )


def _score_set(items: ScoredItems) -> StatisticSet:
    rows = np.flatnonzero(items.predictions.kind == "score")
    cluster = label_codes(items.predictions.family[rows])
    families = np.unique(items.predictions.family[rows])
    n_clusters = len(families)
    statistics = {
        "score_mae": mean_statistic(items.expected_level_error[rows], cluster, n_clusters),
        "score_level_mae": mean_statistic(items.level_error[rows], cluster, n_clusters),
    }
    return StatisticSet(statistics, families, len(rows))


def _item_statistics(
    items: ScoredItems, cluster: npt.NDArray[np.int64], n_clusters: int
) -> dict[str, Statistic]:
    def mean(values: npt.NDArray[np.float64] | npt.NDArray[np.bool_]) -> Statistic:
        return mean_statistic(values, cluster, n_clusters)

    confidence, correct = items.confidence, items.correct
    confident = metrics.is_confident(confidence, CONFIDENT).astype(np.float64)
    return {
        "accuracy": mean(correct),
        "nll_nats": mean(items.nll),
        "brier": mean(items.brier),
        "ece": _ece_statistic(confidence, correct, cluster, n_clusters),
        "aurc": rows_statistic(
            lambda weights: metrics.aurc_weighted(confidence, correct, weights), cluster
        ),
        "view_tv": mean(items.view_tv),
        "flip_rate": mean(items.flipped),
        "ensemble_gain": mean(items.gain),
        "confident_errors": ratio_statistic(
            np.where(correct, 0.0, confident), ~correct, cluster, n_clusters
        ),
    }


def _ece_statistic(
    confidence: npt.NDArray[np.float64],
    correct: npt.NDArray[np.bool_],
    cluster: npt.NDArray[np.int64],
    n_clusters: int,
) -> Statistic:
    # Bin sums are linear in the weights, so that a resample costs one small matrix product.
    in_bin = metrics.bin_index(confidence)[:, None] == np.arange(metrics.BINS)
    return totals_statistic(
        metrics.ece_from_bin_sums,
        cluster_sums(in_bin, cluster, n_clusters),
        cluster_sums(in_bin * confidence[:, None], cluster, n_clusters),
        cluster_sums(in_bin * correct[:, None], cluster, n_clusters),
    )


def metric_bases(
    *,
    is_score: npt.NDArray[np.bool_],
    correct: npt.NDArray[np.bool_],
    view_tv: npt.NDArray[np.floating],
    gain: npt.NDArray[np.floating],
    cluster: npt.NDArray[np.integer],
    pairs: int,
) -> dict[str, Basis]:
    """Count what the metrics rest on that do not rest on all items.

    Args:
        is_score: (n,) whether an item belongs to a Score field.
        correct: (n,) whether it is right.
        view_tv: (n,) NaN for one view.
        gain: (n,) NaN for one view, or where the views exclude every answer.
        cluster: (n,) code of each item's family, 0 or more.
        pairs: number of complete pairs.

    Returns:
        By metric name, units, families and the reason where there are none.
    """

    def where(mask: npt.NDArray[np.bool_], reason: str) -> Basis:
        families = int((np.bincount(cluster[mask], minlength=1) > 0).sum())
        return Basis(int(mask.sum()), families, reason)

    score = where(is_score, "no score items")
    views = where(~np.isnan(view_tv), "one view only: K is 1")
    excluded = "the views of an item rule out all of its answers"
    by_gain = where(~np.isnan(gain), excluded if views.units else views.reason_if_none)
    return {
        "pair_accuracy": Basis(pairs, pairs, "no complete pairs"),
        "score_mae": score,
        "score_level_mae": score,
        "view_tv": views,
        "flip_rate": views,
        "ensemble_gain": by_gain,
        "confident_errors": where(~correct, "no errors"),
    }


def point_values(group: GroupStatistics) -> dict[str, float]:
    """Return the value of every metric on the items themselves; NaN where it is undefined."""
    values: dict[str, float] = {}
    for each in group.sets:
        ones = np.ones((1, each.n_clusters))
        for name, statistic in each.statistics.items():
            values[name] = float(statistic(ones)[0]) if each.n_clusters else float("nan")
    return values


@dataclass(frozen=True)
class ResampledGroup:
    """A group of items of one run, with every metric on its resamples.

    Attributes:
        name: "all", or the kind, domain or source family.
        statistics: what the metrics are computed from.
        drawn: by metric name, its value and its replicates. Groups of the same items in two runs
            see the same resamples, so that their replicates can be subtracted.
    """

    name: str
    statistics: GroupStatistics
    drawn: Mapping[str, Resampled]

    @property
    def families(self) -> int:
        """Number of families, the clusters of the intervals."""
        return self.statistics.sets[0].n_clusters

    def estimate(self, metric: str) -> Estimate:
        """Return a metric with its interval."""
        estimate = self.drawn[metric].estimate()
        basis = self.statistics.bases.get(metric)
        return estimate if basis is None else basis.judge(estimate)

    def difference(self, other: ResampledGroup, metric: str) -> Resampled:
        """Return a metric of this group minus that of the same items in another run."""
        return self.drawn[metric] - other.drawn[metric]

    def undefined_reason(self, metric: str) -> str | None:
        """Say why no item of the group has the metric; None if some have it."""
        basis = self.statistics.bases.get(metric)
        return None if basis is None or basis.units else basis.reason_if_none


def resampled_groups(
    items: ScoredItems, by: GroupBy, *, rng: np.random.Generator, resamples: int
) -> tuple[ResampledGroup, ...]:
    """Resample every metric on all items, and on each group of them.

    Args:
        items: the items of a run under one decoding.
        by: kind, domain or source_family.
        rng: source of the resamples; every group starts from its present state.
        resamples: bootstrap resamples of families.

    Returns:
        All items first, then the groups in the order of the report.
    """
    groups = []
    for name, rows in group_rows(items.predictions, by).items():
        statistics = group_statistics(items.taken(rows))
        drawn: dict[str, Resampled] = {}
        for each in statistics.sets:
            drawn |= resample(
                each.statistics,
                n_clusters=each.n_clusters,
                n=each.n,
                rng=deepcopy(rng),
                resamples=resamples,
            )
        groups.append(ResampledGroup(name, statistics, drawn))
    return tuple(groups)
