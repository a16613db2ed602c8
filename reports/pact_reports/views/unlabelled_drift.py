"""Drift between two logs without right answers: a sentence, what changed, and what is not known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Final

from pact_eval._json import Json
from pact_eval.drift.unlabelled import SameItems, Shift, UnlabelledDrift
from pact_eval.errors import counted
from pact_eval.numbers import estimate_text, p_value_number, p_value_text, value_text
from pact_eval.plain_text import one_line
from pact_reports.table import Cell, Column, Line, Part, Row, Table, right_columns
from pact_reports.tables.cells import estimate_cell
from pact_reports.views.brief import Brief, Fact
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import to_json

_MOST_SHIFTS: Final = 4


def present_unlabelled_drift(drift: UnlabelledDrift) -> Presenter:
    """Present the drift between two logs."""
    return Presenter(
        headline=lambda: [drift_sentence(drift)],
        first=lambda: Brief([*drift_facts(drift)]),
        tables=partial(_tables, drift),
        to_json=lambda: _json(drift),
    )


def _json(drift: UnlabelledDrift) -> dict[str, Json]:
    parts = ("names", "items", "families", "same", "shifts", "below", "to_label")
    return {"finding": drift.finding} | {name: to_json(getattr(drift, name)) for name in parts}


def drift_sentence(drift: UnlabelledDrift) -> str:
    """Write whether two logs differ, and in what most."""
    if drift.finding == "too few to tell":
        return f"TOO FEW TO TELL: {min(drift.families)} independent items in a log."
    if drift.finding == "no change shown":
        return f"NO CHANGE SHOWN between {drift.names[0]} and {drift.names[1]}."
    parts = []
    if drift.same is not None and drift.same.shown:
        parts.append(changed_text(drift.same))
    parts += [shift_text(shift, drift.below) for shift in drift.shown[: 1 if parts else 2]]
    return one_line(f"CHANGED: {'; '.join(parts)}.")


def changed_text(same: SameItems) -> str:
    """Write how many answers to the same items changed, next to those that asking again changes."""
    changed = f"{estimate_text(same.changed, 'percent')}% of answers to the same items are others"
    if math.isnan(same.noise):
        return changed
    return f"{changed}, {value_text(same.noise, 'percent')}% by asking again"


def shift_text(shift: Shift, below: float | None) -> str:
    """Write a share or a mean before and after.

    Example:
        "answer refund: 31.0% to 44.0% (p < 0.001)"
    """
    ends = " to ".join(f"{value_text(at, 'percent')}%" for at in (shift.before, shift.after))
    return f"{shift_name(shift, below)}: {ends} ({p_value_text(shift.p)})"


def shift_name(shift: Shift, below: float | None) -> str:
    """Name what is compared."""
    match shift.what:
        case "confidence":
            return "mean confidence"
        case "below":
            return f"answers below {100 * (below or 0):g}%"
        case "question":
            return f"items of question {shift.name}"
        case "answer":
            asked = f" to {shift.question}" if shift.question else ""
            return f"answer {shift.name}{asked}"


def drift_facts(drift: UnlabelledDrift) -> Iterator[Fact]:
    """Yield the first screen below the sentence."""
    same, shown = drift.same, drift.shown
    if same is not None:
        yield Fact("same items", f"{changed_text(same)}; {same.items:,} items in both")
    others = [shift for shift in drift.shifts if shift.what in {"confidence", "below"}]
    listed = dict.fromkeys([*shown[:_MOST_SHIFTS], *others])
    for shift in listed:
        yield Fact("shown" if shift.shown else "not shown", shift_text(shift, drift.below))
    if len(shown) > _MOST_SHIFTS:
        yield Fact("", f"{len(shown) - _MOST_SHIFTS} more are shown")
    sizes = " and ".join(f"{n:,}" for n in drift.items)
    yield Fact("compared", f"{sizes} items; {counted(len(drift.shifts), 'number')} tested together")
    yield Fact("not known", "".join(_unknown(drift)))


def _unknown(drift: UnlabelledDrift) -> Iterator[str]:
    """Yield what no log without right answers says, and what would say it."""
    yield "whether answers are right; "
    if drift.same is not None:
        most = value_text(drift.same.changed.value, "percent")
        yield f"accuracy on the same items moved by at most {most} points"
        if drift.same.ids:
            changed = counted(len(drift.same.ids), "item")
            yield f", and right answers of the {changed} that changed say which way"
    else:
        yield f"right answers of {drift.to_label:,} items of each log would show 5 points"


def _tables(drift: UnlabelledDrift) -> Iterator[Part]:
    """Yield every number that was compared."""
    columns = (
        Column("compared", "left"),
        *right_columns("before", "after", "change", "p"),
    )
    caption = (
        "In %, changes in points; in brackets 95% t intervals over groups that belong together; "
        "p of permutations over them, adjusted for all rows (Holm)."
    )
    rows = tuple(Row(_cells(shift, drift.below)) for shift in drift.shifts)
    yield Table("drift-shifts", "Two logs without right answers", caption, columns, rows, keys=1)
    if drift.same is not None and drift.same.ids:
        yield Line(one_line(f"Changed: {', '.join(drift.same.ids)}"))


def _cells(shift: Shift, below: float | None) -> tuple[Cell, ...]:
    return (
        Cell(one_line(shift_name(shift, below))),
        *(Cell(value_text(value, "percent")) for value in (shift.before, shift.after)),
        estimate_cell(shift.change, "points", reasons=False),
        Cell(p_value_number(shift.p), mark="significant" if shift.shown else None),
    )
