"""Cells of arms: means over seeds, marks of the best arm, and the basis of the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pact_eval.evaluation.arms.arm_summary import ArmSummary
from pact_eval.evaluation.arms.differences import Standing
from pact_eval.evaluation.calibration_error import ChanceError
from pact_eval.evaluation.decoding import MetricDecoding
from pact_eval.evaluation.metric_specs import MetricSpec
from pact_eval.evaluation.registry import find_metric, metric_spec
from pact_reports.table import Cell, Column, Mark
from pact_reports.tables.cells import chance_text, unit_of

STANDING_LEGEND: Final[tuple[tuple[Mark, str], ...]] = (
    ("best", "best arm: its difference from every other arm is shown at the 5% level"),
    ("tied", "best mean, or not shown to be worse than it"),
)
"""What the marks of arms mean, wherever their differences are tested."""


def mean_column(spec: MetricSpec, decoding: MetricDecoding, title: str | None = None) -> Column:
    """Return a column of means and deviations over seeds."""
    title = title or spec.title
    unit = unit_of(spec, decoding)
    names = (f"{title} mean ({unit})", f"{title} deviation ({unit})", f"{title} runs")
    return Column(title, numbers=names, better=spec.better)


def noise_column(title: str, decoding: MetricDecoding) -> Column:
    """Return the column that follows a column of ECE: its noise floor, and p of calibration."""
    unit = unit_of(metric_spec("ece"), decoding)
    names = (
        f"{title} noise floor ({unit})",
        f"{title} lowest p if calibrated",
        f"{title} highest p if calibrated",
    )
    return Column(f"{title} noise", numbers=names)


def noise_cell(chance: ChanceError | None) -> Cell:
    """Return the ECE of calibrated runs by chance, and below it p of calibration.

    Example:
        >>> noise_cell(ChanceError(0.062, 0.291, 0.291)).text
        '6.2 (p=0.291)'
    """
    if chance is None:
        return Cell("", (None, None, None))
    numbers = (chance.floor, chance.lowest_p, chance.highest_p)
    floor, p_values = chance_text(chance).removeprefix("noise ").split(", ")
    return Cell(f"{floor} ({p_values})", numbers)


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
    text = spec.shown(summary.mean)
    if math.isfinite(summary.deviation):
        text += f" ± {spec.shown(summary.deviation).lstrip('+')}"
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
    counts = []
    words = {"accuracy": "items", "pair_accuracy": "pairs", "score_mae": "Score items"}
    for metric, word in words.items():
        low, high = sizes.get(metric, (0, 0))
        if high:
            counts.append(f"{low:,} {word}" if low == high else f"{low:,} to {high:,} {word}")
    return ", ".join(counts) or "unknown numbers of items"


def counted(n: int, metric: str) -> str:
    """Write the sample size of a metric: items, pairs, Score items or errors.

    Example:
        >>> counted(324, "accuracy"), counted(162, "pair_accuracy"), counted(64, "score_mae")
        ('324 items', '162 pairs', '64 Score items')
    """
    entry = find_metric(metric)
    return f"{n:,} {'Score item' if 'score items' in entry.needs else entry.counts}s"
