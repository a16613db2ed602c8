"""Miscalibration, discrimination and uncertainty of the Brier and log score of correctness."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from pact_eval.errors import InputError
from pact_eval.evaluation.arms.table_results import run_answer_scores
from pact_eval.evaluation.registry import SINGLE, MetricDecoding, MetricSpec
from pact_eval.evaluation.report import Calibration, ChanceMiscalibration, Group
from pact_eval.metrics.recalibration import AnswerScores, ScoreDecomposition
from pact_reports.request import Request
from pact_reports.table import Cell, Column, Table, table_row
from pact_reports.tables.cells import (
    RUN_COLUMNS,
    decoding_words,
    items_and_pairs,
    run_rows,
    unit_of,
    value_cell,
)

_SCORES: Final = (
    MetricSpec("answer_brier", "Brier", "score", -1),
    MetricSpec("answer_log_score", "Log score", "nats", -1),
)
_PARTS: Final[tuple[tuple[str, tuple[str, ...], Literal[-1, 0, 1]], ...]] = (
    ("", ("mean",), -1),
    (
        "Miscal.",
        ("miscalibration", "miscalibration by chance", "95% of miscalibration by chance"),
        -1,
    ),
    ("Discrim.", ("discrimination",), 1),
    ("Uncert.", ("uncertainty",), 0),
)
_WHEN: Final[dict[Calibration, str]] = {
    "raw": "raw",
    "calibrated": "after T(x)",
    "as shipped": "as shipped",
}
_MEANING: Final = (
    "Scores of the top probability as the forecast of a right answer: score = miscalibration - "
    "discrimination + uncertainty (CORP). Noise: mean miscalibration of a calibrated model with "
    "these confidences and families, by chance alone."
)


def build_answer_scores(request: Request) -> Table:
    """Make the table of scores in parts, of runs.

    Raises:
        InputError: the runs do not compare.
    """
    _ = request.comparable
    scores = run_answer_scores(request.experiment)
    if not scores:
        raise InputError("no run has probabilities")
    decoding = MetricDecoding(request.decoding)
    sizes = [run.scores.items for run in scores]
    scope = items_and_pairs({"accuracy": (min(sizes), max(sizes))})
    rows = (
        (run.arm, run.seed, (Cell(_WHEN[run.calibration]), *_cells(run.scores, run.chance)))
        for run in scores
    )
    return Table(
        name="answer-scores",
        title="Miscalibration, discrimination and uncertainty",
        caption=(
            f"Decoding: {decoding_words(decoding)}, and divided by T(x) if the run has a "
            f"calibrator. {_MEANING} Each run: {scope}. Brier from 0 to 1, log score in nats."
        ),
        columns=(*RUN_COLUMNS, Column("Probabilities", "left"), *_columns(decoding)),
        rows=run_rows(rows, request.names),
    )


def groups_table(groups: Sequence[Group]) -> Table:
    """Lay out the scores of groups in parts: one row per group."""
    group_scores = [(group, group.answer_scores, group.chance) for group in groups]
    return Table(
        name="answer-scores",
        title="Right answers as events: miscalibration, discrimination and uncertainty",
        columns=(Column("", "left"), *_columns()),
        rows=tuple(
            table_row(group.name, *_cells(scores, chance))
            for group, scores, chance in group_scores
            if scores is not None and chance is not None
        ),
        notes=(_MEANING,),
        keys=1,
    )


def _columns(decoding: MetricDecoding = SINGLE) -> list[Column]:
    """Return the columns of both scores; CSV files name the decoding."""
    return [
        Column(
            head or spec.title,
            numbers=tuple(f"{spec.title} {part} ({unit_of(spec, decoding)})" for part in parts),
            better=better,
        )
        for spec in _SCORES
        for head, parts, better in _PARTS
    ]


def _cells(scores: AnswerScores, chance: ChanceMiscalibration) -> list[Cell]:
    drawn = ((chance.brier, chance.brier_high), (chance.log_nats, chance.log_nats_high))
    return [
        cell
        for spec, parts, by_chance in zip(
            _SCORES, (scores.brier, scores.log_nats), drawn, strict=True
        )
        for cell in (
            value_cell(parts.score, spec, parts.reason),
            _miscalibration_cell(parts, spec, by_chance),
            value_cell(parts.discrimination, spec, parts.reason),
            value_cell(parts.uncertainty, spec, parts.reason),
        )
    ]


def _miscalibration_cell(
    parts: ScoreDecomposition, spec: MetricSpec, by_chance: tuple[float, float]
) -> Cell:
    """Write miscalibration, next to that of a calibrated model by chance."""
    cell = value_cell(parts.miscalibration, spec, parts.reason)
    below = "" if math.isnan(by_chance[0]) else f"noise {spec.shown(by_chance[0])}"
    return replace(cell, numbers=(*cell.numbers, *by_chance), below=below)
