"""The scorecard: every hypothesis with its evidence and its verdict, and the registration."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from pact_eval.evaluation import Estimate, metric_spec
from pact_eval.preregistration import (
    CheckResult,
    Comparison,
    HypothesisResult,
    JudgedHypotheses,
    Registration,
    Scorecard,
    Verdict,
)
from pact_reports.numbers import UNDEFINED, has_width, methods_text, value_text
from pact_reports.table import Cell, Column, Line, Part, Row, Table, Tone
from pact_reports.tables.cells import DIFFERENCE, estimate_cell, shown, text_cell
from pact_reports.tables.request import TableRequest

_MOST_DIFFERENCES: Final = 4
_TONE: Final[dict[Verdict, Tone]] = {
    "SUPPORTED": "good",
    "PARTLY SUPPORTED": "caution",
    "PARTLY TESTED": "caution",
    "INCONCLUSIVE": "caution",
    "CONTRADICTED": "bad",
    "UNTESTED": "faint",
}


def build_scorecard(request: TableRequest) -> Table:
    """Make the scorecard of runs; errors as `TableRequest.judged`."""
    found = request.judged
    return scorecard_table(found.scorecard, found.registration)


def scorecard_table(scorecard: Scorecard, registration: Registration | None = None) -> Table:
    """Lay out verdicts with their evidence: one row per hypothesis.

    Args:
        scorecard: the verdicts.
        registration: what the lock proves, if there was one to read; shown below the table.
    """
    notes = []
    if registration is not None:
        when = registration.registered_at
        stamp = "" if when is None else f" ({when.isoformat()})"
        notes = [f"Registration: {registration.status}{stamp}"]
        notes += registration.reasons
    return Table(
        name="scorecard",
        title="Hypotheses against the evidence",
        caption=(
            "Each check names the decoding of its numbers; differences are first minus second, "
            f"rates in points. Verdicts rest on the values; {_intervals(scorecard)}."
        ),
        columns=(
            Column("H", "left"),
            Column("Claim", "left", width=0.27),
            Column("Evidence", "left", width=0.45),
            Column("Verdict", "left"),
        ),
        rows=tuple(_row(result) for result in scorecard.results),
        notes=tuple(notes),
    )


def _row(result: HypothesisResult) -> Row:
    evidence = "; ".join(_evidence(check) for check in result.checks)
    lacking = [check.check.needs or reason for check in result.checks for reason in check.reasons]
    return Row(
        (
            text_cell(result.hypothesis.id),
            text_cell(result.hypothesis.claim),
            Cell(evidence, reason="; ".join(dict.fromkeys(lacking)) or None),
            text_cell(result.verdict),
        )
    )


def drawn_intervals(scorecard: Scorecard) -> tuple[Estimate, ...]:
    """Return the intervals that are shown next to differences."""
    return tuple(
        comparison.interval
        for result in scorecard.results
        for check in (*result.checks, *result.beside)
        for comparison in check.comparisons
        if comparison.interval is not None and not math.isnan(comparison.interval.low)
    )


def _intervals(scorecard: Scorecard) -> str:
    found = drawn_intervals(scorecard)
    if not found:
        return "pact-eval scorecard shows their intervals"
    return f"in brackets the {methods_text(found)}"


def _evidence(result: CheckResult) -> str:
    """Write the result of a check: with its differences if they are few, otherwise decodings."""
    known = [each for each in result.comparisons if not math.isnan(each.difference)]
    text = f"{result.check.says}: {result.summary}"
    if not known:
        return text
    if len(known) <= _MOST_DIFFERENCES:
        return f"{text} ({'; '.join(map(difference_text, known))})"
    decodings = sorted({cell.decoding for each in known for cell in each.question.cells})
    return f"{text} ({', '.join(decodings)})"


def difference_text(comparison: Comparison) -> str:
    """Write a difference with its interval where that has a width, its seeds and its decodings.

    Example:
        "−1.2 [−3.0, +0.6] at seed 17, single"
    """
    spec = metric_spec(comparison.question.left.cell.metric)
    points = DIFFERENCE if spec.unit == "percent" else spec

    def signed(value: float) -> str:
        return f"{'+' if points is spec and value > 0 else ''}{shown(value, points)}"

    interval = comparison.interval
    ends = ""
    if interval is not None and has_width(interval):
        ends = f" [{signed(interval.low)}, {signed(interval.high)}]"
    named = [str(seed) for seed in comparison.seeds if seed is not None]
    seeds = f" at {'seeds' if named[1:] else 'seed'} {'/'.join(named)}" if named else ""
    decodings = dict.fromkeys(cell.decoding for cell in comparison.question.cells)
    return f"{signed(comparison.difference)}{ends}{seeds}, {' - '.join(decodings)}"


def scorecard_parts(judged: JudgedHypotheses) -> tuple[Part, ...]:
    """Lay out a scorecard for a terminal.

    Returns:
        Each hypothesis with its evidence, then all verdicts, then what the registration proves.
    """
    results = judged.scorecard.results
    intervals = drawn_intervals(judged.scorecard)
    brackets = ""
    if intervals:
        method = methods_text(intervals)
        brackets = f"Differences are first - second, in brackets the {method}."
    parts: list[Part] = [_evidence_table(result) for result in results]
    verdicts = Table(
        name="verdicts",
        title="Verdicts",
        caption=brackets,
        columns=(Column("hypothesis", "left", width=0.7), Column("verdict", "left")),
        rows=tuple(
            Row(
                (
                    Cell(f"{result.hypothesis.id} {result.hypothesis.title}"),
                    Cell(result.verdict, tone=_TONE[result.verdict]),
                )
            )
            for result in results
        ),
    )
    registration = judged.registration
    tone: Tone = "good" if registration.holds else "caution"
    if registration.broken:
        tone = "bad"
    when = "" if registration.registered_at is None else f" ({registration.registered_at})"
    return (
        *parts,
        verdicts,
        Line(f"{registration.status}{when}", tone),
        *(Line(f"  {reason}") for reason in registration.reasons),
    )


def _evidence_table(result: HypothesisResult) -> Table:
    """Lay out the checks of one hypothesis: a row per comparison."""
    checks = [("", check) for check in result.checks]
    checks += [("not decisive: ", check) for check in result.beside]
    lacking = dict.fromkeys(
        (each.check.needs or reason) for each in result.checks for reason in each.reasons
    )
    titles = ("check", "compared", "seeds")
    return Table(
        name=f"hypothesis-{result.hypothesis.id}",
        title=f"{result.hypothesis.id} {result.hypothesis.title}: {result.verdict}",
        caption=f"{result.hypothesis.claim} ({result.because})",
        columns=(
            *(Column(title, "left", width=0.3 if title == "check" else None) for title in titles),
            *(Column(title) for title in ("first", "second", "difference")),
        ),
        rows=tuple(row for label, check in checks for row in _check_rows(check, label)),
        notes=tuple(f"Lacks data: {reason}" for reason in lacking),
    )


def _check_rows(result: CheckResult, label: str) -> list[Row]:
    says = f"{label}{result.check.says}: {result.summary}"
    return [
        Row(
            (
                Cell(says if number == 0 else ""),
                Cell(compared_text(each)),
                Cell(", ".join("-" if seed is None else str(seed) for seed in each.seeds)),
                _value(each, each.left.value, signed=each.question.left.minus is not None),
                _value(each, each.right.value, signed=each.question.right.minus is not None),
                _difference(each),
            ),
            rule=number == 0,
        )
        for number, each in enumerate(result.comparisons)
    ]


def compared_text(comparison: Comparison) -> str:
    """Name the first quantity by arm, decoding and group, and what differs in the second."""
    left, right = comparison.question.left.cell, comparison.question.right.cell
    named = [left.arm, left.decoding, *([left.group] if left.group != "all" else [])]
    names = ("metric", "arm", "decoding", "group")
    pairs = ((getattr(left, name), getattr(right, name)) for name in names)
    other = [theirs for ours, theirs in pairs if ours != theirs]
    return f"{', '.join(named)} vs {', '.join(other)}"


def _value(comparison: Comparison, value: float, *, signed: bool) -> Cell:
    spec = metric_spec(comparison.question.left.cell.metric)
    return Cell(value_text(value, spec.difference_unit if signed else spec.unit))


def _difference(comparison: Comparison) -> Cell:
    if math.isnan(comparison.difference):
        return Cell(UNDEFINED)
    unit = metric_spec(comparison.question.left.cell.metric).difference_unit
    cell = Cell(value_text(comparison.difference, unit))
    if comparison.interval is not None:
        cell = estimate_cell(comparison.interval, unit, reasons=False)
    return replace(cell, tone="good" if comparison.holds else "bad")
