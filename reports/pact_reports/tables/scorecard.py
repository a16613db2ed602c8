"""The scorecard: every hypothesis with its evidence and its verdict."""

from __future__ import annotations

import math
from typing import Final

from pact_eval.preregistration import (
    METRIC_SPECS,
    CheckResult,
    Comparison,
    HypothesisResult,
    Registration,
    Scorecard,
)
from pact_eval.stats import Estimate
from pact_reports.numbers import has_width
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import shown, text_cell
from pact_reports.tables.request import TableRequest

__all__ = ["build_scorecard", "difference_text", "drawn_intervals", "scorecard_table"]

_MOST_DIFFERENCES: Final = 4


def build_scorecard(request: TableRequest) -> Table:
    """Make the scorecard of runs; errors as `TableRequest.judged`."""
    found = request.judged
    return scorecard_table(found.scorecard, found.registration)


def scorecard_table(scorecard: Scorecard, registration: Registration | None = None) -> Table:
    """Lay out verdicts with their evidence: a row a hypothesis.

    Args:
        scorecard: the verdicts.
        registration: what the lock proves, if there was one to read; stands below the table.
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
    """Return the intervals that stand beside differences."""
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
        return "pact-eval scorecard shows intervals beside them"
    return f"in brackets the {found[0].method.replace('clusters', 'families')}"


def _evidence(result: CheckResult) -> str:
    """Say how a check came out: with its differences where they are few, else with decodings."""
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
    spec = METRIC_SPECS[comparison.question.left.cell.metric]
    points = METRIC_SPECS["ensemble_gain"] if spec.unit == "percent" else spec

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
