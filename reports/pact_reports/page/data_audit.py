"""Audit of the data on a page: scope, measurements and findings of each check."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from pact_eval.evaluation.conclusions.data import AuditedCheck, AuditedCode, DataConclusion
from pact_reports.markup import Html, data_text, element, joined

ANCHOR: Final = "data-audit"
"""The id of the section; the script opens what is folded in it when a link leads there."""

_LOOKS: Final = {"error": "critical", "warning": "warning", "note": "info"}


def data_audit_html(conclusion: DataConclusion) -> Html:
    """Write the findings of an audit: a line that counts them, and a folded table by check."""
    return element(
        "section",
        element("h3", "Audit of the data"),
        _audited(conclusion) if conclusion.checks else _not_audited(conclusion),
        id=ANCHOR,
    )


def _not_audited(conclusion: DataConclusion) -> Html:
    return element(
        "p",
        "The data were not audited: ",
        data_text("; ".join(check.reason for check in conclusion.unchecked)),
        ". ",
        element("code", "pact-audit data FOLDER --json > audit.json"),
        " writes one.",
    )


def _audited(conclusion: DataConclusion) -> Html:
    notes = sum(check.count("note") for check in conclusion.checks)
    unchecked = conclusion.unchecked
    counts = (
        f"{conclusion.records:,} records, {len(conclusion.checks) - len(unchecked)} checks: "
        f"{_counted(conclusion.errors, 'error')}, {_counted(conclusion.warnings, 'warning')}, "
        f"{_counted(notes, 'note')}."
    )
    if unchecked:
        counts += f" Not checked: {', '.join(check.name for check in unchecked)}."
    heads = (
        element("th", head, scope="col", class_="left")
        for head in ("Check", "Result", "Findings", "Looked at", "Measured")
    )
    table = element(
        "table",
        element("thead", element("tr", *heads)),
        element("tbody", *map(_row, conclusion.checks)),
        aria_label="Findings of the audit by check",
    )
    fold = element(
        "details",
        element("summary", "Findings by check"),
        element("div", table, class_="scroll audited", tabindex="0", role="region",
                aria_label="Findings of the audit by check"),
        element("p", "docs/audit.md explains the codes; ", element("code", "pact-audit data"),
                " shows every finding with its text.", class_="hint"),
    )  # fmt: skip
    return joined([element("p", counts), fold])


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _row(check: AuditedCheck) -> Html:
    """Write a check: its name, its worst severity, findings by code, scope and numbers."""
    worst = check.codes[0].severity if check.codes else None
    result = element("span", "no findings", class_="good")
    if check.skipped is not None and worst in (None, "note"):
        result = element("span", "not checked", class_="severity info")
    elif worst is not None:
        result = element("span", f"{worst}s", class_=f"severity {_LOOKS[worst]}")
    scope = ": ".join(text for text in (check.skipped, check.scope) if text)
    measured = ", ".join(
        f"{name.replace('_', ' ')} {_number(value)}" for name, value in check.measured.items()
    )
    return element(
        "tr",
        element("th", check.check, scope="row", class_="left"),
        element("td", result, class_="left"),
        element("td", *map(_code, check.codes), class_="left wide"),
        element("td", data_text(scope), class_="left wide"),
        element("td", data_text(measured), class_="left wide"),
    )


def _code(code: AuditedCode) -> Html:
    """Write the findings of a code: their number, and the places of the first ones."""
    named = (replace(place, file=Path(place.file).name) for place in code.places)
    places = "; ".join(map(str, named))
    more = code.count - len(code.places)
    if places and more:
        places += f"; and {more:,} more"
    return joined(
        [
            element("span", element("code", code.code), f": {code.count:,}", class_="finding"),
            element("span", data_text(places), class_="interval") if places else None,
        ]
    )


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
