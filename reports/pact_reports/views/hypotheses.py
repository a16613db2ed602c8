"""Hypotheses against the evidence: verdicts, their evidence, the registration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from pact_eval._choices import Demand
from pact_eval._json import Json
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.arms.arm_differences import margin_unit
from pact_eval.evaluation.calibration_error import ChanceError
from pact_eval.evaluation.registry import metric_spec
from pact_eval.numbers import UNDEFINED, ends_text, has_width, methods_text, value_text
from pact_eval.plain_text import one_line
from pact_eval.preregistration.criteria import Quantity
from pact_eval.preregistration.run_scorecard import JudgedHypotheses
from pact_eval.preregistration.scorecard import (
    CheckComparison,
    HypothesisResult,
    JudgedCheck,
    Reading,
    Scorecard,
    Verdict,
)
from pact_eval.stats.estimate import LEVEL
from pact_reports.cases import STATUS_OF, CaseStatus, CiReport, gate_report, judged_case
from pact_reports.request import Request
from pact_reports.table import Cell, Column, Line, Part, Table, Tone, make_table
from pact_reports.tables.cells import NOISE, chance_text, counted, estimate_cell
from pact_reports.views.presenter import MOST_LINES, Brief, Fact, Presenter
from pact_reports.writers.json import attributes, warnings_json

_MOST_DIFFERENCES: Final = 4
VERDICT_TONES: Final[dict[Verdict, Tone]] = {
    "SUPPORTED": "good",
    "PARTLY SUPPORTED": "caution",
    "PARTLY TESTED": "caution",
    "INCONCLUSIVE": "caution",
    "CONTRADICTED": "bad",
    "UNTESTED": "faint",
}


def present_judged_hypotheses(
    judged: JudgedHypotheses,
    names: ArmNames = KEYS,
    criteria: Path | None = None,
    demand: Demand | None = None,
) -> Presenter:
    """Present a scorecard: verdicts, evidence, registration.

    Args:
        judged: the hypotheses.
        names: display names of arms.
        criteria: the file of the hypotheses.
        demand: what a verdict must be clear by, if that is demanded in CI.
    """
    return Presenter(
        first=partial(_first, judged),
        tables=partial(scorecard_parts, judged.scorecard, names),
        to_json=partial(_json, judged),
        headline=lambda: [scorecard_answer(judged)],
        warnings=[*map(str, judged.warnings)],
        ci=None
        if criteria is None or demand is None
        else partial(scorecard_report, judged, criteria, demand),
    )


def _first(judged: JudgedHypotheses) -> Brief:
    """Return each hypothesis with its verdict, and what the registration proves."""
    results, registration = judged.scorecard.results, judged.registration
    facts = [
        Fact(
            one_line(result.hypothesis.id),
            one_line(f"{result.hypothesis.title}: {result.conclusion}"),
            VERDICT_TONES[result.verdict],
        )
        for result in results
    ]
    when = [] if registration.registered_at is None else [f"{registration.registered_at}"]
    facts.append(Fact("registered", "; ".join([*when, *registration.reasons]), "caution"))
    return Brief(facts, more="Evidence: --full.", most=MOST_LINES + len(facts))


def _json(judged: JudgedHypotheses) -> dict[str, Json]:
    registration = judged.registration
    registered_at = registration.registered_at

    def check_json(result: JudgedCheck) -> Json:
        return {
            **attributes(result.check, "says", "needs"),
            **attributes(result, "summary", "shown", "comparisons"),
        }

    return {
        "hypotheses": [
            {
                **attributes(result.hypothesis, "id", "title", "claim"),
                **attributes(result, "verdict", "shown", "conclusion", "because"),
                "refuted_by": [*map(str, result.refuted_by)],
                "checks": [*map(check_json, result.checks)],
                "beside": [*map(check_json, result.beside)],
            }
            for result in judged.scorecard.results
        ],
        "registration": {
            **attributes(registration, "status", "reasons"),
            "registered_at": None if registered_at is None else registered_at.isoformat(),
        },
        "warnings": warnings_json(judged.warnings),
    }


def scorecard_answer(judged: JudgedHypotheses) -> str:
    """Count the hypotheses that are supported and contradicted, by value and as shown.

    Example:
        "2 of 5 hypotheses are supported (H1, H3), 1 of them shown (H1); ..."
    """
    results = judged.scorecard.results

    def having(finding: str, what: str) -> str:
        """Count and name the hypotheses with a verdict, or with what is shown."""
        found = [each for each in results if finding in (each.verdict, each.shown)]
        ids = one_line(", ".join(each.hypothesis.id for each in found))
        return f"{len(found)} {what}{f' ({ids})' if found else ''}"

    return (
        f"Of {len(results)} hypothes{'is' if len(results) == 1 else 'es'}, by value "
        f"{having('SUPPORTED', 'supported')} and {having('CONTRADICTED', 'contradicted')}, "
        f"{having('UNTESTED', 'untested')}; {having('supported', 'shown to hold')}, "
        f"{having('refuted', 'shown to fail')}. {judged.registration.status}."
    )


def scorecard_report(judged: JudgedHypotheses, criteria: Path, demand: Demand) -> CiReport:
    """Return the cases of a scorecard: the registration, and each hypothesis.

    Args:
        judged: the verdicts.
        criteria: the file of the hypotheses.
        demand: what a verdict must be clear by.
    """
    registration = judged.registration
    text = "; ".join((registration.status.lower(), *registration.reasons))
    status: CaseStatus = "passed" if registration.holds else "skipped"
    status = "failed" if registration.broken else status
    cases = [judged_case("registration", "registration", status, text, criteria)]
    for result in judged.scorecard.results:
        hypothesis, status = result.hypothesis, STATUS_OF[result.standing(demand)]
        text = f"{hypothesis.title}: {result.conclusion} ({result.because})"
        name = f"hypothesis {hypothesis.id}"
        cases.append(judged_case("hypothesis", name, status, text, criteria))
    warnings = map(str, judged.warnings)
    return gate_report("pact-eval scorecard", scorecard_answer(judged), cases, warnings)


def build_scorecard(request: Request) -> Table:
    """Lay out verdicts with their evidence: one row per hypothesis; errors as `Request.judged`."""
    scorecard, registration = request.judged.scorecard, request.judged.registration
    when = registration.registered_at
    stamp = "" if when is None else f" ({when.isoformat()})"

    def evidence(result: HypothesisResult) -> Cell:
        found = "; ".join(map(_evidence, result.checks))
        return Cell(found, reason="; ".join(_lacking(result)) or None)

    return make_table(
        "scorecard",
        scorecard.results,
        (Column("H", "left"), lambda result: result.hypothesis.id),
        (Column("Claim", "left", width=0.27), lambda result: result.hypothesis.claim),
        (Column("Evidence", "left", width=0.38), evidence),
        (Column("Verdict", "left"), lambda result: result.verdict),
        (Column("Shown", "left", width=0.12), lambda result: result.shown_words or UNDEFINED),
        title="Hypotheses against the evidence",
        caption=(
            "Each check names the decoding of its numbers; differences are first minus second, "
            f"rates in points. {scorecard_legend(scorecard)}"
        ),
        notes=(f"Registration: {registration.status}{stamp}", *registration.reasons),
    )


def _lacking(result: HypothesisResult) -> Iterable[str]:
    """Return what data the checks of a hypothesis lack, each once."""
    return dict.fromkeys(
        check.check.needs or reason for check in result.checks for reason in check.reasons
    )


def scorecard_legend(scorecard: Scorecard) -> str:
    """Explain the basis of the verdicts, the intervals, and "shown"."""
    comparisons = [
        comparison
        for result in scorecard.results
        for check in (*result.checks, *result.beside)
        for comparison in check.comparisons
    ]
    known = [one.interval for one in comparisons if one.interval is not None]
    intervals = [interval for interval in known if not math.isnan(interval.low)]
    by_value = "Verdicts rest on the values"
    if not intervals:
        return f"{by_value}: without intervals, nothing is shown unless it holds by construction."
    of_ece = any(noise_text(one.left) or noise_text(one.right) for one in comparisons)
    return (
        f"{by_value}; in brackets the {methods_text(intervals)}, seeds held fixed. Shown: chance "
        "explains it in at most 5% of samples of families, by the interval; one of m comparisons "
        f"that fails is judged at 5% / m.{f' {NOISE}' if of_ece else ''}"
    )


def _evidence(result: JudgedCheck) -> str:
    """Write the result of a check: with its differences if they are few, otherwise decodings."""
    measured = [
        comparison for comparison in result.comparisons if not math.isnan(comparison.difference)
    ]
    shown = f", {result.shown}" if result.shown else ""
    text = f"{result.check.says}: {result.summary}{shown}"
    if not measured:
        return text
    if len(measured) <= _MOST_DIFFERENCES:
        differences = (
            f"{comparison.difference_text}, {basis_text(comparison)}" for comparison in measured
        )
        return f"{text} ({'; '.join(differences)})"
    decodings = sorted(
        {cell.decoding for comparison in measured for cell in comparison.question.cells}
    )
    return f"{text} ({', '.join(map(str, decodings))})"


def basis_text(comparison: CheckComparison) -> str:
    """Write the basis of a difference: unit, n, families, and the evidence.

    Example:
        "points, 162 pairs, 162 families, p = 0.541"
    """
    interval, sides = comparison.interval, (comparison.left, comparison.right)
    parts = (
        unit_and_n(comparison),
        "" if interval is None else f"{interval.clusters:,} families",
        " and ".join(filter(None, map(noise_text, sides))),
        evidence_text(comparison),
    )
    return ", ".join(filter(None, parts))


def unit_and_n(comparison: CheckComparison) -> str:
    """Write the unit of a difference, and the number of items, pairs or Score items.

    Example:
        "points, 162 pairs"
    """
    metric = comparison.question.left.cell.metric
    counts = [row.n for row in comparison.left.rows if row.n]
    n = min(counts, default=0) if comparison.interval is None else comparison.interval.n
    return ", ".join(filter(None, (margin_unit(metric), counted(n, metric) if n else "")))


def evidence_text(comparison: CheckComparison) -> str:
    """Name the evidence that decides a comparison, if it is not the 95% interval.

    Example:
        "p = 0.012", "98.3% interval [−3.2, −0.1]", "no interval"
    """
    evidence = comparison.evidence
    if evidence is None:
        return ""
    if evidence.method != "interval":
        return evidence.reason or "no interval"
    if evidence.reason is not None:
        return evidence.reason
    if evidence.level == LEVEL:
        return ""
    unit = metric_spec(comparison.question.left.cell.metric).difference_unit
    ends = f" {ends_text(evidence.low, evidence.high, unit)}" if evidence.shown else ""
    return f"{100 * (1 - evidence.level):.3g}% interval{ends}"


def scorecard_parts(scorecard: Scorecard, names: ArmNames = KEYS) -> Iterator[Part]:
    """Lay out the evidence of each hypothesis, and explain it."""
    yield from (_evidence_table(result, names) for result in scorecard.results)
    yield Line(f"Differences are first - second. {scorecard_legend(scorecard)}")


def _evidence_table(result: HypothesisResult, names: ArmNames) -> Table:
    """Lay out the checks of one hypothesis: a row per comparison."""
    rows = [
        (
            f"{label}{check.check.says}: {check.summary}"
            if comparison is check.comparisons[0]
            else "",
            check,
            comparison,
        )
        for label, checks in (("", result.checks), ("not decisive: ", result.beside))
        for check in checks
        for comparison in check.comparisons
    ]

    def shown(comparison: CheckComparison) -> Cell:
        if comparison.evidence is None:
            return Cell(UNDEFINED)
        how = "shown" if comparison.shown else "by value"
        return Cell(how, below=evidence_text(comparison))

    return make_table(
        f"hypothesis-{result.hypothesis.id}",
        rows,
        (Column("check", "left", width=0.3), lambda row: row[0]),
        (
            Column("compared", "left"),
            lambda row: compared_text(row[2], names),
        ),
        (Column("seeds", "left"), lambda row: ", ".join(map(_seed, row[2].seeds))),
        ("first", lambda row: _value(row[2].question.left, row[2].left, row[2])),
        ("second", lambda row: _value(row[2].question.right, row[2].right, row[2])),
        ("difference", lambda row: _difference(row[2])),
        (Column("shown", "left"), lambda row: shown(row[2])),
        rule=lambda row: id(row[1]),
        title=f"{result.hypothesis.id} {result.hypothesis.title}: {result.conclusion}",
        caption=f"{result.hypothesis.claim} ({result.because})",
        notes=tuple(f"Lacks data: {reason}" for reason in _lacking(result)),
    )


def _seed(seed: int | None) -> str:
    return "-" if seed is None else str(seed)


def compared_text(comparison: CheckComparison, names: ArmNames = KEYS) -> str:
    """Name the first quantity by arm, decoding and group, and the differences in the second."""
    left, second = comparison.question.left.cell, comparison.question.right
    group = [] if left.group == "all" else [left.group]
    named = [names.arm(left.arm), str(left.decoding), *group]
    if not isinstance(second, Quantity):
        return f"{', '.join(named)} vs {metric_spec(left.metric).shown(comparison.right.value)}"
    right = second.cell
    pairs = (
        (left.metric, right.metric),
        (names.arm(left.arm), names.arm(right.arm)),
        (str(left.decoding), str(right.decoding)),
        (left.group, right.group),
    )
    other = [theirs for ours, theirs in pairs if ours != theirs]
    return f"{', '.join(named)} vs {', '.join(other)}"


def _value(quantity: Quantity | float, reading: Reading, comparison: CheckComparison) -> Cell:
    spec = metric_spec(comparison.question.left.cell.metric)
    signed = isinstance(quantity, Quantity) and quantity.minus is not None
    text = value_text(reading.value, spec.difference_unit if signed else spec.unit)
    return Cell(text, below="" if signed else noise_text(reading))


def noise_text(reading: Reading) -> str:
    """Write the ECE expected by chance; empty for other metrics.

    Example:
        "noise 6.2, p 0.291"
    """
    chance = ChanceError.of([row.calibration for row in reading.rows])
    return "" if chance is None else chance_text(chance)


def _difference(comparison: CheckComparison) -> Cell:
    if math.isnan(comparison.difference):
        return Cell(UNDEFINED)
    unit = metric_spec(comparison.question.left.cell.metric).difference_unit
    cell = Cell(value_text(comparison.difference, unit))
    if comparison.interval is not None and has_width(comparison.interval):
        cell = estimate_cell(comparison.interval, unit, reasons=False)
    tone: Tone = "good" if comparison.holds else "bad"
    return replace(cell, tone=tone, below=unit_and_n(comparison))
