"""Validated SARIF, parsed JUnit and workflow commands, as the systems that read them do."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from jsonschema import Draft4Validator, FormatChecker

SCHEMAS = Path(__file__).parent / "schemas"
_COMMAND = re.compile(r"::(error|warning|notice) ([^:]*)::(.*)")


@dataclass(frozen=True)
class Shown:
    """An annotation as a reader of a format sees it."""

    level: str
    code: str
    file: str
    line: int | None
    message: str


def validated_sarif(text: str) -> dict[str, Any]:
    """Returns the one run of a log that is valid by the schema of SARIF 2.1.0."""
    schema = json.loads((SCHEMAS / "sarif-2.1.0-rtm.5.json").read_text("utf-8"))
    log: dict[str, Any] = json.loads(text)
    Draft4Validator(schema, format_checker=FormatChecker()).validate(log)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(set(rules)) == len(rules)
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    return dict(run)


def sarif_annotations(text: str) -> list[Shown]:
    results = validated_sarif(text)["results"]
    return [_of_result(result) for result in results]


def _of_result(result: dict[str, Any]) -> Shown:
    (location,) = result["locations"]
    place = location["physicalLocation"]
    return Shown(
        result["level"],
        result["ruleId"],
        unquote(place["artifactLocation"]["uri"]),
        place.get("region", {}).get("startLine"),
        result["message"]["text"],
    )


def github_annotations(text: str) -> list[Shown]:
    """Parses workflow commands as the runner does: split, then undo the escapes."""
    annotations: list[Shown] = []
    lines = text.splitlines()
    if len(lines) == 1 and not lines[0].startswith("::"):
        return annotations  # the answer, if nothing is annotated
    for line in lines:
        match = _COMMAND.fullmatch(line)
        assert match is not None, line
        properties = dict(part.split("=", 1) for part in match[2].split(","))
        values = {name: _unescaped(value) for name, value in properties.items()}
        number = int(values["line"]) if "line" in values else None
        level = "note" if match[1] == "notice" else match[1]
        annotations.append(
            Shown(level, values["title"], values.get("file", ""), number, _unescaped(match[3]))
        )
    return annotations


def _unescaped(text: str) -> str:
    for escape, sign in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(escape, sign)
    return text


def junit_cases(text: str) -> dict[str, ET.Element]:
    """Returns the test cases by name, after a comparison of the counts with the cases."""
    suites = ET.fromstring(text)  # noqa: S314 # our own output
    (suite,) = suites
    cases = {str(case.get("name")): case for case in suite}
    assert len(cases) == len(suite)
    for counter, tag in (("failures", "failure"), ("skipped", "skipped"), ("errors", "error")):
        n = str(len(suite.findall(f"testcase/{tag}")))
        assert suite.get(counter) == n
        assert suites.get(counter) == (None if tag == "skipped" else n)
    assert suite.get("tests") == str(len(suite))
    return cases
