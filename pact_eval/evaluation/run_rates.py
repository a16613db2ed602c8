"""Accuracy and pair accuracy of a run at view 0 and over K views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from pact_eval._choices import Decoding
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.metric_specs import DecodingName, decoding_name
from pact_eval.evaluation.registry import ANSWER_MASS, find_metric
from pact_eval.evaluation.resampled_groups import ResampledGroup, resampled_group
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.proportions import rate_estimate

HEADLINE: Final = ("accuracy", "pair_accuracy")
"""The metrics of brief outputs."""

COMPARED: Final = (*HEADLINE, ANSWER_MASS)
"""The metrics of a conclusion on two runs or arms."""


@dataclass(frozen=True)
class DecodedRates:
    """Accuracy and pair accuracy of a run under one decoding.

    Attributes:
        decoding: single (view 0), ensemble (K views), or those of repeats; see `decoding_name`.
        k: number of views: 1 for view 0.
        repeats: number of repeats per item; 1 if the views are not repeats.
        accuracy: with its interval.
        pair_accuracy: with its interval; undefined without pairs.
        accuracy_of_asked: accuracy if unanswered items count as wrong, as logs count them; None if
            all items are answered.
    """

    decoding: DecodingName
    k: int
    repeats: int
    accuracy: Estimate
    pair_accuracy: Estimate
    accuracy_of_asked: Estimate | None = None

    @classmethod
    def of(
        cls, decoding: Decoding, k: int, estimates: Mapping[str, Estimate], repeats: int = 1
    ) -> DecodedRates:
        """Take the rates from the estimates of all items of a run with k views."""
        rates = [estimates[name] for name in HEADLINE]
        name = decoding_name(decoding, repeats)
        return cls(name, 1 if decoding == "single" else k, repeats, *rates)


def other_decoding(decoding: Decoding) -> Decoding:
    """Return ensemble for single, and single for ensemble."""
    return "ensemble" if decoding == "single" else "single"


def accuracy_of_asked(items: ScoredItems, without: pl.DataFrame) -> Estimate | None:
    """Return the accuracy if unanswered items count as wrong; None if all items are answered.

    An item of repeats that lacks some answers counts with those that it has, as in its log.

    Args:
        items: the answered items, with their units of intervals.
        without: the unanswered items, as `unanswered_items` returns them.
    """
    if without.is_empty():
        return None
    rows = items.repeats if items.repeat is not None else 1
    totals, right = np.full(len(without), rows), np.zeros(len(without), dtype=np.int64)
    if rows > 1 or items.k == 1:
        totals, right = (
            without[name].fill_null(default).to_numpy() if name in without.columns else values
            for name, default, values in (("asked", rows, totals), ("right", 0, right))
        )
    names = np.r_[items.clusters.names, without[items.unit].fill_null("").to_numpy()]
    _, codes = np.unique(names.astype(str), return_inverse=True)
    answered = items.n_clusters
    cluster = np.r_[codes[:answered][items.cluster], codes[answered:]]
    return rate_estimate(
        np.bincount(cluster, np.r_[items.correct, right]),
        np.bincount(cluster, np.r_[np.ones(len(items)), totals]),
    )


def resampled_rates(
    items: ScoredItems, *, rng: np.random.Generator, resamples: int
) -> ResampledGroup:
    """Resample the metrics of `COMPARED` on all items; arguments as for `decoded_rates`."""
    entries = [find_metric(name) for name in COMPARED]
    return resampled_group("all", items, rng=rng, resamples=resamples, entries=entries)


def decoded_rates(items: ScoredItems, *, rng: np.random.Generator, resamples: int) -> DecodedRates:
    """Return accuracy and pair accuracy of a run under one decoding.

    Args:
        items: the items of the run under this decoding.
        rng: source of the resamples.
        resamples: bootstrap resamples of families.
    """
    group = resampled_rates(items, rng=rng, resamples=resamples)
    estimates = {name: group.estimate(name) for name in HEADLINE}
    return DecodedRates.of(items.decoding, items.k, estimates, items.repeats)
