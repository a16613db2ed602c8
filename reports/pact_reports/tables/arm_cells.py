"""Cells of arms: means over seeds, marks of the best arm, and what the numbers rest on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pact_eval.evaluation.arms.differences import Standing
from pact_eval.evaluation.arms.summary import ArmSummary
from pact_eval.evaluation.decoding import MetricDecoding
from pact_eval.evaluation.metric_specs import MetricSpec
from pact_eval.evaluation.registry import find_metric
from pact_reports.table import Cell, Column, Mark
from pact_reports.tables.cells import chance_column, shown, unit_of

STANDING_LEGEND: Final[tuple[tuple[Mark, str], ...]] = (
    ("best", "best arm: its difference from every other arm is shown at the 5% level"),
    ("tied", "best mean, or not shown to be worse than it"),
)
"""What the marks of arms mean, wherever their differences are tested."""


def mean_column(
    spec: MetricSpec, decoding: MetricDecoding, title: str | None = None, *, chance: bool = False
) -> Column:
    """Return a column of means and deviations over seeds; with `chance`, as `chance_cell`."""
    title = title or spec.title
    unit = unit_of(spec, decoding)
    names = (f"{title} mean ({unit})", f"{title} deviation ({unit})", f"{title} runs")
    column = Column(title, numbers=names, better=spec.better)
    return chance_column(column, unit) if chance else column


def mean_cell(summary: ArmSummary, spec: MetricSpec) -> Cell:
    """Return mean ± sample deviation over seeds; one run has no deviation.

    Example:
        >>> from pact_eval.evaluation.registry import metric_spec
        >>> from pact_eval.stats.estimate import Estimate
        >>> runs = {seed: Estimate(value, math.nan, math.nan, 324, 162)
        ...         for seed, value in {17: 0.840, 18: 0.821, 19: 0.877}.items()}
        >>> mean_cell(ArmSummary.of("pact", runs), metric_spec("accuracy")).text
        '84.6 ± 2.8'
        >>> mean_cell(ArmSummary.of("pact", {17: runs[17]}), metric_spec("accuracy")).text
        '84.0'
    """
    text = shown(summary.mean, spec)
    if math.isfinite(summary.deviation):
        text += f" ± {shown(summary.deviation, spec).lstrip('+')}"
    why = None if math.isfinite(summary.mean) else summary.reason
    return Cell(text, (summary.mean, summary.deviation, len(summary.runs)), reason=why)


def standing_cells(cells: Sequence[Cell], standings: Sequence[Standing | None]) -> list[Cell]:
    """Mark the arms of a column that are best or tied with the best; the others are not marked."""
    return [replace(cell, mark=mark) for cell, mark in zip(cells, standings, strict=True)]


def items_and_pairs(sizes: Mapping[str, tuple[int, int]]) -> str:
    """Say what the numbers rest on.

    Args:
        sizes: by metric, the lowest and the highest number, of `metric_sizes`.

    Example:
        >>> items_and_pairs({"accuracy": (324, 324), "pair_accuracy": (160, 162)})
        '324 items, 160 to 162 pairs'
    """
    said = []
    words = {"accuracy": "items", "pair_accuracy": "pairs", "score_mae": "Score items"}
    for metric, word in words.items():
        low, high = sizes.get(metric, (0, 0))
        if high:
            said.append(f"{low:,} {word}" if low == high else f"{low:,} to {high:,} {word}")
    return ", ".join(said) or "unknown numbers of items"


def counted(n: int, metric: str) -> str:
    """Say what a metric rests on: a number of items, pairs, Score items or errors.

    Example:
        >>> counted(324, "accuracy"), counted(162, "pair_accuracy"), counted(64, "score_mae")
        ('324 items', '162 pairs', '64 Score items')
    """
    words = {"pair_accuracy": "pairs", "confident_errors": "errors"}
    score = "score items" in find_metric(metric).needs
    return f"{n:,} {words.get(metric, 'Score items' if score else 'items')}"
