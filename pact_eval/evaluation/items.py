"""What is known of every item under one decoding: the numbers that all statistics are made of."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval.evaluation.specs import GroupBy
from pact_eval.runs import Decoding, Predictions, ScoredViews

if TYPE_CHECKING:  # a report without a calibrator need not wait for what fits them
    from pact_eval.calibration import Calibrator

__all__ = ["ScoredItems", "group_rows", "label_codes", "ordered_groups"]

_KIND_ORDER = ("choice", "boolean", "score")


@dataclass(frozen=True)
class ScoredItems:
    """The items of a run under one decoding.

    Attributes:
        predictions: the scored views.
        log_probs: (n, C) canonical log-probabilities under the decoding.
        confidence: (n,) highest probability.
        correct: (n,) whether the reference is predicted.
        nll: (n,) in nats.
        brier: (n,) not halved.
        expected_level_error: (n,) of score items, in levels.
        level_error: (n,) of score items, in levels.
        view_tv: (n,) mean over pairs of views, uncalibrated; NaN for one view.
        flipped: (n,) 1 where the views disagree; NaN for one view.
        gain: (n,) right by K views minus right by view 0; NaN for one view.
    """

    predictions: Predictions
    log_probs: npt.NDArray[np.float64]
    confidence: npt.NDArray[np.float64]
    correct: npt.NDArray[np.bool_]
    nll: npt.NDArray[np.float64]
    brier: npt.NDArray[np.float64]
    expected_level_error: npt.NDArray[np.float64]
    level_error: npt.NDArray[np.float64]
    view_tv: npt.NDArray[np.float64]
    flipped: npt.NDArray[np.float64]
    gain: npt.NDArray[np.float64]

    @classmethod
    def of(
        cls, predictions: Predictions, decoding: Decoding, calibrator: Calibrator | None = None
    ) -> ScoredItems:
        """Decode the views of a run, and score every item.

        Args:
            predictions: the views.
            decoding: single or ensemble.
            calibrator: temperatures to divide by; None leaves the distributions raw. TV, flips and
                the gain are of the raw views either way.

        Raises:
            ValueError: an item's views have no answer of positive probability in common.
            InputError: the calibrator needs prompt lengths that are not known.
        """
        raw = predictions.log_probs(decoding)
        log_probs = raw if calibrator is None else calibrator.decode(predictions, decoding)
        reference = predictions.reference
        return cls(
            predictions=predictions,
            log_probs=log_probs,
            confidence=metrics.confidence(log_probs),
            correct=metrics.correct(log_probs, reference),
            nll=metrics.nll_nats(log_probs, reference),
            brier=metrics.brier(log_probs, reference),
            expected_level_error=metrics.expected_level_error(log_probs, reference),
            level_error=metrics.level_error(log_probs, reference).astype(np.float64),
            view_tv=metrics.pairwise_tv(predictions.log_probs_by_view),
            flipped=metrics.flipped(predictions.log_probs_by_view),
            gain=_gain(predictions),
        )

    def taken(self, rows: npt.NDArray[np.int64]) -> ScoredItems:
        """Return the items of some rows, in their order."""
        return ScoredItems(
            self.predictions.taken(rows),
            *(getattr(self, field.name)[rows] for field in fields(self)[1:]),
        )


def group_rows(predictions: ScoredViews, by: GroupBy) -> dict[str, npt.NDArray[np.int64]]:
    """Return the rows of all items, then of each kind, domain or source family, by name."""
    column = getattr(predictions, by)
    groups = {"all": np.arange(len(predictions))}
    return groups | {
        name: np.flatnonzero(column == name) for name in ordered_groups(np.unique(column).tolist())
    }


def label_codes(labels: npt.NDArray[np.str_]) -> npt.NDArray[np.int64]:
    """Return a code of each label, in 0..F-1."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


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


def ordered_groups(names: list[str]) -> list[str]:
    """Return the names of groups in the order of the report: kinds first, in their own order."""
    known = [name for name in _KIND_ORDER if name in names]
    return known + [name for name in names if name not in known]
