"""Ablated contexts: how sure a model is where nothing tells the two answers of a pair apart.

No answer is right there, so that nothing here knows a reference. A model that read the evidence is
unsure without it; one that is not leans on something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval.evaluation.items import group_rows, label_codes
from pact_eval.evaluation.report import Calibration, default_resamples
from pact_eval.evaluation.specs import ABLATED_CONFIDENCE, ABLATED_GAP, GroupBy
from pact_eval.evaluation.statistics import Basis, StatisticSet
from pact_eval.runs import AblatedPredictions, Decoding
from pact_eval.stats import Estimate, bootstrap_intervals, mean_statistic

if TYPE_CHECKING:  # a report without a calibrator need not wait for what fits them
    from pact_eval.calibration import Calibrator

__all__ = [
    "AblatedEvaluation",
    "AblatedGroup",
    "AblatedItems",
    "ablated_statistics",
    "evaluate_ablated",
]


@dataclass(frozen=True)
class AblatedItems:
    """The ablated contexts of a run under one decoding.

    Attributes:
        predictions: the scored views.
        log_probs: (n, C) canonical log-probabilities under the decoding.
        confidence: (n,) highest probability.
        gap: (n,) |z_a - z_b| of the two answers that nothing tells apart, in nats.
        view_tv: (n,) mean over pairs of views, uncalibrated; NaN for one view.
        flipped: (n,) 1 where the views disagree; NaN for one view.
        answer_mass: (n,) mean over views of the next-token share on the codes; NaN where unknown.
    """

    predictions: AblatedPredictions
    log_probs: npt.NDArray[np.float64]
    confidence: npt.NDArray[np.float64]
    gap: npt.NDArray[np.float64]
    view_tv: npt.NDArray[np.float64]
    flipped: npt.NDArray[np.float64]
    answer_mass: npt.NDArray[np.float64]

    @classmethod
    def of(
        cls,
        predictions: AblatedPredictions,
        decoding: Decoding,
        calibrator: Calibrator | None = None,
    ) -> AblatedItems:
        """Decode the views of a run, and measure every item.

        Args:
            predictions: the views.
            decoding: single or ensemble.
            calibrator: temperatures to divide by; None leaves the distributions raw. TV and flips
                are of the raw views either way.

        Raises:
            ValueError: an item's views have no answer of positive probability in common.
            InputError: the calibrator needs prompt lengths that are not known.
        """
        raw = predictions.log_probs(decoding)
        log_probs = raw if calibrator is None else calibrator.decode(predictions, decoding)
        return cls(
            predictions=predictions,
            log_probs=log_probs,
            confidence=metrics.confidence(log_probs),
            gap=metrics.answer_gap_nats(log_probs, predictions.answers),
            view_tv=metrics.pairwise_tv(predictions.log_probs_by_view),
            flipped=metrics.flipped(predictions.log_probs_by_view),
            answer_mass=predictions.answer_mass.mean(axis=1),
        )

    def taken(self, rows: npt.NDArray[np.int64]) -> AblatedItems:
        """Return the items of some rows, in their order."""
        return AblatedItems(
            self.predictions.taken(rows),
            *(getattr(self, field.name)[rows] for field in fields(self)[1:]),
        )


@dataclass(frozen=True)
class AblatedGroup:
    """All numbers of one group of ablated contexts.

    Attributes:
        name: "all", or the kind, domain or source family.
        items: number of ablated contexts.
        families: number of families, the clusters of the intervals.
        estimates: by name of `ABLATED_METRICS`.
    """

    name: str
    items: int
    families: int
    estimates: Mapping[str, Estimate]


@dataclass(frozen=True)
class AblatedEvaluation:
    """Every number of the report on a run on ablated contexts, under one decoding.

    Attributes:
        decoding: single (view 0) or ensemble (K views); confidence and gap rest on it.
        calibration: raw or calibrated; likewise.
        k: views of the run.
        by: what the groups after the first are.
        groups: all items first, then the groups.
    """

    decoding: Decoding
    calibration: Calibration
    k: int
    by: GroupBy
    groups: tuple[AblatedGroup, ...]


def ablated_statistics(items: AblatedItems) -> StatisticSet:
    """Build the statistics of a group of ablated contexts: means over items.

    Args:
        items: the items of the group, one or more.

    Returns:
        The statistics of every metric in `ABLATED_METRICS`.
    """
    cluster = label_codes(items.predictions.family)
    families = np.unique(items.predictions.family)
    values = {
        ABLATED_CONFIDENCE: items.confidence,
        ABLATED_GAP: items.gap,
        "view_tv": items.view_tv,
        "flip_rate": items.flipped,
        "answer_mass": items.answer_mass,
    }
    return StatisticSet(
        {name: mean_statistic(each, cluster, len(families)) for name, each in values.items()},
        families,
        len(items.predictions),
    )


def evaluate_ablated(
    predictions: AblatedPredictions,
    *,
    decoding: Decoding,
    by: GroupBy,
    rng: np.random.Generator,
    resamples: int | None = None,
    calibrator: Calibrator | None = None,
) -> AblatedEvaluation:
    """Compute the report on ablated contexts; arguments and errors as for `evaluate`.

    Args:
        predictions: the scored views of one run.
        decoding: single or ensemble.
        by: kind, domain or source_family.
        rng: source of the resamples; every group draws the same ones.
        resamples: bootstrap resamples of each interval; None takes `default_resamples`.
        calibrator: temperatures to divide by; None leaves the distributions raw.

    Returns:
        Estimates with intervals over families, for all items and for each group.

    Raises:
        ValueError: an item's views have no answer of positive probability in common.
        InputError: the calibrator needs prompt lengths that are not known.
    """
    resamples = resamples or default_resamples(len(predictions))
    items = AblatedItems.of(predictions, decoding, calibrator)
    return AblatedEvaluation(
        decoding=decoding,
        calibration="raw" if calibrator is None else "calibrated",
        k=predictions.k,
        by=by,
        groups=tuple(
            _group(name, items.taken(rows), rng, resamples)
            for name, rows in group_rows(predictions, by).items()
        ),
    )


def _group(
    name: str, items: AblatedItems, rng: np.random.Generator, resamples: int
) -> AblatedGroup:
    drawn = ablated_statistics(items)
    estimates = bootstrap_intervals(
        drawn.statistics,
        n_clusters=drawn.n_clusters,
        n=drawn.n,
        rng=deepcopy(rng),
        resamples=resamples,
    )
    if items.predictions.k == 1:
        one_view = Basis(0, 0, "one view only: K is 1")
        estimates |= {name: one_view.judge(estimates[name]) for name in ("view_tv", "flip_rate")}
    return AblatedGroup(name, drawn.n, drawn.n_clusters, estimates)
