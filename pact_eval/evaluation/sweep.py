"""Sweep: the numbers of a run against the number of views, from one run with K views.

`pact-eval report --views` and the figure `views` both take their values from `swept_group`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pact_eval._choices import ClusterUnit
from pact_eval.calibration.temperatures import Calibrator
from pact_eval.errors import InputError
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import find_metric
from pact_eval.evaluation.report import Group, default_resamples, group_numbers
from pact_eval.evaluation.resampled_groups import ResampledGroup, resampled_group
from pact_eval.progress import step, tracked
from pact_eval.runs.predictions import Predictions


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
    unit: ClusterUnit = "family",
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
        unit: units of intervals: families, or source families.

    Returns:
        One point for each number in `ks`.

    Raises:
        InputError: the run has fewer views than requested.
        ValueError: the views of an item have no answer in common.
    """
    if not ks or ks.start < 1 or ks[-1] > predictions.k:
        message = f"expected numbers of views from 1 to {predictions.k}, got {_shown(ks)}"
        raise InputError(message)
    points = []
    for k in tracked(ks, "Evaluating views", "views"):
        group = swept_group(
            predictions, k, rng=rng, resamples=resamples, calibrator=calibrator, unit=unit
        )
        with step("Computing intervals", len(group.items), "items"):
            points.append(SweepPoint(k, group_numbers(group)))
    return tuple(points)


def swept_group(
    predictions: Predictions,
    k: int,
    *,
    rng: np.random.Generator,
    resamples: int | None = None,
    calibrator: Calibrator | None = None,
    unit: ClusterUnit = "family",
    metrics: Sequence[str] | None = None,
) -> ResampledGroup:
    """Resample all items of a run under the ensemble of its first k views.

    Metrics of several views leave out items that these k views show in one order.

    Args:
        predictions: the scored views of one run.
        k: number of views, from 1 to K.
        rng: source of the resamples; its state does not change.
        resamples: bootstrap resamples of each interval; None uses `default_resamples`.
        calibrator: temperatures to divide by; None leaves the distributions raw.
        unit: units of intervals: families, or source families.
        metrics: names of the metrics; None uses every metric of the report.

    Raises:
        ValueError: the views of an item have no answer in common.
    """
    items = ScoredItems.of(predictions.first_views(k), "ensemble", calibrator).over(unit)
    return resampled_group(
        "all",
        items,
        rng=rng,
        resamples=resamples or default_resamples(len(items)),
        entries=None if metrics is None else [find_metric(name) for name in metrics],
    )


def _shown(ks: range) -> str:
    """Return numbers of views, for messages.

    Examples:
        >>> _shown(range(1, 10)), _shown(range(9, 10)), _shown(range(3, 2))
        ('1 to 9', '9', '3 to 1')
    """
    return f"{ks.start} to {ks.stop - 1}" if len(ks) != 1 else f"{ks.start}"
