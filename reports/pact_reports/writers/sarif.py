"""SARIF 2.1.0: annotations as code scanners and editors read them."""

from __future__ import annotations

import os
from importlib import metadata
from typing import Final
from urllib.parse import quote

from pact_eval._json import Json
from pact_eval.plain_text import one_line
from pact_reports.ci.places import repository_path
from pact_reports.ci.report import Annotation, CiReport, Rule

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
                "rules": [_rule(code, rule) for code, rule in report.rules.items()],
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


def _rule(code: str, rule: Rule) -> Json:
    return {
        "id": code,
        "shortDescription": {"text": rule.meaning},
        "defaultConfiguration": {"level": rule.severity},
    }


def _result(annotation: Annotation, codes: list[str]) -> Json:
    location: dict[str, Json] = {"artifactLocation": _artifact(annotation)}
    if annotation.line is not None:
        location["region"] = {"startLine": annotation.line}
    return {
        "ruleId": annotation.code,
        "ruleIndex": codes.index(annotation.code),
        "level": annotation.severity,
        "message": {"text": one_line(annotation.message)},
        "locations": [{"physicalLocation": location}],
    }


def _artifact(annotation: Annotation) -> Json:
    path = repository_path(annotation.file)
    # As bytes: a name that is not valid Unicode has a URI too.
    uri = quote(os.fsencode(path.as_posix()))
    if path.is_absolute():
        return {"uri": f"file://{uri if uri.startswith('/') else f'/{uri}'}"}
    return {"uri": uri, "uriBaseId": _ROOT}
