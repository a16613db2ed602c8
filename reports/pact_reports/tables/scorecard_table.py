"""Hypotheses and what became of them: verdicts with their evidence, and the registration."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pact_eval._json import Json
from pact_eval.preregistration import (
    METRIC_SPECS,
    CheckResult,
    Comparison,
    HypothesisResult,
    JudgedHypotheses,
    Verdict,
    describe_check,
)
from pact_reports.numbers import UNDEFINED, estimate_text, value_text
from pact_reports.plain_text import cell, one_line, visible
from pact_reports.writers.json_values import to_json
from pact_reports.writers.terminal import new_table, whole

__all__ = ["compared_text", "scorecard_json", "scorecard_report"]

_STYLE: dict[Verdict, str] = {
    "SUPPORTED": "bold green",
    "PARTLY SUPPORTED": "bold yellow",
    "PARTLY TESTED": "bold yellow",
    "INCONCLUSIVE": "bold yellow",
    "CONTRADICTED": "bold red",
    "UNTESTED": "dim",
}


def scorecard_report(judged: JudgedHypotheses, *, plain: bool) -> Iterator[RenderableType]:
    """Lay out a scorecard.

    Args:
        judged: the hypotheses and their verdicts.
        plain: ASCII rules, for output that is piped.

    Yields:
        Each hypothesis with its evidence, then all verdicts, then what the registration proves.
    """
    for result in judged.scorecard.results:
        title = one_line(f"{result.hypothesis.id} {result.hypothesis.title}")
        head = Text(f"\n{title}: ", style="bold")
        head.append(result.verdict, style=_STYLE[result.verdict])
        yield head
        yield Text(visible(f"{result.hypothesis.claim} ({result.because})"))
        yield _evidence(result, plain=plain)
        for reason in dict.fromkeys(
            (each.check.needs or reason) for each in result.checks for reason in each.reasons
        ):
            yield Text(f"Lacks data: {visible(reason)}", style="dim")
    yield from _brackets(judged)
    yield _all_verdicts(judged)
    registration = judged.registration
    style = "bold green" if registration.status == "REGISTERED BEFORE THE RUNS" else "bold yellow"
    if registration.status in ("TAMPERED", "REGISTERED AFTER THE RUNS"):
        style = "bold red"
    when = "" if registration.registered_at is None else f" ({registration.registered_at})"
    yield Text(f"\n{registration.status}{when}", style=style)
    for reason in registration.reasons:
        yield Text(visible(f"  {reason}"))


def _evidence(result: HypothesisResult, *, plain: bool) -> Table:
    table = new_table("check", "", "seeds", "first", "second", "difference", plain=plain)
    for check in result.checks:
        _add_check(table, check, beside=False)
    for check in result.beside:
        _add_check(table, check, beside=True)
    return whole(table)


def _brackets(judged: JudgedHypotheses) -> Iterator[RenderableType]:
    """Say what stands in brackets, where something does."""
    for result in judged.scorecard.results:
        for check in (*result.checks, *result.beside):
            for interval in (each.interval for each in check.comparisons):
                if interval is not None and not math.isnan(interval.low):
                    method = interval.method.replace("clusters", "families")
                    yield Text(f"\nDifferences are first - second, in brackets the {method}.")
                    return


def _all_verdicts(judged: JudgedHypotheses) -> Text:
    """All verdicts in one place, after pages of evidence."""
    text = Text()
    for result in judged.scorecard.results:
        text.append(f"\n{one_line(result.hypothesis.id)} ", style="bold")
        text.append(result.verdict, style=_STYLE[result.verdict])
    return text


def _add_check(table: Table, result: CheckResult, *, beside: bool) -> None:
    label = f"{'beside: ' if beside else ''}{result.check.says}: {result.summary}"
    for number, each in enumerate(result.comparisons):
        table.add_row(
            cell(label if number == 0 else ""),
            cell(compared_text(each)),
            ", ".join("-" if seed is None else str(seed) for seed in each.seeds),
            _value(each, each.left.value, signed=each.question.left.minus is not None),
            _value(each, each.right.value, signed=each.question.right.minus is not None),
            _difference(each),
        )


def compared_text(comparison: Comparison) -> str:
    """Name the first quantity by arm, decoding and group, and what is other in the second."""
    left, right = comparison.question.left.cell, comparison.question.right.cell
    shown = [left.arm, left.decoding, *([left.group] if left.group != "all" else [])]
    names = ("metric", "arm", "decoding", "group")
    pairs = ((getattr(left, name), getattr(right, name)) for name in names)
    other = [theirs for ours, theirs in pairs if ours != theirs]
    return f"{', '.join(shown)} vs {', '.join(other)}"


def _value(comparison: Comparison, value: float, *, signed: bool) -> str:
    unit = METRIC_SPECS[comparison.question.left.cell.metric].unit
    return value_text(value, "points" if signed and unit == "percent" else unit)


def _difference(comparison: Comparison) -> Text:
    if math.isnan(comparison.difference):
        return Text(UNDEFINED)
    unit = METRIC_SPECS[comparison.question.left.cell.metric].unit
    points = "points" if unit == "percent" else unit
    shown = value_text(comparison.difference, points)
    if comparison.interval is not None:
        shown = estimate_text(comparison.interval, points)
    return Text(shown, style="green" if comparison.holds else "red")


def scorecard_json(judged: JudgedHypotheses) -> dict[str, Json]:
    """Turn a scorecard into JSON values: verdicts, evidence, registration."""
    hypotheses: list[Json] = [
        {
            "id": result.hypothesis.id,
            "title": result.hypothesis.title,
            "claim": result.hypothesis.claim,
            "verdict": result.verdict,
            "because": result.because,
            "checks": [_check_json(check) for check in result.checks],
            "beside": [_check_json(check) for check in result.beside],
        }
        for result in judged.scorecard.results
    ]
    registration = judged.registration
    return {
        "hypotheses": hypotheses,
        "registration": {
            "status": registration.status,
            "reasons": list(registration.reasons),
            "registered_at": None
            if registration.registered_at is None
            else registration.registered_at.isoformat(),
        },
        "warnings": list(judged.warnings),
    }


def _check_json(result: CheckResult) -> dict[str, Json]:
    return {
        "says": result.check.says,
        "decides": describe_check(result.check),
        "summary": result.summary,
        "needs": result.check.needs,
        "comparisons": [to_json(each) for each in result.comparisons],
    }
