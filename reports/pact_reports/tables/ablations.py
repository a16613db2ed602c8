"""Ablations: the runs of other arms and the method's run at the same seed."""

from __future__ import annotations

from typing import Final

from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.arms.ablations import Ablation, Ablations, ablations
from pact_eval.evaluation.arms.arm_metrics import MetricQuestion
from pact_eval.evaluation.calibration_error import ChanceError
from pact_eval.evaluation.registry import find_metric, metric_spec
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import (
    NOISE,
    arm_cell,
    chance_cell,
    chance_column,
    decoding_words,
    items_and_pairs,
    text_cell,
    unit_of,
)
from pact_reports.tables.request import TableRequest

_TITLES: Final = {"view_tv": "TV", "flip_rate": "Flips"}


def build_ablations(request: TableRequest) -> Table:
    """Make the table of ablations of runs.

    Raises:
        InputError: the runs do not compare, or as `ablations`.
    """
    result = ablations(request.metrics, request.main_arm, request.decoding, request.clear)
    return ablations_table(result, request.names)


def ablations_table(result: Ablations, names: ArmNames = KEYS) -> Table:
    """Lay out the runs of each seed below that of the method, changes marked.

    Args:
        result: what to show.
        names: display names of arms.
    """
    method = names.arm(result.method)
    columns = [Column("Seed"), Column("Arm", "left")]
    for metric, decoding in result.questions:
        spec = metric_spec(metric)
        unit = unit_of(spec, decoding)
        title = _TITLES.get(metric, spec.title)
        numbers = (f"{title} ({unit})", f"{title} minus the method's ({unit})")
        column = Column(title, numbers=numbers, better=spec.better)
        with_chance = _with_chance(result, metric)
        columns.append(chance_column(column, unit) if with_chance else column)
    rows = []
    for seed, block in result.blocks.items():
        for number, ablation in enumerate(block):
            cells = [
                text_cell(str(seed)),
                arm_cell(ablation.arm, names),
                *_cells(result, ablation, is_method=number == 0),
            ]
            rows.append(Row(tuple(cells), rule=number == 0))
    return Table(
        name="ablations",
        title=f"Runs next to {method} at the same seed",
        caption=(
            f"{_decodings(result.questions)} Changes are from {method} at the same seed, "
            f"the first row of each block. One run each: {items_and_pairs(result.sizes)}."
            f"{_marks(result)}"
        ),
        columns=tuple(columns),
        rows=tuple(rows),
        notes=() if result.published else (NOISE,),
    )


def _with_chance(result: Ablations, metric: str) -> bool:
    return not result.published and find_metric(metric).noise_floor


def _cells(result: Ablations, ablation: Ablation, *, is_method: bool) -> list[Cell]:
    cells = [
        Cell(
            metric_spec(row.cell.metric).shown(row.value),
            (row.value, None if is_method else change),
            None if is_method else mark,
            row.reason,
        )
        for row, change, mark in zip(ablation.rows, ablation.changes, ablation.marks, strict=True)
    ]
    return [
        chance_cell(cell, ChanceError.of([row.calibration]))
        if _with_chance(result, row.cell.metric)
        else cell
        for row, cell in zip(ablation.rows, cells, strict=True)
    ]


def _decodings(questions: tuple[MetricQuestion, ...]) -> str:
    """Name the decoding of every column; flips rest on the argmax, which no temperature changes."""
    single = {decoding for metric, decoding in questions if not find_metric(metric).of_views}
    parts = [f"Decoding: {', '.join(decoding_words(name) for name in sorted(single))}"]
    parts += [f"TV: {decoding_words(name)}" for metric, name in questions if metric == "view_tv"]
    parts += ["flips: K views" for metric, _ in questions if metric == "flip_rate"]
    return f"{'; '.join(parts)}."


def _marks(result: Ablations) -> str:
    """Explain the marks; empty without thresholds."""
    if not result.clear:
        return ""
    titles_by_margin: dict[str, list[str]] = {}
    for metric, margin in result.clear.items():
        title = _TITLES.get(metric, metric_spec(metric).title)
        titles_by_margin.setdefault(str(margin), []).append(title)
    clear = "; ".join(f"{', '.join(titles)} {words}" for words, titles in titles_by_margin.items())
    return (
        f" Clear changes: {clear}; nothing is marked below a quarter of that. Marks are directions "
        "and do not show significance."
    )
