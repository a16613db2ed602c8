"""Audit of the data on a page: scope, measurements and findings of each check."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Final

from pact_eval.errors import counted
from pact_eval.evaluation.conclusions.data import AuditedCheck, AuditedCode, DataConclusion
from pact_reports.markup import Html, data_text, element, joined
from pact_reports.page.item_links import item_href

ANCHOR: Final = "data-audit"
"""The id of the section; the script opens what is folded in it when a link leads there."""

_LOOKS: Final = {"error": "critical", "warning": "warning", "note": "info"}


def data_audit_html(conclusion: DataConclusion, items: Collection[str] = ()) -> Html:
    """Write the findings of an audit: a line that counts them, and a folded table by check.

    Args:
        conclusion: what the audit found.
        items: ids of the items of the page; findings about them are links.
    """
    return element(
        "section",
        element("h3", "Audit of the data"),
        _audited(conclusion, items) if conclusion.checks else _not_audited(conclusion),
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


def _audited(conclusion: DataConclusion, items: Collection[str]) -> Html:
    notes = sum(check.count("note") for check in conclusion.checks)
    unchecked = conclusion.unchecked
    counts = (
        f"{counted(conclusion.records, 'record')}, {counted(conclusion.checked, 'check')}: "
        f"{counted(conclusion.errors, 'error')}, {counted(conclusion.warnings, 'warning')}, "
        f"{counted(notes, 'note')}."
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
        element("tbody", *(_row(check, items) for check in conclusion.checks)),
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


def _row(check: AuditedCheck, items: Collection[str]) -> Html:
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
        element("td", *(_code(code, items) for code in check.codes), class_="left wide"),
        element("td", data_text(scope), class_="left wide"),
        element("td", data_text(measured), class_="left wide"),
    )


def _code(code: AuditedCode, items: Collection[str]) -> Html:
    """Write the findings of a code: their number, and the places of the first ones."""
    places: list[Html | str] = []
    for place in code.places:
        text = data_text(str(replace(place, file=Path(place.file).name)))
        name = place.record_id
        linked = name is not None and name in items
        places += [element("a", text, href=item_href(str(name))) if linked else text, "; "]
    more = code.count - len(code.places)
    ending = f"and {more:,} more" if more and places else None
    listed = element("span", *(places if ending else places[:-1]), ending, class_="interval")
    return joined(
        [
            element("span", element("code", code.code), f": {code.count:,}", class_="finding"),
            listed if places else None,
        ]
    )


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
