"""The list of runs: one row per run folder."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

from pact_eval.evaluation.registry import metric_spec
from pact_eval.evaluation.run_list import ListedRun, RunState
from pact_reports.arm_names import KEYS, ArmNames
from pact_reports.numbers import value_text
from pact_reports.plain_text import one_line
from pact_reports.table import Cell, Column, Line, Part, Row, Table, Tone

_ACCURACY: Final = metric_spec("accuracy")
_TONES: Final[dict[RunState, Tone]] = {
    "complete": "good",
    "resumable": "caution",
    "tampered": "bad",
    "unreadable": "bad",
}
_DIGITS = 8


def run_list_parts(runs: Sequence[ListedRun], names: ArmNames = KEYS) -> tuple[Part, ...]:
    """Lay out a list of runs.

    Args:
        runs: the runs.
        names: display names of arms.

    Returns:
        A table with a row per run; then what to do about runs that are not complete.
    """
    columns = (
        Column("run", "left"),
        Column("arm", "left"),
        Column("seed"),
        Column("role", "left"),
        Column("items"),
        Column("K"),
        Column("accuracy"),
        Column("state", "left"),
        Column("begun", "left"),
        Column("digest", "left"),
    )
    rows = tuple(Row(_cells(run, names)) for run in runs)
    caption = "Accuracy in %, raw, of view 0 alone, without an interval: `report` shows it."
    table = Table("runs", "Runs", caption, columns, rows, keys=1)
    return (table, *_advice(runs))


def _cells(run: ListedRun, names: ArmNames) -> tuple[Cell, ...]:
    begun = "" if run.created is None else f"{run.created.astimezone(dt.UTC):%Y-%m-%d}"
    why = None if run.reason is None else one_line(run.reason)
    return (
        Cell(one_line(str(run.folder))),
        Cell(one_line(names.arm(run.arm or ""))),
        Cell("" if run.seed is None else str(run.seed)),
        Cell(one_line(run.role or "")),
        Cell("" if run.items is None else f"{run.items:,}"),
        Cell("" if run.k is None else str(run.k)),
        _accuracy_cell(run),
        Cell(_state(run), reason=why, tone=_TONES[run.state]),
        Cell(begun),
        Cell("" if run.digest is None else run.digest[:_DIGITS]),
    )


def _accuracy_cell(run: ListedRun) -> Cell:
    if run.accuracy is None:
        return Cell("")
    text = value_text(run.accuracy.value, _ACCURACY.unit)
    return Cell(text, reason=run.accuracy.reason)


def _state(run: ListedRun) -> str:
    if run.state != "resumable":
        return run.state
    of_total = "" if run.views_wanted is None else f" of {run.views_wanted:,}"
    return f"resumable: {run.views or 0:,}{of_total} views"


def _advice(runs: Sequence[ListedRun]) -> tuple[Line, ...]:
    lines = []
    if any(run.state == "resumable" for run in runs):
        lines.append("Resumable: repeat the command that started the run.")
    if any(run.state == "tampered" for run in runs):
        lines.append("Tampered: `pact-eval verify RUN` names what differs.")
    return tuple(Line(line, "caution") for line in lines)
