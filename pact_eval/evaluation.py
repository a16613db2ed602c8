"""Evaluation: from a run's predictions to every number of the report.

Groups of items (all of them, and by kind, domain or source family) times metrics, each with a
percentile bootstrap interval over families; then how pairs fail, how confident the errors are, and
whether the model prefers a letter. Pure computation: `pact_reports` shows it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval.predictions import Decoding, Predictions
from pact_eval.stats import (
    Estimate,
    SlotHomogeneity,
    Statistic,
    bootstrap_intervals,
    cluster_sums,
    mean_statistic,
    ratio_statistic,
    rows_statistic,
    slot_homogeneity,
    totals_statistic,
)

__all__ = [
    "CONFIDENT",
    "METRICS",
    "Evaluation",
    "Group",
    "GroupBy",
    "MetricSpec",
    "Unit",
    "default_resamples",
    "evaluate",
]

GroupBy = Literal["kind", "domain", "source_family"]
"""What items are grouped by, beside all of them together."""

Unit = Literal["percent", "points", "nats", "score", "levels"]
"""How a metric is shown: rates and their differences times 100, the others as they are."""

CONFIDENT: Final = 0.9
"""An error made with this confidence or more is a confident error."""

_LOW_CODE_MASS = 0.5
_MOST_RESAMPLES = 10_000
_FEWEST_RESAMPLES = 200
# Items times resamples that a report may cost: about a minute.
_ITEM_DRAWS = 200_000_000
_KIND_ORDER = ("choice", "boolean", "score")


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One row of the report.

    Attributes:
        name: key in JSON.
        title: as the table shows it.
        unit: how it is shown.
        better: 1 higher, -1 lower, 0 neither: a value near 0 is wanted.
    """

    name: str
    title: str
    unit: Unit
    better: Literal[-1, 0, 1]


METRICS: Final = (
    MetricSpec("accuracy", "Accuracy", "percent", 1),
    MetricSpec("pair_accuracy", "Pair accuracy", "percent", 1),
    MetricSpec("nll_nats", "NLL", "nats", -1),
    MetricSpec("brier", "Brier", "score", -1),
    MetricSpec("ece", "ECE", "percent", -1),
    MetricSpec("aurc", "AURC", "percent", -1),
    MetricSpec("score_mae", "Score MAE", "levels", -1),
    MetricSpec("score_level_mae", "Score level MAE", "levels", -1),
    MetricSpec("tv", "TV between views", "percent", -1),
    MetricSpec("flip_rate", "Flip rate", "percent", -1),
    MetricSpec("gain_from_k", "Gain from K", "points", 0),
    MetricSpec("confident_errors", "Confident errors", "percent", -1),
)
"""The metrics of the report, in its order."""


@dataclass(frozen=True)
class Group:
    """All numbers of one group of items.

    Attributes:
        name: "all", or the kind, domain or source family.
        items: number of items.
        families: number of families, the clusters of the intervals.
        estimates: by metric name.
        pairs: how the complete pairs came out.
        nll: finite part and number of infinite items.
    """

    name: str
    items: int
    families: int
    estimates: Mapping[str, Estimate]
    pairs: metrics.PairOutcomes
    nll: metrics.NllSummary


@dataclass(frozen=True)
class Evaluation:
    """Every number of the report on one run under one decoding.

    Attributes:
        decoding: single (view 0) or ensemble (K views); all numbers but TV, flips, gain from K and
            the letters rest on it.
        k: views of the run.
        by: what the groups after the first are.
        groups: all items first, then the groups.
        letters: were some code letters picked more often than the right answer stood behind them?
            Over all items and views.
        mean_code_mass: mean share of the next-token distribution on the codes; NaN where unknown.
        smallest_probability: smallest probability above 0 in the run.
        notes: what a reader must know beside the table.
    """

    decoding: Decoding
    k: int
    by: GroupBy
    groups: tuple[Group, ...]
    letters: SlotHomogeneity
    mean_code_mass: float
    smallest_probability: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _PerItem:
    """What every group's statistics are made from, computed once for all items."""

    predictions: Predictions
    log_probs: npt.NDArray[np.float64]
    confidence: npt.NDArray[np.float64]
    correct: npt.NDArray[np.bool_]
    nll: npt.NDArray[np.float64]
    brier: npt.NDArray[np.float64]
    expected_level_error: npt.NDArray[np.float64]
    level_error: npt.NDArray[np.float64]
    tv: npt.NDArray[np.float64]
    flipped: npt.NDArray[np.float64]
    gain: npt.NDArray[np.float64]


