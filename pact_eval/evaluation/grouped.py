"""The numbers of a group of very many items: the same metrics, the grouped bootstrap.

Beyond `GROUPED_ITEMS` items, resampling families one by one takes minutes to hours. Here families
are drawn by kind (`stats.grouped`): exactly for accuracy, pairs, flips, gain and confident errors,
in 256 bins for NLL, Brier, TV and the errors of levels. ECE and AURC are functions of counts at
some 60 levels of confidence, cut at the edges of the calibration bins and at quantiles; what a
resample changes is taken from those levels, and the value itself from all items.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval.evaluation.columns import ItemColumns
from pact_eval.evaluation.specs import CONFIDENT
from pact_eval.evaluation.statistics import metric_bases
from pact_eval.stats import (
    Estimate,
    mean_interval,
    percentile_estimate,
    ratio_interval,
    resampled_label_counts,
)

__all__ = ["GROUPED_ITEMS", "GroupedEstimates", "grouped_estimates"]

GROUPED_ITEMS: Final = 20_000
"""Runs of more items than this have their families resampled by kind."""

_QUANTILES = 48
_SAMPLE = 100_000

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GroupedEstimates:
    """What is estimated of a group of items.

    Attributes:
        estimates: by metric name.
        pairs: how the complete pairs came out.
    """

    estimates: Mapping[str, Estimate]
    pairs: metrics.PairOutcomes


def grouped_estimates(
    items: ItemColumns, *, rng: np.random.Generator, resamples: int
) -> GroupedEstimates:
    """Estimate every metric of the report.

    Args:
        items: the items of the group, one or more.
        rng: source of the resamples; every metric starts from its present state.
        resamples: bootstrap resamples of each interval.

    Returns:
        Estimates of every metric in `METRICS`, and how the pairs came out.
    """
    draw = _Drawing(items.cluster, items.n_clusters, rng, resamples)
    pairs, correct = items.pairs(), items.correct
    wrong = (~correct).astype(np.float64)
    confident = metrics.is_confident(items.confidence, CONFIDENT) & ~correct
    estimates = {
        "accuracy": draw.mean(correct),
        "pair_accuracy": draw.mean(metrics.pair_correct(pairs, correct), pairs.base),
        "nll_nats": draw.mean(items.nll),
        "brier": draw.mean(items.brier),
        "view_tv": draw.mean(items.view_tv),
        "flip_rate": draw.mean(items.flipped),
        "ensemble_gain": draw.mean(items.gain),
        "confident_errors": draw.ratio(confident, wrong),
    }
    estimates |= _of_confidence(items, correct, rng, resamples)
    estimates |= _of_levels(items, rng, resamples)
    bases = metric_bases(
        is_score=items.is_score,
        correct=correct,
        view_tv=items.view_tv,
        gain=items.gain,
        cluster=items.cluster,
        pairs=len(pairs),
    )
    estimates |= {name: basis.judge(estimates[name]) for name, basis in bases.items()}
    outcomes = metrics.pair_outcomes(pairs, items.predicted, items.reference)
    return GroupedEstimates(estimates, outcomes)


@dataclass(frozen=True)
class _Drawing:
    """What all intervals of a group share."""

    cluster: npt.NDArray[np.integer]
    n_clusters: int
    rng: np.random.Generator
    resamples: int

    def mean(
        self, values: npt.NDArray[np.generic], rows: npt.NDArray[np.int64] | None = None
    ) -> Estimate:
        cluster = self.cluster if rows is None else self.cluster[rows]
        if not len(values) or np.isnan(values[0]):
            # Undefined for one view, and then for every item: nothing to resample.
            nothing = np.full(self.resamples, np.nan)
            return percentile_estimate(math.nan, nothing, n=len(values), n_clusters=self.n_clusters)
        return mean_interval(
            values,
            cluster,
            self.n_clusters,
            rng=deepcopy(self.rng),
            resamples=self.resamples,
        )

    def ratio(self, top: npt.NDArray[np.generic], bottom: FloatArray) -> Estimate:
        return ratio_interval(
            top,
            bottom,
            self.cluster,
            self.n_clusters,
            rng=deepcopy(self.rng),
            resamples=self.resamples,
        )


def _of_levels(items: ItemColumns, rng: np.random.Generator, resamples: int) -> dict[str, Estimate]:
    """Estimate the errors of levels; families with Score items alone are resampled."""
    score = items.taken(np.flatnonzero(items.is_score))
    draw = _Drawing(score.cluster, score.n_clusters, rng, resamples)
    distance = np.abs(score.predicted.astype(np.float64) - score.reference)
    return {
        "score_mae": draw.mean(score.expected_level_error),
        "score_level_mae": draw.mean(distance),
    }


def _of_confidence(
    items: ItemColumns,
    correct: npt.NDArray[np.bool_],
    rng: np.random.Generator,
    resamples: int,
) -> dict[str, Estimate]:
    """Estimate ECE and AURC from resampled counts at levels of confidence."""
    confidence = items.confidence
    level = _levels(confidence)
    levels = int(level.max()) + 1
    label = 2 * level + ~correct
    counts = resampled_label_counts(
        label,
        2 * levels,
        items.cluster,
        items.n_clusters,
        rng=deepcopy(rng),
        resamples=resamples,
    )
    observed = np.bincount(label, minlength=2 * levels).astype(np.float64)[None]
    total = np.bincount(label, weights=confidence, minlength=2 * levels)
    mean = np.divide(total, observed[0], out=np.zeros(2 * levels), where=observed[0] > 0)
    exact = {
        "ece": metrics.ece(confidence, correct),
        "aurc": metrics.aurc_from_keys(metrics.confidence_keys(confidence, correct)),
    }
    of_counts = {"ece": lambda w: _ece(w, mean), "aurc": _aurc}
    estimates = {}
    for name, value in exact.items():
        # Levels stand for the differences between resamples: the value is that of all items.
        shift = value - of_counts[name](observed)[0]
        estimates[name] = percentile_estimate(
            value,
            of_counts[name](counts) + shift,
            n=len(items),
            n_clusters=items.n_clusters,
        )
    return estimates


def _levels(confidence: FloatArray) -> npt.NDArray[np.int64]:
    """Return the level of each confidence; a level lies within one calibration bin."""
    sample = confidence[:: max(1, confidence.size // _SAMPLE)]
    values = np.unique(sample)
    if values.size > _QUANTILES:
        values = np.unique(np.quantile(sample, np.linspace(0, 1, _QUANTILES)))
    # Both terms rise with confidence, so that equal sums are equal in both.
    edges = (values[1:] + values[:-1]) / 2
    return np.searchsorted(edges, confidence, side="right") + metrics.bin_index(confidence)


def _ece(counts: FloatArray, mean_confidence: FloatArray) -> FloatArray:
    bins = metrics.bin_index(mean_confidence)
    in_bin = (bins[:, None] == np.arange(metrics.BINS)).astype(np.float64)
    right = in_bin * (np.arange(len(bins)) % 2 == 0)[:, None]
    return metrics.ece_from_bin_sums(
        counts @ in_bin, counts @ (in_bin * mean_confidence[:, None]), counts @ right
    )


def _aurc(counts: FloatArray) -> FloatArray:
    by_level = counts.reshape(len(counts), -1, 2)[:, ::-1]
    return metrics.aurc_from_groups(by_level.sum(axis=2), by_level[:, :, 1])
