"""Sweep: the numbers of a run against the number of views, from one run with K views."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pact_eval.calibration import Calibrator
from pact_eval.errors import InputError
from pact_eval.evaluation.report import Group, evaluate
from pact_eval.progress import tracked
from pact_eval.runs import Predictions

__all__ = ["SweepPoint", "sweep"]


@dataclass(frozen=True)
class SweepPoint:
    """All numbers of a run as if it had been scored with fewer views.

    Attributes:
        k: number of views; the first k views of every item are used.
        group: all items under the ensemble of these views.
    """

    k: int
    group: Group


def sweep(
    predictions: Predictions,
    ks: range,
    *,
    rng: np.random.Generator,
    resamples: int | None = None,
    calibrator: Calibrator | None = None,
) -> tuple[SweepPoint, ...]:
    """Evaluate a run at every number of views.

    Views are used in their order, so K = 1 is the canonical view alone. Every point uses the same
    resamples.

    Args:
        predictions: the scored views of one run.
        ks: numbers of views, from 1 to K.
        rng: source of the resamples.
        resamples: bootstrap resamples of each interval; None uses `default_resamples`.
        calibrator: temperatures to divide by; None leaves the distributions raw.

    Returns:
        One point for each number in `ks`.

    Raises:
        InputError: the run has fewer views than requested.
    """
    if not ks or ks.start < 1 or ks[-1] > predictions.k:
        message = f"expected numbers of views from 1 to {predictions.k}, got {_shown(ks)}"
        raise InputError(message)
    return tuple(
        SweepPoint(
            k,
            evaluate(
                predictions.first_views(k),
                decoding="ensemble",
                by="kind",
                rng=rng,
                resamples=resamples,
                calibrator=calibrator,
            ).groups[0],
        )
        for k in tracked(ks, "Evaluating views", "views")
    )


def _shown(ks: range) -> str:
    return f"{ks.start} to {ks[-1]}" if ks else "none"
