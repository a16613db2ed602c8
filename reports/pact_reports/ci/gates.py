"""Gates as cases: drift between runs, checks of thresholds and answer sets, scorecards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pact_eval._choices import Demand, Severity
from pact_eval.audit.adapter.audit import AdapterAudit
from pact_eval.audit.dataset import DataAudit
from pact_eval.audit.findings import CODES, CheckResult, Finding, failed
from pact_eval.drift.drift import Drift
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.preregistration.registration import Registration
from pact_eval.preregistration.run_scorecard import JudgedHypotheses
from pact_eval.preregistration.scorecard import HypothesisResult, Standing
from pact_eval.runs.provenance import NAME as PROVENANCE_NAME
from pact_eval.thresholds.checking import (
    AnswerSetsCheck,
    CheckedGate,
    GateVerdict,
    ThresholdsCheck,
)
from pact_reports.views.audit import scope_text
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

CaseStatus: TypeAlias = Literal["passed", "failed", "cannot tell", "skipped"]
"""Result of a case: "failed" and "cannot tell" end the command with a code other than 0."""

SEVERITY_OF_STATUS: Final[Mapping[CaseStatus, Severity]] = {
    "failed": "error",
    "cannot tell": "warning",
    "passed": "note",
    "skipped": "note",
}
"""Severity of the annotation of a case that has no findings."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Meaning of the code of annotations.

    Attributes:
        meaning: one sentence.
        severity: error, warning or note.
    """

    meaning: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class Annotation:
    """One remark at a place.

    Attributes:
        code: a key of the report's rules.
        severity: error, warning or note.
        message: what was expected and what was found.
        file: path of the file.
        line: 1-based line, or None if the file as a unit is meant.

    Examples:
        >>> Annotation("shared-id", "error", "expected a new id", Path("eval.jsonl"), 7).line
        7
    """

    code: str
    severity: Severity
    message: str
    file: Path
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One check or gate.

    Attributes:
        name: what is judged, unique in a report.
        status: passed, failed, cannot tell or skipped.
        text: what was looked at, the reason of the status, or both.
        annotations: remarks at places, the worst first.
        more: by code, number of findings that are only counted.
    """

    name: str
    status: CaseStatus
    text: str
    annotations: tuple[Annotation, ...] = ()
    more: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CiReport:
    """The cases of one command.

    Attributes:
        command: such as "pact-audit data".
        answer: the result in a sentence.
        cases: one per check or gate.
        rules: meaning of every code of the annotations.
        warnings: what a reader must know before the result, a sentence each.

    Examples:
        >>> place = Annotation("gate", "error", "broken", Path("thresholds.json"))
        >>> case = Case("all", "failed", "error 9%", (place,))
        >>> report = CiReport("pact-eval thresholds --check", "Broken.", (case,), {})
        >>> report.count("failed"), [annotation.code for annotation in report.annotations]
        (1, ['gate'])
    """

    command: str
    answer: str
    cases: tuple[Case, ...]
    rules: Mapping[str, Rule]
    warnings: tuple[str, ...] = ()

    @property
    def annotations(self) -> Iterator[Annotation]:
        """The annotations of all cases, in their order."""
        return (annotation for case in self.cases for annotation in case.annotations)

    def count(self, *statuses: CaseStatus) -> int:
        """Return the number of cases of some statuses."""
        return sum(case.status in statuses for case in self.cases)


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


def data_report(audit: DataAudit, answer: str, fail_on: Severity) -> CiReport:
    """Return the cases of a dataset's audit.

    Args:
        audit: what was found.
        answer: the verdict in a sentence.
        fail_on: the lowest severity that fails a check.
    """
    paths = {file.name: file.source for file in audit.files}
    manifest = audit.source.manifest
    folder = paths[audit.files[0].name].parent if manifest is None else manifest.folder
    first = audit.files[0].source

    def path_of(name: str) -> Path:
        return paths.get(name) or _existing(folder, name) or first

    return CiReport(
        "pact-audit data", answer, _cases(audit.checks, path_of, fail_on), _rules(audit.checks)
    )


def adapters_report(
    audits: Sequence[AdapterAudit], answers: Sequence[str], fail_on: Severity
) -> CiReport:
    """Return the cases of the audits of one adapter, or of two.

    Args:
        audits: what was found, by adapter.
        answers: the verdict on each adapter, a sentence each.
        fail_on: the lowest severity that fails a check.
    """
    cases: list[Case] = []
    for audit in audits:
        prefix = f"{audit.folder}: " if len(audits) > 1 else ""
        cases += _cases(audit.checks, _adapter_paths(audit.folder), fail_on, prefix)
    rules = _rules(check for audit in audits for check in audit.checks)
    return CiReport("pact-audit adapter", " ".join(answers), tuple(cases), rules)


def _adapter_paths(folder: Path) -> Callable[[str], Path]:
    def path_of(name: str) -> Path:
        return _existing(folder, name) or _existing(Path(), name) or folder

    return path_of


def _existing(folder: Path, name: str) -> Path | None:
    """Return a path in a folder if something is there; a name may be any text."""
    try:
        return folder / name if (folder / name).exists() else None
    except (OSError, ValueError):
        return None


def _cases(
    checks: Iterable[CheckResult],
    path_of: Callable[[str], Path],
    fail_on: Severity,
    prefix: str = "",
) -> tuple[Case, ...]:
    return tuple(
        Case(
            f"{prefix}{check.check}",
            _status(check, fail_on),
            scope_text(check),
            tuple(_annotation(finding, path_of) for finding in check.findings),
            _counted_only(check),
        )
        for check in checks
    )


def _status(check: CheckResult, fail_on: Severity) -> CaseStatus:
    if failed([check], fail_on):
        return "failed"
    return "passed" if check.skipped is None else "skipped"


def _counted_only(check: CheckResult) -> dict[str, int]:
    kept = Counter(finding.code for finding in check.findings)
    return {code: n - kept[code] for code, n in check.counts.items() if n > kept[code]}


def _annotation(finding: Finding, path_of: Callable[[str], Path]) -> Annotation:
    place, path = finding.place, path_of(finding.place.file)
    # A finding on something that is not a file is shown at another file.
    parts = [f"{place.file}: "] if Path(place.file).name != path.name else []
    parts += [] if place.record_id is None else [f"{place.record_id}: "]
    parts.append(f"expected {finding.expected}, found {finding.actual}")
    return Annotation(finding.code, finding.severity, "".join(parts), path, place.line)


def _rules(checks: Iterable[CheckResult]) -> dict[str, Rule]:
    return {
        code: Rule(CODES[code].meaning, CODES[code].severity)
        for check in checks
        for code in check.counts
    }
