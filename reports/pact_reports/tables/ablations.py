"""Ablations: the runs of other arms beside that of the method at the same seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pact_eval.errors import InputError
from pact_eval.evaluation import metric_spec
from pact_eval.preregistration import Cell as Place
from pact_eval.preregistration import (
    MetricQuestion,
    MetricRow,
    MetricTable,
    arms_in_order,
    decoding_name,
    known_decodings,
    metric_row,
    metric_sizes,
)
from pact_eval.runs import Decoding
from pact_reports.table import Cell, Column, Mark, Row, Table
from pact_reports.tables.cells import shown, text_cell, unit_of
from pact_reports.tables.metric_values import DECODING_WORDS, items_and_pairs
from pact_reports.tables.request import TableRequest

__all__ = [
    "CLEAR",
    "Ablation",
    "Ablations",
    "ablations",
    "ablations_table",
    "build_ablations",
    "change_mark",
]

CLEAR: Final[Mapping[str, float]] = {
    "accuracy": 0.02,
    "pair_accuracy": 0.02,
    "nll_nats": 0.05,
    "ece": 0.02,
    "aurc": 0.01,
    "score_mae": 0.05,
    "view_tv": 0.015,
    "flip_rate": 0.02,
}
"""Changes that are called clear, rates as fractions; below a quarter of them nothing is marked.
Those of the paper where it says them (2 points of accuracy), for the others such as its tables
show; they are conventions for reading and no tests."""

_SMALL_SHARE: Final = 0.25
_OF_VIEWS: Final = ("view_tv", "flip_rate")
_TITLES: Final = {"view_tv": "TV", "flip_rate": "Flips"}
# Differences of equal numbers that were summed in another order.
_ROUNDING: Final = 1e-12


@dataclass(frozen=True)
class Ablation:
    """One run and how it differs from that of the method at the same seed.

    Attributes:
        arm: of the run.
        seed: of both.
        rows: the number of each question.
        changes: this run's minus the method's; NaN where one of them is undefined.
        marks: what the changes mean for the reader, or None where they are small.
    """

    arm: str
    seed: int
    rows: tuple[MetricRow, ...]
    changes: tuple[float, ...]
    marks: tuple[Mark | None, ...]


@dataclass(frozen=True)
class Ablations:
    """The runs beside the method, seed by seed.

    Attributes:
        method: the arm that the others are compared with.
        questions: metric and decoding of each column.
        blocks: by seed, the method's run first.
        scope: items and pairs behind each run, in words.
    """

    method: str
    questions: tuple[MetricQuestion, ...]
    blocks: Mapping[int, tuple[Ablation, ...]]
    scope: str


def ablations(table: MetricTable, method: str, decoding: Decoding = "single") -> Ablations:
    """Compare every other run with that of the method at the same seed.

    Args:
        table: the numbers.
        method: an arm of it, with seeds.
        decoding: single or ensemble, for all but TV and flips, which are of the K views.

    Raises:
        InputError: the method has no seed, or no other arm shares one with it.
    """
    questions = _questions(table, method, decoding)
    others = [arm for arm in arms_in_order(table) if arm != method]
    blocks = {}
    for seed in table.seeds(method):
        sharing = [arm for arm in others if seed in table.seeds(arm)]
        if sharing:
            base = _rows(table, method, seed, questions)
            blocks[seed] = tuple(
                _ablation(arm, seed, _rows(table, arm, seed, questions), base)
                for arm in (method, *sharing)
            )
    if not blocks:
        message = f"no other arm shares a seed with {method}"
        raise InputError(message)
    return Ablations(method, questions, blocks, items_and_pairs(metric_sizes(table)))


def change_mark(metric: str, change: float) -> Mark | None:
    """Say what a change of a metric means: better or worse, clearly or slightly.

    Example:
        >>> change_mark("accuracy", -0.031), change_mark("nll_nats", -0.168)
        ('clearly worse', 'clearly better')
        >>> change_mark("flip_rate", 0.0154), change_mark("accuracy", 0.003)
        ('worse', None)
    """
    size, better = abs(change), metric_spec(metric).better * change > 0
    clear = CLEAR[metric]
    if math.isnan(change) or size < _SMALL_SHARE * clear - _ROUNDING:
        return None
    if size < clear - _ROUNDING:
        return "better" if better else "worse"
    return "clearly better" if better else "clearly worse"


def build_ablations(request: TableRequest) -> Table:
    """Make the table of ablations of runs.

    Raises:
        InputError: the runs do not compare, or as `ablations`.
    """
    return ablations_table(ablations(request.metrics, request.main_arm, request.decoding))


def ablations_table(result: Ablations) -> Table:
    """Lay out the runs of each seed below that of the method, changes marked."""
    columns = [Column("Seed"), Column("Arm", "left")]
    for metric, decoding in result.questions:
        spec = metric_spec(metric)
        unit = unit_of(spec, decoding)
        title = _TITLES.get(metric, spec.title)
        names = (f"{title} ({unit})", f"{title} minus the method's ({unit})")
        columns.append(Column(title, numbers=names, better=spec.better))
    rows = []
    for seed, block in result.blocks.items():
        for number, ablation in enumerate(block):
            cells = [text_cell(str(seed)), text_cell(ablation.arm), *_cells(ablation, number == 0)]
            rows.append(Row(tuple(cells), rule=number == 0))
    return Table(
        name="ablations",
        title=f"Runs beside {result.method} at the same seed",
        caption=(
            f"{_decodings(result.questions)} Marks: change from {result.method} at the same seed, "
            "the first row of each block. One run each: marks are directions, no significance. "
            f"Each run: {result.scope}. Clear changes: {_thresholds(result.questions)}; nothing "
            "is marked below a quarter of that."
        ),
        columns=tuple(columns),
        rows=tuple(rows),
    )


def _questions(table: MetricTable, method: str, decoding: Decoding) -> tuple[MetricQuestion, ...]:
    own = MetricTable([row for row in table.rows if row.cell.arm == method])
    found: list[MetricQuestion] = []
    for metric in CLEAR:
        raw = decoding_name("ensemble" if metric in _OF_VIEWS else decoding, "raw")
        wanted = [raw, decoding_name("ensemble", "calibrated")] if metric in _OF_VIEWS else [raw]
        found += [(metric, name) for name in known_decodings(own, metric, wanted)[:1]]
    return tuple(found)


def _rows(
    table: MetricTable, arm: str, seed: int, questions: tuple[MetricQuestion, ...]
) -> tuple[MetricRow, ...]:
    return tuple(
        metric_row(table, Place(metric, arm, decoding, "all"), seed)
        for metric, decoding in questions
    )


def _ablation(
    arm: str, seed: int, rows: tuple[MetricRow, ...], base: tuple[MetricRow, ...]
) -> Ablation:
    pairs = list(zip(rows, base, strict=True))
    changes = tuple(row.value - reference.value for row, reference in pairs)
    marks = tuple(
        change_mark(row.cell.metric, change) for row, change in zip(rows, changes, strict=True)
    )
    return Ablation(arm, seed, rows, changes, marks)


def _cells(ablation: Ablation, is_method: bool) -> list[Cell]:
    return [
        Cell(
            shown(row.value, metric_spec(row.cell.metric)),
            (row.value, None if is_method else change),
            None if is_method else mark,
            row.reason,
        )
        for row, change, mark in zip(ablation.rows, ablation.changes, ablation.marks, strict=True)
    ]


def _decodings(questions: tuple[MetricQuestion, ...]) -> str:
    """Name the decoding of every column; flips rest on the argmax, which no temperature changes."""
    single = {decoding for metric, decoding in questions if metric not in _OF_VIEWS}
    said = [f"Decoding: {', '.join(DECODING_WORDS[name] for name in sorted(single))}"]
    said += [f"TV: {DECODING_WORDS[name]}" for metric, name in questions if metric == "view_tv"]
    said += ["flips: K views" for metric, _ in questions if metric == "flip_rate"]
    return f"{'; '.join(said)}."


def _thresholds(questions: tuple[MetricQuestion, ...]) -> str:
    said: dict[str, list[str]] = {}
    for metric, _ in questions:
        spec = metric_spec(metric)
        amount = CLEAR[metric]
        points = f"{100 * amount:g} point{'' if amount == 0.01 else 's'}"
        words = points if spec.unit == "percent" else f"{amount:g} {spec.unit}"
        said.setdefault(words, []).append(_TITLES.get(metric, spec.title))
    return "; ".join(f"{', '.join(titles)} {words}" for words, titles in said.items())
