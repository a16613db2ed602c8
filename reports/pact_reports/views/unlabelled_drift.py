"""Drift between two logs without right answers: a sentence, what changed, and what is not known."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from pact_eval._json import Json
from pact_eval.drift.unlabelled import LogSide, SameItems, Shift, UnlabelledDrift
from pact_eval.errors import counted
from pact_eval.evaluation.conclusions.order import CHANGES
from pact_eval.numbers import estimate_text, p_value_number, p_value_text, value_text
from pact_eval.plain_text import one_line
from pact_reports.cases import STATUS_OF, CiReport, gate_report, judged_case
from pact_reports.table import Cell, Column, Line, Part, make_table
from pact_reports.tables.cells import estimate_cell
from pact_reports.views.presenter import Brief, Fact, Presenter
from pact_reports.writers.json import attributes, warnings_json

_MOST_SHIFTS: Final = 2


def present_unlabelled_drift(drift: UnlabelledDrift) -> Presenter:
    """Present the drift between two logs."""

    def cases() -> CiReport:
        text, log = drift_sentence(drift), Path(drift.logs[1].place)
        case = judged_case("drift", "drift", STATUS_OF[drift.finding], text, log)
        return gate_report("pact-eval drift", text, [case], map(str, drift.warnings))

    def as_json() -> dict[str, Json]:
        parts = ("names", "items", "families", "same", "shifts", "below", "to_label")
        of_logs = ("logs", "prompts") if drift.logs else ()
        numbers = attributes(drift, "finding", *parts, *of_logs)
        return numbers | {"warnings": warnings_json(drift.warnings)}

    return Presenter(
        headline=lambda: [drift_sentence(drift)],
        first=lambda: Brief([*drift_facts(drift)]),
        tables=partial(_tables, drift),
        to_json=as_json,
        warnings=[*map(str, drift.warnings)],
        ci=cases if drift.logs else None,
    )


def drift_sentence(drift: UnlabelledDrift) -> str:
    """Write whether two logs differ, and in what most."""
    if drift.finding == "too few to tell":
        return f"TOO FEW TO TELL: {min(drift.families)} independent items in a log."
    if drift.finding == "no change shown":
        said = f"NO CHANGE SHOWN between {drift.names[0]} and {drift.names[1]}"
        same = drift.same
        if same is None or not same.ids or not math.isnan(same.noise):
            return f"{said}."
        differ = f"the answers to {counted(len(same.ids), 'item')} differ"
        most = f"not shown to be above {100 * CHANGES:g}%, and none was asked again"
        return one_line(f"{said}: {differ}, {most}.")
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
        case "unanswered":
            return "without an answer"
        case "question":
            return f"items of question {shift.name}"
        case "answer":
            asked = f" to {shift.question}" if shift.question else ""
            return f"answer {shift.name}{asked}"


def drift_facts(drift: UnlabelledDrift) -> Iterator[Fact]:
    """Yield the first screen below the sentence: at most ten lines."""
    same, shown = drift.same, drift.shown
    if same is not None:
        yield Fact("same items", f"{changed_text(same)}; {same.items:,} items in both")
    for shift in shown[:_MOST_SHIFTS]:
        yield Fact("shown", shift_text(shift, drift.below))
    always = {"unanswered", "confidence", "below"}
    others = [s for s in drift.shifts if s.what in always and s not in shown[:_MOST_SHIFTS]]
    yield Fact("others", "; ".join(shift_text(shift, drift.below) for shift in others))
    yield from _service(drift)
    sizes = " and ".join(f"{n:,}" for n in drift.items)
    tested = f"{counted(len(drift.shifts), 'number')} tested together, {len(shown)} shown"
    yield Fact("compared", f"{sizes} items; {tested}")
    yield Fact("not known", _unknown(drift))
    labelled = [log for log in drift.logs if log.labelled]
    if labelled:
        where = "in both logs" if len(labelled) == 2 else f"in {labelled[0].place}"
        before, after = (log.place for log in drift.logs)
        words = (
            ["compare", after, before, "--not-worse", "2"] if same else ["report", before, after]
        )
        yield Fact("not used", one_line(f"right answers {where}: pact-eval {shlex.join(words)}"))


def _service(drift: UnlabelledDrift) -> Iterator[Fact]:
    """Yield what is known of the models and requests of two logs."""
    if not drift.logs:
        return
    models = [log.model for log in drift.logs]
    if models[0] != models[1]:
        first, second = (model or "not known" for model in models)
        yield Fact("model", one_line(f"{first}, then {second}"), "caution")
    else:
        yield Fact("model", one_line(models[0] or ""))
    others = ", ".join(name or "the only question" for name in drift.prompts)
    yield Fact("prompt", one_line(f"another text: {others}") if others else "", "caution")
    yield Fact("service", "; ".join(_measured(*drift.logs)))


def _measured(*logs: LogSide) -> Iterator[str]:
    """Yield latency, price and replies without an answer, if a log has any."""
    latencies = ["{:,.0f} ms (95%: {:,.0f})".format(*log.latency_ms) for log in logs]
    for name, texts in (
        ("latency", latencies),
        ("price of an answer", [f"{log.price:.3g}" for log in logs]),
    ):
        known = [text if "nan" not in text else "not known" for text in texts]
        if {*known} != {"not known"}:
            yield f"{name} {' to '.join(known)}"
    if any(log.refused for log in logs):
        shares = (f"{value_text(log.refused, 'percent')}%" for log in logs)
        yield f"refused {' to '.join(shares)}"


def _unknown(drift: UnlabelledDrift) -> str:
    """Say what no log without right answers says, and what would say it."""
    same = drift.same
    if same is None:
        known = f"right answers of {drift.to_label:,} items of each log would show 5 points"
        return f"whether answers are right; {known}"
    most = value_text(same.changed.value, "percent")
    known = f"accuracy on the same items moved by at most {most} points"
    if same.ids:
        changed = counted(len(same.ids), "item")
        known += f", and right answers of the {changed} that changed say which way"
    return f"whether answers are right; {known}"


def _tables(drift: UnlabelledDrift) -> Iterator[Part]:
    """Yield every number that was compared."""

    def p_value(shift: Shift) -> Cell:
        return Cell(p_value_number(shift.p), mark="significant" if shift.shown else None)

    yield make_table(
        "drift-shifts",
        drift.shifts,
        (Column("compared", "left"), lambda shift: one_line(shift_name(shift, drift.below))),
        ("before", lambda shift: value_text(shift.before, "percent")),
        ("after", lambda shift: value_text(shift.after, "percent")),
        ("change", lambda shift: estimate_cell(shift.change, "points", reasons=False)),
        ("p", p_value),
        title="Two logs without right answers",
        caption=(
            "In %, changes in points; in brackets 95% t intervals over groups that belong "
            "together; p of permutations over them, adjusted for all rows (Holm)."
        ),
        keys=1,
    )
    if drift.same is not None and drift.same.ids:
        yield Line(one_line(f"Changed: {', '.join(drift.same.ids)}"))
