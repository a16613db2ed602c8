"""Workflow commands and the step summary of GitHub Actions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pact_eval._choices import Severity
from pact_eval.errors import PactError, RecordError
from pact_eval.plain_text import one_line
from pact_reports.ci.places import repository_path
from pact_reports.ci.report import Annotation, Case, CaseStatus, CiReport
from pact_reports.writers.markdown import markdown_text

_COMMANDS: Final[Mapping[Severity, str]] = {
    "error": "error",
    "warning": "warning",
    "note": "notice",
}
_SIGNS: Final[Mapping[CaseStatus, str]] = {
    "passed": "✅",
    "failed": "❌",
    "cannot tell": "❔",
    "skipped": "➖",
}
_MOST_LISTED: Final = 50


def to_github(report: CiReport) -> list[str]:
    """Return one workflow command per annotation, the worst severity first.

    Without an annotation, there is one line with the answer, which is not a command.

    Examples:
        >>> from pathlib import Path
        >>> place = Annotation("shared-id", "error", "100% the same", Path("a,b.jsonl"), 7)
        >>> print(*to_github(CiReport("", "", (Case("", "failed", "", (place,)),), {})))
        ::error file=a%2Cb.jsonl,line=7,title=shared-id::100%25 the same
        >>> to_github(CiReport("pact-audit data", "All 7 checks passed.", (), {}))
        ['pact-audit data: All 7 checks passed.']
    """
    severities = [*_COMMANDS]
    annotations = sorted(
        report.annotations, key=lambda annotation: severities.index(annotation.severity)
    )
    commands = [_command(annotation) for annotation in annotations]
    return commands or [one_line(f"{report.command}: {report.answer}")]


def error_commands(error: PactError) -> list[str]:
    """Return the workflow commands of an error: one for each of the first 50 problems of a file.

    Examples:
        >>> from pact_eval.errors import Problem
        >>> print(*error_commands(RecordError("a.jsonl", [Problem(2, None, "expected JSON")])))
        ::error file=a.jsonl,line=2,title=RecordError::expected JSON
        >>> print(*error_commands(PactError("no such folder")))
        ::error title=PactError::no such folder
    """
    kind = type(error).__name__
    if not isinstance(error, RecordError):
        return [f"::error title={kind}::{_data(one_line(str(error)))}"]
    path = Path(error.source)
    commands = []
    for problem in error.problems[:_MOST_LISTED]:
        of_record = "" if problem.record_id is None else f"{problem.record_id}: "
        message = f"{of_record}{problem.message}"
        commands.append(_command(Annotation(kind, "error", message, path, problem.line)))
    return commands


def to_step_summary(report: CiReport) -> str:
    """Return Markdown: the answer, the cases, and the first 50 annotations with their places."""
    lines = [f"### {_SIGNS[_worst(report)]} {markdown_text(report.command)}", ""]
    lines += [f"{markdown_text(report.answer)}", ""]
    for warning in report.warnings:
        lines += [f"> {markdown_text(warning)}", ""]
    lines += ["| check | result | scope |", "| :--- | :--- | :--- |"]
    lines += [_case_row(case) for case in report.cases]
    annotations = [*report.annotations]
    if annotations:
        lines += ["", "| place | severity | code | finding |", "| :--- | :--- | :--- | :--- |"]
        lines += [_annotation_row(annotation) for annotation in annotations[:_MOST_LISTED]]
    left = len(annotations[_MOST_LISTED:]) + sum(sum(case.more.values()) for case in report.cases)
    if left:
        lines += ["", f"... and {left:,} more."]
    return "\n".join([*lines, "", ""])


def _worst(report: CiReport) -> CaseStatus:
    statuses = {case.status for case in report.cases}
    worst_first: tuple[CaseStatus, ...] = ("failed", "cannot tell", "passed", "skipped")
    return next((status for status in worst_first if status in statuses), "skipped")


def _command(annotation: Annotation) -> str:
    properties = {"file": one_line(repository_path(annotation.file).as_posix())}
    if annotation.line is not None:
        properties["line"] = str(annotation.line)
    properties["title"] = annotation.code
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_COMMANDS[annotation.severity]} {listed}::{_data(one_line(annotation.message))}"


def _data(text: str) -> str:
    """Escape what ends a command or an escape."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape what ends a property as well."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _case_row(case: Case) -> str:
    cells = (case.name, f"{_SIGNS[case.status]} {case.status}", case.text)
    return f"| {' | '.join(map(markdown_text, cells))} |"


def _annotation_row(annotation: Annotation) -> str:
    path = repository_path(annotation.file).as_posix()
    place = path if annotation.line is None else f"{path}:{annotation.line}"
    cells = (place, annotation.severity, annotation.code, annotation.message)
    return f"| {' | '.join(map(markdown_text, cells))} |"