def default_resamples(items: int) -> int:
    """Return 10,000 resamples, or fewer for many items, where intervals are narrow anyway.

    Example:
        >>> default_resamples(324), default_resamples(100_000), default_resamples(10_000_000)
        (10000, 2000, 200)
    """
    return max(_FEWEST_RESAMPLES, min(_MOST_RESAMPLES, _ITEM_DRAWS // max(items, 1)))


def evaluate(
    predictions: Predictions,
    *,
    decoding: Decoding,
    by: GroupBy,
    rng: np.random.Generator,
    resamples: int | None = None,
) -> Evaluation:
    """Compute the report.

    Args:
        predictions: the scored views of one run.
        decoding: single or ensemble, uncalibrated.
        by: kind, domain or source_family.
        rng: source of the resamples; every group draws the same ones, so that an interval does
            not depend on what stands beside it.
        resamples: bootstrap resamples of each interval; None takes `default_resamples`.

    Returns:
        Estimates for all items and for each group. What is undefined (pair accuracy without pairs,
        TV of one view, ...) is NaN with a reason.

    Raises:
        ValueError: an item's views have no answer of positive probability in common, so that the
            ensemble has none at all.
    """
    resamples = resamples or default_resamples(len(predictions))
    items = _per_item(predictions, decoding)
    column = getattr(predictions, by)
    masks = {"all": np.ones(len(predictions), dtype=np.bool_)}
    masks |= {name: column == name for name in _ordered(np.unique(column).tolist())}
    groups = tuple(
        _group(name, items, np.flatnonzero(mask), rng, resamples) for name, mask in masks.items()
    )
    known = predictions.code_mass[~np.isnan(predictions.code_mass)]
    finite = predictions.log_probs_by_view[np.isfinite(predictions.log_probs_by_view)]
    smallest = float(np.exp(finite.min(initial=0.0)))
    mean_code_mass = float(known.mean()) if known.size else math.nan
    return Evaluation(
        decoding=decoding,
        k=predictions.k,
        by=by,
        groups=groups,
        letters=_letters(predictions),
        mean_code_mass=mean_code_mass,
        smallest_probability=smallest,
        notes=_notes(groups[0], predictions, mean_code_mass, smallest),
    )


def _letters(predictions: Predictions) -> SlotHomogeneity:
    """Test the letters over all views whose code order is known."""
    known = predictions.code_order[:, :, 0] >= 0
    item = np.nonzero(known)[0]
    order = predictions.code_order[known][:, np.newaxis]
    picks = metrics.predicted(predictions.log_probs_by_view)[known]
    return slot_homogeneity(
        metrics.picked_slot(picks[:, np.newaxis], order)[:, 0],
        metrics.reference_slot(predictions.reference[item], order)[:, 0],
        _codes(predictions.family)[item],
    )


def _per_item(predictions: Predictions, decoding: Decoding) -> _PerItem:
    log_probs = predictions.log_probs(decoding)
    reference = predictions.reference
    return _PerItem(
        predictions=predictions,
        log_probs=log_probs,
        confidence=metrics.confidence(log_probs),
        correct=metrics.correct(log_probs, reference),
        nll=metrics.nll_nats(log_probs, reference),
        brier=metrics.brier(log_probs, reference),
        expected_level_error=metrics.expected_level_error(log_probs, reference),
        level_error=metrics.level_error(log_probs, reference).astype(np.float64),
        tv=metrics.pairwise_tv(predictions.log_probs_by_view),
        flipped=metrics.flipped(predictions.log_probs_by_view),
        gain=_gain(predictions),
    )


def _gain(predictions: Predictions) -> npt.NDArray[np.float64]:
    """Right by K views minus right by view 0; NaN for one view, or views without common answer."""
    try:
        together = metrics.correct(predictions.log_probs("ensemble"), predictions.reference)
    except ValueError:
        together = None
    if together is None or predictions.k == 1:
        return np.full(len(predictions), np.nan)
    single = metrics.correct(predictions.log_probs("single"), predictions.reference)
    return together.astype(np.float64) - single


def _group(
    name: str,
    items: _PerItem,
    rows: npt.NDArray[np.int64],
    rng: np.random.Generator,
    resamples: int,
) -> Group:
    family = items.predictions.family[rows]
    cluster = _codes(family)
    n_clusters = int(cluster.max(initial=-1)) + 1
    pairs = metrics.pair_rows(cluster, items.predictions.variant[rows] == "base")
    statistics = _item_statistics(items, rows, cluster, n_clusters) | {
        "pair_accuracy": mean_statistic(
            metrics.pair_correct(pairs, items.correct[rows]), cluster[pairs.base], n_clusters
        )
    }
    estimates = bootstrap_intervals(
        statistics, n_clusters=n_clusters, n=len(rows), rng=deepcopy(rng), resamples=resamples
    ) | _score_estimates(items, rows, rng, resamples)
    bases = _bases(items, rows, cluster, pairs)
    return Group(
        name=name,
        items=len(rows),
        families=n_clusters,
        estimates={
            spec.name: _on_basis(estimates[spec.name], bases.get(spec.name)) for spec in METRICS
        },
        pairs=metrics.pair_outcomes(
            pairs, metrics.predicted(items.log_probs)[rows], items.predictions.reference[rows]
        ),
        nll=metrics.nll_summary(items.nll[rows]),
    )


def _score_estimates(
    items: _PerItem, rows: npt.NDArray[np.int64], rng: np.random.Generator, resamples: int
) -> dict[str, Estimate]:
    """Resample the families with score items alone, so that every group has the same interval."""
    rows = rows[items.predictions.kind[rows] == "score"]
    cluster = _codes(items.predictions.family[rows])
    n_clusters = int(cluster.max(initial=-1)) + 1
    statistics = {
        "score_mae": mean_statistic(items.expected_level_error[rows], cluster, n_clusters),
        "score_level_mae": mean_statistic(items.level_error[rows], cluster, n_clusters),
    }
    return bootstrap_intervals(
        statistics, n_clusters=n_clusters, n=len(rows), rng=deepcopy(rng), resamples=resamples
    )


def _item_statistics(
    items: _PerItem,
    rows: npt.NDArray[np.int64],
    cluster: npt.NDArray[np.int64],
    n_clusters: int,
) -> dict[str, Statistic]:
    def mean(values: npt.NDArray[np.float64] | npt.NDArray[np.bool_]) -> Statistic:
        return mean_statistic(values[rows], cluster, n_clusters)

    def share(numerator: npt.NDArray[np.float64], of: npt.NDArray[np.bool_]) -> Statistic:
        below = of[rows]
        above = np.where(below, numerator[rows], 0.0)
        return ratio_statistic(above, below, cluster, n_clusters)

    confidence, correct = items.confidence[rows], items.correct[rows]
    return {
        "accuracy": mean(items.correct),
        "nll_nats": mean(items.nll),
        "brier": mean(items.brier),
        "ece": _ece_statistic(confidence, correct, cluster, n_clusters),
        "aurc": rows_statistic(
            lambda weights: metrics.aurc_weighted(confidence, correct, weights), cluster
        ),
        "tv": mean(items.tv),
        "flip_rate": mean(items.flipped),
        "gain_from_k": mean(items.gain),
        "confident_errors": share(
            metrics.is_confident(items.confidence, CONFIDENT).astype(np.float64), ~items.correct
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


@dataclass(frozen=True)
class _Basis:
    """What a metric rests on where that is not all items: units, their families, why none."""

    units: int
    families: int
    reason_if_none: str


def _bases(
    items: _PerItem,
    rows: npt.NDArray[np.int64],
    cluster: npt.NDArray[np.int64],
    pairs: metrics.PairIndex,
) -> dict[str, _Basis]:
    def where(mask: npt.NDArray[np.bool_], reason: str) -> _Basis:
        return _Basis(int(mask.sum()), len(np.unique(cluster[mask])), reason)

    score = where(items.predictions.kind[rows] == "score", "no score items")
    views = where(~np.isnan(items.tv[rows]), "one view only: K is 1")
    excluded = "the views of an item rule out all of its answers"
    gain = where(~np.isnan(items.gain[rows]), excluded if views.units else views.reason_if_none)
    return {
        "pair_accuracy": _Basis(len(pairs), len(pairs), "no complete pairs"),
        "score_mae": score,
        "score_level_mae": score,
        "tv": views,
        "flip_rate": views,
        "gain_from_k": gain,
        "confident_errors": where(~items.correct[rows], "no errors"),
    }


def _on_basis(estimate: Estimate, basis: _Basis | None) -> Estimate:
    if basis is None:
        return estimate
    reason = estimate.reason if basis.units else basis.reason_if_none
    return replace(estimate, n=basis.units, clusters=basis.families, reason=reason)


def _notes(
    everything: Group,
    predictions: Predictions,
    mean_code_mass: float,
    smallest: float,
) -> tuple[str, ...]:
    notes = []
    if everything.nll.infinite_items:
        bound = everything.nll.lower_bound(smallest)
        notes.append(
            f"NLL is infinite: {everything.nll.infinite_items:,} of {everything.items:,} items "
            "give the right answer probability 0. With each of them at the smallest probability "
            f"above 0 in this run ({smallest:.3g}), NLL would be {bound:.4f} or more."
        )
    if mean_code_mass < _LOW_CODE_MASS:
        notes.append(
            f"Only {100 * mean_code_mass:.1f}% of the next-token probability falls on the answer "
            "codes: the model hardly speaks this contract."
        )
    if everything.pairs.incomplete_families:
        notes.append(
            f"Families that are no complete pair, left out of pair accuracy: "
            f"{everything.pairs.incomplete_families:,}."
        )
    orders = np.array(
        [math.factorial(n) for n in range(int(predictions.n_choices.max()) + 1)], float
    )
    repeated = int((orders[predictions.n_choices] < predictions.k).sum())
    if repeated:
        notes.append(
            f"{repeated:,} items have fewer code orders than views (two answers have two): views "
            "repeat, which lowers their TV beside that of other items."
        )
    return tuple(notes)


def _codes(labels: npt.NDArray[np.str_]) -> npt.NDArray[np.int64]:
    codes = np.unique(labels, return_inverse=True)[1]
    return codes.astype(np.int64)


def _ordered(names: list[str]) -> list[str]:
    known = [name for name in _KIND_ORDER if name in names]
    return known + [name for name in names if name not in known]
