"""Hypotheses and their verdicts, and answers of gates."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pact_eval._choices import Demand
from pact_eval._json import Json
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.plain_text import one_line
from pact_eval.preregistration.criteria import describe_check
from pact_eval.preregistration.run_scorecard import JudgedHypotheses
from pact_eval.preregistration.scorecard import JudgedCheck
from pact_reports.cases import STATUS_OF, CaseStatus, CiReport, gate_report, judged_case
from pact_reports.tables.scorecard import VERDICT_TONES, scorecard_parts
from pact_reports.views.presenter import MOST_LINES, Brief, Fact, Presenter
from pact_reports.writers.json import attributes, warnings_json


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
            "decides": describe_check(result.check),
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
