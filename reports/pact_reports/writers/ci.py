"""What continuous integration reads: GitHub annotations, JUnit XML and SARIF."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final
from urllib.parse import quote
from xml.etree import ElementTree as ET

from pact_eval._choices import Severity
from pact_eval._json import Json
from pact_eval.errors import PactError, RecordError
from pact_eval.plain_text import one_line
from pact_reports.cases import Annotation, CaseStatus, CiReport
from pact_reports.writers.markdown import markdown_text

_WORKSPACE = "GITHUB_WORKSPACE"


def repository_path(path: Path) -> Path:
    """Return a path relative to the repository that is checked.

    The repository is the folder of the variable `GITHUB_WORKSPACE`; without it, the working folder.

    Args:
        path: of a file, absolute or relative to the working folder.

    Returns:
        The relative path; the absolute path of a file outside the repository.

    Examples:
        >>> repository_path(Path("data") / ".." / "data" / "eval.jsonl").as_posix()
        'data/eval.jsonl'
    """
    workspace = os.environ.get(_WORKSPACE)
    # Not resolved: a link in a repository is annotated itself.
    absolute, *roots = (
        Path(os.path.normpath(Path.cwd() / each)) for each in (path, Path(workspace or ""), Path())
    )
    root = next((root for root in roots if absolute.is_relative_to(root)), None)
    return absolute if root is None else absolute.relative_to(root)


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
        >>> from pact_reports.cases import Case
        >>> place = Annotation("shared-id", "error", "100% the same", Path("a,b.jsonl"), 7)
        >>> print(*to_github(CiReport("", "", (Case("", "failed", "", (place,)),), {})))
        ::error file=a%2Cb.jsonl,line=7,title=shared-id::100%25 the same
        >>> to_github(CiReport("pact-audit data", "All 7 checks passed.", (), {}))
        ['pact-audit data: All 7 checks passed.']
    """
    severities = [*_COMMANDS]
    worst_first = sorted(report.annotations, key=lambda each: severities.index(each.severity))
    return [*map(_command, worst_first)] or [one_line(f"{report.command}: {report.answer}")]


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
    statuses = {case.status for case in report.cases}
    worst_first: tuple[CaseStatus, ...] = ("failed", "cannot tell", "passed", "skipped")
    worst: CaseStatus = next((one for one in worst_first if one in statuses), "skipped")
    lines = [f"### {_SIGNS[worst]} {markdown_text(report.command)}", ""]
    lines += [f"{markdown_text(report.answer)}", ""]
    for warning in report.warnings:
        lines += [f"> {markdown_text(warning)}", ""]
    lines += ["| check | result | scope |", "| :--- | :--- | :--- |"]
    rows = [(case.name, f"{_SIGNS[case.status]} {case.status}", case.text) for case in report.cases]
    lines += [*map(_row, rows)]
    annotations = [*report.annotations]
    if annotations:
        lines += ["", "| place | severity | code | finding |", "| :--- | :--- | :--- | :--- |"]
        listed = annotations[:_MOST_LISTED]
        lines += [_row((_place(one), one.severity, one.code, one.message)) for one in listed]
    left = len(annotations[_MOST_LISTED:]) + sum(sum(case.more.values()) for case in report.cases)
    if left:
        lines += ["", f"... and {left:,} more."]
    return "\n".join([*lines, "", ""])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(markdown_text, cells))} |"


def _place(annotation: Annotation) -> str:
    path = repository_path(annotation.file).as_posix()
    return path if annotation.line is None else f"{path}:{annotation.line}"


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


def to_junit(report: CiReport) -> str:
    """Return the XML of one suite.

    A case that failed or cannot tell is a failure; one that did not run is skipped. Findings that
    fail nothing are in `system-out`.

    Examples:
        >>> from pact_reports.cases import Case
        >>> case = Case("families", "skipped", "no pairs")
        >>> print(to_junit(CiReport("pact-audit data", "", (case,), {})))  # doctest: +ELLIPSIS
        <?xml version='1.0' encoding='us-ascii'?>
        <testsuites ...><testcase classname="pact-audit.data" name="families"><skipped ...
    """
    counts = {
        "name": report.command,
        "tests": str(len(report.cases)),
        "failures": str(report.count("failed", "cannot tell")),
        "errors": "0",
    }
    suites = ET.Element("testsuites", counts)  # its schema knows no `skipped`
    suite = ET.SubElement(suites, "testsuite", counts, skipped=str(report.count("skipped")))
    class_name = report.command.replace(" ", ".")
    for case in report.cases:
        element = ET.SubElement(suite, "testcase", classname=class_name, name=one_line(case.name))
        lines = [_line(annotation) for annotation in case.annotations]
        lines += [f"... and {n:,} more of {code}" for code, n in case.more.items()]
        text = one_line(case.text)
        if case.status in ("failed", "cannot tell"):
            failure = ET.SubElement(element, "failure", type=case.status, message=text)
            failure.text = "\n".join(lines or [text])
            continue
        if case.status == "skipped":
            ET.SubElement(element, "skipped", message=text)
        if lines:
            ET.SubElement(element, "system-out").text = "\n".join(lines)
    # As ASCII: the text is the same in any encoding of the terminal.
    xml: bytes = ET.tostring(suites, encoding="us-ascii", xml_declaration=True)
    return xml.decode("ascii")


def _line(annotation: Annotation) -> str:
    where = one_line(_place(annotation))
    return f"{where}: {annotation.severity} {annotation.code}: {one_line(annotation.message)}"


_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_HOME: Final = "https://github.com/pact-eval/pact-eval"
_ROOT: Final = "%SRCROOT%"


def to_sarif(report: CiReport) -> dict[str, Json]:
    """Return a SARIF log with one run: a rule per code, and a result per annotation.

    Paths are relative to the repository (`%SRCROOT%`); those of files outside it are file URIs.

    Examples:
        >>> log = to_sarif(CiReport("pact-audit data", "Sound.", (), {}))
        >>> log["version"], log["runs"][0]["results"]
        ('2.1.0', [])
    """
    codes = [*report.rules]
    run: dict[str, Json] = {
        "tool": {
            "driver": {
                "name": report.command.split(" ")[0],
                "version": metadata.version("pact-eval"),
                "informationUri": _HOME,
                "rules": [
                    {
                        "id": code,
                        "shortDescription": {"text": rule.meaning},
                        "defaultConfiguration": {"level": rule.severity},
                    }
                    for code, rule in report.rules.items()
                ],
            }
        },
        "automationDetails": {"id": f"{report.command}/"},
        "columnKind": "unicodeCodePoints",
        "results": [_result(annotation, codes) for annotation in report.annotations],
        "properties": {
            "answer": one_line(report.answer),
            "cases": [
                {"name": one_line(case.name), "status": case.status, "text": one_line(case.text)}
                for case in report.cases
            ],
        },
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(annotation: Annotation, codes: list[str]) -> Json:
    path = repository_path(annotation.file)
    # As bytes: a name that is not valid Unicode has a URI too.
    uri = quote(os.fsencode(path.as_posix()))
    artifact: Json = {"uri": uri, "uriBaseId": _ROOT}
    if path.is_absolute():
        artifact = {"uri": f"file://{'' if uri.startswith('/') else '/'}{uri}"}
    location: dict[str, Json] = {"artifactLocation": artifact}
    if annotation.line is not None:
        location["region"] = {"startLine": annotation.line}
    return {
        "ruleId": annotation.code,
        "ruleIndex": codes.index(annotation.code),
        "level": annotation.severity,
        "message": {"text": one_line(annotation.message)},
        "locations": [{"physicalLocation": location}],
    }
