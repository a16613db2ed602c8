"""Cases of a command for continuous integration: each check or gate, with its annotations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pact_eval._choices import Severity
from pact_eval.errors import GateError, InconclusiveError
from pact_eval.evaluation.conclusions.data import DataConclusion

CaseStatus: TypeAlias = Literal["passed", "failed", "cannot tell", "skipped"]
"""Result of a case: "failed" and "cannot tell" end the command with a code other than 0."""

_FINDINGS: Final[Mapping[CaseStatus, tuple[str, ...]]] = {
    "passed": ("equivalent", "no change shown", "holds", "shown", "supported", "PASS"),
    "cannot tell": ("cannot tell", "too few to tell", "not shown", "not clear", "CANNOT TELL"),
    "failed": ("changed", "broken", "contradicted", "FAIL"),
}
STATUS_OF: Final[Mapping[str, CaseStatus]] = {
    finding: status for status, findings in _FINDINGS.items() for finding in findings
}
"""Status of what gates, tests and verdicts find."""

EXIT_CODES: Final[Mapping[CaseStatus, int]] = {
    "passed": 0,
    "cannot tell": InconclusiveError.exit_code,
    "failed": GateError.exit_code,
}
"""Exit code of a command whose result has a status."""

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
    "drift": Rule("Answers changed, or the logs are too small to tell.", "error"),
    "requirement": Rule("A requirement is contradicted, or not shown.", "error"),
    "gate": Rule("A gate does not hold on the run, or the run cannot tell.", "error"),
    "sets": Rule("Answer sets do not hold on the run, or the run cannot tell.", "error"),
    "hypothesis": Rule("A hypothesis is contradicted, or has no clear verdict.", "error"),
    "registration": Rule("Criteria or data differ from the registered ones.", "error"),
}


def judged_case(code: str, name: str, status: CaseStatus, text: str, file: Path) -> Case:
    """Return the case of a gate; one that ends the command with an exit code has an annotation.

    Args:
        code: of its annotation.
        name: what is judged.
        status: its result.
        text: what was looked at, the reason of the status, or both.
        file: where it is annotated.
    """
    if status not in ("failed", "cannot tell"):
        return Case(name, status, text)
    annotation = Annotation(code, SEVERITY_OF_STATUS[status], f"{name}: {text}", file)
    return Case(name, status, text, (annotation,))


def data_case(conclusion: DataConclusion, file: Path) -> Case:
    """Return the case of whether the data of runs is sound.

    Args:
        conclusion: on the data.
        file: where it is annotated.
    """
    text = "; ".join((conclusion.status, *conclusion.parts))
    status: CaseStatus = "skipped" if conclusion.status == "not checked" else "passed"
    if conclusion.tampered or conclusion.status == "leak":
        status = "failed"
    return judged_case("data", "data", status, text, file)


def gate_report(
    command: str, answer: str, cases: Sequence[Case], warnings: Iterable[str]
) -> CiReport:
    """Return the cases of a command, with the rules of their annotations."""
    codes = {annotation.code for case in cases for annotation in case.annotations}
    rules = {code: rule for code, rule in _RULES.items() if code in codes}
    return CiReport(command, answer, tuple(cases), rules, tuple(warnings))
