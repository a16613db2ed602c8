"""Brier and log score of "the answer is right": miscalibration, discrimination and uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pact_eval.evaluation import (
    AnswerScores,
    Calibration,
    Group,
    MetricSpec,
)
from pact_eval.evaluation.answer_scores import RunAnswerScores, run_answer_scores
from pact_eval.preregistration import DecodingName, decoding_name
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import text_cell, unit_of, value_cell
from pact_reports.tables.metric_values import DECODING_WORDS, items_and_pairs
from pact_reports.tables.request import TableRequest

_SCORES: Final = (
    MetricSpec("answer_brier", "Brier", "score", -1),
    MetricSpec("answer_log_score", "Log score", "nats", -1),
)
_PARTS: Final[tuple[tuple[str, str, Literal[-1, 0, 1]], ...]] = (
    ("", "mean", -1),
    ("Miscal.", "miscalibration", -1),
    ("Discrim.", "discrimination", 1),
    ("Uncert.", "uncertainty", 0),
)
_WHEN: Final[dict[Calibration, str]] = {"raw": "raw", "calibrated": "after T(x)"}
_MEANING: Final = (
    "Scores of the top probability as the forecast of a right answer: score = miscalibration - "
    "discrimination + uncertainty (CORP). Miscalibration is above 0 by chance too."
)


def build_answer_scores(request: TableRequest) -> Table:
    """Make the table of scores in parts, of runs.

    Raises:
        InputError: the runs do not compare.
    """
    _ = request.comparable
    scores = run_answer_scores(request.experiment)
    decoding = decoding_name(request.decoding, "raw")
    sizes = [each.scores.items for each in scores]
    scope = items_and_pairs({"accuracy": (min(sizes), max(sizes))})
    rows, before = [], None
    for each in scores:
        rows.append(Row(tuple(_run_cells(each)), rule=each.arm != before))
        before = each.arm
    return Table(
        name="answer-scores",
        title="Miscalibration, discrimination and uncertainty",
        caption=(
            f"Decoding: {DECODING_WORDS[decoding]}, and divided by T(x) if the run has a "
            f"calibrator. {_MEANING} Each run: {scope}. Brier from 0 to 1, log score in nats."
        ),
        columns=(
            Column("Arm", "left"),
            Column("Seed"),
            Column("Probabilities", "left"),
            *_columns(decoding),
        ),
        rows=tuple(rows),
    )


def groups_table(groups: Sequence[Group]) -> Table:
    """Lay out the scores of groups in parts: one row per group."""
    known = [(group, group.answer_scores) for group in groups]
    return Table(
        name="answer-scores",
        title="Right answers as events: miscalibration, discrimination and uncertainty",
        caption="",
        columns=(Column("", "left"), *_columns()),
        rows=tuple(
            Row((text_cell(group.name), *_cells(scores)))
            for group, scores in known
            if scores is not None
        ),
        notes=(_MEANING,),
        keys=1,
    )


def _columns(decoding: DecodingName = "single") -> list[Column]:
    """Return the columns of both scores; CSV files name the decoding."""
    return [
        Column(
            head or spec.title,
            numbers=(f"{spec.title} {part} ({unit_of(spec, decoding)})",),
            better=better,
        )
        for spec in _SCORES
        for head, part, better in _PARTS
    ]


def _cells(scores: AnswerScores) -> list[Cell]:
    cells = []
    for spec, parts in zip(_SCORES, (scores.brier, scores.log_nats), strict=True):
        numbers = (parts.score, parts.miscalibration, parts.discrimination, parts.uncertainty)
        cells += [value_cell(number, spec, parts.reason) for number in numbers]
    return cells


def _run_cells(run: RunAnswerScores) -> list[Cell]:
    seed = "–" if run.seed is None else str(run.seed)
    return [
        text_cell(run.arm),
        text_cell(seed),
        text_cell(_WHEN[run.calibration]),
        *_cells(run.scores),
    ]
