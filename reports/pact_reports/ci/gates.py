"""Gates as cases: drift between runs, checks of thresholds and answer sets, scorecards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pact_eval._choices import Demand
from pact_eval.drift.drift import Drift
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.preregistration.registration import Registration
from pact_eval.preregistration.run_scorecard import JudgedHypotheses
from pact_eval.preregistration.scorecard import HypothesisResult, Standing
from pact_eval.runs.provenance import NAME as PROVENANCE_NAME
from pact_eval.thresholds.checking import CheckedGate, GateVerdict, ThresholdsCheck
from pact_eval.thresholds.set_checking import AnswerSetsCheck
from pact_reports.ci.report import (
    SEVERITY_OF_STATUS,
    Annotation,
    Case,
    CaseStatus,
    CiReport,
    Rule,
)
from pact_reports.views.drift import accuracy_change_text, drift_answer
from pact_reports.views.hypotheses import scorecard_answer
from pact_reports.views.thresholds import (
    check_answer,
    check_warnings,
    missed_text,
    sets_check_answer,
    sets_check_warnings,
    tested_text,
)

_RULES: Final[Mapping[str, Rule]] = {
    "data": Rule("Items leak, or a file is not the one of its manifest.", "error"),
    "accuracy": Rule("Accuracy changed beyond the margin, or the runs cannot tell.", "error"),
    "gate": Rule("A gate does not hold on the run, or the run cannot tell.", "error"),
    "sets": Rule("Answer sets do not hold on the run, or the run cannot tell.", "error"),
    "hypothesis": Rule("A hypothesis is contradicted, or has no clear verdict.", "error"),
    "registration": Rule("Criteria or data differ from the registered ones.", "error"),
}
_NOTHING: Final = "nothing is guaranteed, so there is nothing to check"
_OF_FINDING: Final[Mapping[str, CaseStatus]] = {
    "equivalent": "passed",
    "cannot tell": "cannot tell",
    "changed": "failed",
}
_OF_VERDICT: Final[Mapping[GateVerdict, CaseStatus]] = {
    "holds": "passed",
    "cannot tell": "cannot tell",
    "broken": "failed",
}
_OF_STANDING: Final[Mapping[Standing, CaseStatus]] = {
    "supported": "passed",
    "not clear": "cannot tell",
    "contradicted": "failed",
}


def drift_report(drift: Drift) -> CiReport:
    """Return the cases of a gate on drift: the data, accuracy, and each gate on the second run."""
    second = drift.runs[1].folder / PROVENANCE_NAME
    finding = _OF_FINDING[drift.test.finding]
    cases = [
        _data_case(drift.data, second),
        _case("accuracy", "accuracy", finding, accuracy_change_text(drift), second),
    ]
    for change in drift.gates:
        status: CaseStatus = "failed" if change.broken else "passed"
        text = f"{change.after.verdict} on B: {tested_text(change.after, change.target)}"
        if change.after.threshold is None:
            status, text = "skipped", _NOTHING
        name = f"gate {change.after.group} of {change.file}"
        cases.append(_case("gate", name, status, text, change.file))
    warnings = map(str, drift.warnings)
    return _report("pact-eval compare --gate", drift_answer(drift), cases, warnings)


def thresholds_report(check: ThresholdsCheck) -> CiReport:
    """Return the cases of a check of thresholds: one per gate."""
    file = check.file
    cases = [
        _gate_case("gate", gate.group, gate, tested_text(gate, file.target), file.path)
        for gate in check.gates
    ]
    return _of_checks(cases, check_answer(check), check_warnings(check), "gate", file.path)


def sets_report(check: AnswerSetsCheck) -> CiReport:
    """Return the cases of a check of answer sets: one per kind."""
    cases = [
        _gate_case("sets", kind.kind, kind.test, missed_text(kind.test), check.file.path)
        for kind in check.kinds
    ]
    answer, warnings = sets_check_answer(check), sets_check_warnings(check)
    return _of_checks(cases, answer, warnings, "sets", check.file.path)


def scorecard_report(judged: JudgedHypotheses, criteria: Path, demand: Demand) -> CiReport:
    """Return the cases of a scorecard: the registration, and each hypothesis.

    Args:
        judged: the verdicts.
        criteria: the file of the hypotheses.
        demand: what a verdict must be clear by.
    """
    results = judged.scorecard.results
    cases = [_registration_case(judged.registration, criteria)]
    cases += [_hypothesis_case(result, criteria, demand) for result in results]
    warnings = map(str, judged.warnings)
    return _report("pact-eval scorecard", scorecard_answer(judged), cases, warnings)


def _data_case(conclusion: DataConclusion, file: Path) -> Case:
    text = "; ".join((conclusion.status, *conclusion.parts))
    status: CaseStatus = "skipped" if conclusion.status == "not checked" else "passed"
    if conclusion.tampered or conclusion.status == "leak":
        status = "failed"
    return _case("data", "data", status, text, file)


def _gate_case(code: str, group: str, gate: CheckedGate, text: str, file: Path) -> Case:
    if gate.threshold is None:
        return _case(
            code, group, "skipped", "nothing is guaranteed, so there is nothing to check", file
        )
    return _case(code, group, _OF_VERDICT[gate.verdict], f"{gate.verdict}: {text}", file)


def _registration_case(registration: Registration, criteria: Path) -> Case:
    text = "; ".join((registration.status.lower(), *registration.reasons))
    status: CaseStatus = "passed" if registration.holds else "skipped"
    if registration.broken:
        status = "failed"
    return _case("registration", "registration", status, text, criteria)


def _hypothesis_case(result: HypothesisResult, criteria: Path, demand: Demand) -> Case:
    hypothesis = result.hypothesis
    text = f"{hypothesis.title}: {result.conclusion} ({result.because})"
    status = _OF_STANDING[result.standing(demand)]
    return _case("hypothesis", f"hypothesis {hypothesis.id}", status, text, criteria)


def _case(code: str, name: str, status: CaseStatus, text: str, file: Path) -> Case:
    """Return a case; one that ends the command with an exit code has an annotation."""
    if status not in ("failed", "cannot tell"):
        return Case(name, status, text)
    annotation = Annotation(code, SEVERITY_OF_STATUS[status], f"{name}: {text}", file)
    return Case(name, status, text, (annotation,))


def _of_checks(
    cases: list[Case], answer: str, warnings: Iterable[str], code: str, file: Path
) -> CiReport:
    if all(case.status == "skipped" for case in cases):  # the exit code is that of "cannot tell"
        cases = [*cases, _case(code, "file", "cannot tell", answer, file)]
    return _report("pact-eval thresholds --check", answer, cases, warnings)


def _report(command: str, answer: str, cases: list[Case], warnings: Iterable[str]) -> CiReport:
    codes = {annotation.code for case in cases for annotation in case.annotations}
    rules = {code: rule for code, rule in _RULES.items() if code in codes}
    return CiReport(command, answer, tuple(cases), rules, tuple(warnings))
