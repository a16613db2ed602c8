"""Rows of a metric table from run folders: from evaluations, and from numbers by item.

Runs on ablated contexts give rows of metrics of their own, which stand beside those of the run of
the same arm and seed on whole contexts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval.evaluation import AblatedEvaluation, Calibration, Evaluation
from pact_eval.preregistration.criteria import Cell
from pact_eval.preregistration.table import MetricRow
from pact_eval.preregistration.vocabulary import (
    ABLATED_CONFIDENCE,
    ABLATED_GAP,
    METRIC_SPECS,
    TEMPERATURE_FREE,
    VIEW_METRICS,
    DecodingName,
)
from pact_eval.runs import Decoding
from pact_eval.stats import Estimate

__all__ = [
    "ABLATED_ROWS",
    "decoding_name",
    "rows_from_ablated",
    "rows_from_evaluation",
    "rows_from_items",
]

ABLATED_ROWS: Final = (ABLATED_CONFIDENCE, ABLATED_GAP)
"""Metrics of ablated contexts, told apart from those of whole contexts by their names."""

_NAMES: Final[dict[tuple[Decoding, Calibration], DecodingName]] = {
    ("single", "raw"): "single",
    ("single", "calibrated"): "single_calibrated",
    ("ensemble", "raw"): "ensemble",
    ("ensemble", "calibrated"): "ensemble_calibrated",
}


def decoding_name(decoding: Decoding, calibration: Calibration) -> DecodingName:
    """Return the one word by which hypotheses know a decoding.

    Example:
        >>> decoding_name("single", "raw"), decoding_name("ensemble", "calibrated")
        ('single', 'ensemble_calibrated')
    """
    return _NAMES[decoding, calibration]


def rows_from_evaluation(
    arm: str, seed: int | None, evaluation: Evaluation
) -> tuple[MetricRow, ...]:
    """Return the numbers of an evaluation as rows of a metric table.

    TV, flips and ensemble gain are of the K views, whichever decoding was evaluated: they are under
    `ensemble`. An evaluation leaves its TV uncalibrated; flips and gain, which no temperature
    changes, stand under `ensemble_calibrated` as well where the evaluation is calibrated.

    Args:
        arm: the arm of the run.
        seed: the seed it was trained with; None for a base model.
        evaluation: of one decoding.

    Returns:
        One row a metric and group, with its interval.
    """
    name = decoding_name(evaluation.decoding, evaluation.calibration)
    return tuple(
        _row(Cell(metric, arm, decoding, group.name), seed, estimate)
        for group in evaluation.groups
        for metric, estimate in group.estimates.items()
        if metric in METRIC_SPECS
        for decoding in _decodings(metric, name)
    )


def rows_from_ablated(
    arm: str, seed: int | None, evaluation: AblatedEvaluation
) -> tuple[MetricRow, ...]:
    """Return the confidence and the gap on ablated contexts as rows of a metric table.

    Args:
        arm: the arm of the run.
        seed: the seed it was trained with; None for a base model.
        evaluation: of one decoding.

    Returns:
        One row for each of `ABLATED_ROWS` and group, with its interval.
    """
    name = decoding_name(evaluation.decoding, evaluation.calibration)
    return tuple(
        _row(Cell(metric, arm, name, group.name), seed, group.estimates[metric])
        for group in evaluation.groups
        for metric in ABLATED_ROWS
    )


def _row(cell: Cell, seed: int | None, estimate: Estimate) -> MetricRow:
    return MetricRow(
        cell=cell,
        seed=seed,
        value=estimate.value,
        n=estimate.n,
        low=estimate.low,
        high=estimate.high,
        reason=estimate.reason,
    )


def _decodings(metric: str, name: DecodingName) -> Iterator[DecodingName]:
    if metric not in VIEW_METRICS:
        yield name
        return
    yield "ensemble"
    if metric in TEMPERATURE_FREE and name.endswith("_calibrated"):
        yield "ensemble_calibrated"


def rows_from_items(
    cell: Cell, seed: int | None, values: npt.ArrayLike, kind: npt.ArrayLike
) -> tuple[MetricRow, ...]:
    """Return the mean of a number by item, over all items and over each kind.

    For metrics that an evaluation lacks: `mean_confidence` (from `metrics.confidence`), and the TV
    of calibrated views.

    Args:
        cell: metric, arm and decoding; its group is not read.
        seed: as for `rows_from_evaluation`.
        values: (n,) the number of each item.
        kind: (n,) the field kind of each item.

    Returns:
        One row a group; NaN with a reason where an item has no number.

    Raises:
        ValueError: the two do not have one shape (n,).

    Example:
        >>> cell = Cell("mean_confidence", "pact", "single", "all")
        >>> rows = rows_from_items(cell, 17, [0.9, 0.7, 0.5], ["choice", "score", "score"])
        >>> [(row.cell.group, round(row.value, 2), row.n) for row in rows]
        [('all', 0.7, 3), ('choice', 0.9, 1), ('score', 0.6, 2)]
    """
    numbers = np.asarray(values, dtype=np.float64)
    kinds = np.asarray(kind, dtype=np.str_)
    if numbers.ndim != 1 or numbers.shape != kinds.shape:
        message = f"values and kind: expected one shape (n,), got {numbers.shape}, {kinds.shape}"
        raise ValueError(message)
    groups = {"all": numbers} | {name: numbers[kinds == name] for name in np.unique(kinds).tolist()}
    return tuple(
        _mean_row(Cell(cell.metric, cell.arm, cell.decoding, name), seed, members)
        for name, members in groups.items()
    )


def _mean_row(cell: Cell, seed: int | None, members: npt.NDArray[np.float64]) -> MetricRow:
    n, undefined = members.size, int(np.isnan(members).sum())
    if n == 0:
        return MetricRow(cell, seed, math.nan, 0, reason="no items")
    if undefined:
        reason = f"undefined for {undefined:,} of {n:,} items"
        return MetricRow(cell, seed, math.nan, n, reason=reason)
    return MetricRow(cell, seed, float(members.mean()), n)
