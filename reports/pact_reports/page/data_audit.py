"""The audit of the data, check by check, as a template writes it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pact_eval.evaluation.conclusions.data import AuditedCheck, AuditedCode, DataConclusion
from pact_reports.page.item_links import item_href

_LOOKS: Final = {"error": "critical", "warning": "warning", "note": "info"}


def audited_checks(conclusion: DataConclusion, items: Collection[str]) -> list[dict[str, Any]]:
    """Return the findings of an audit, check by check.

    Args:
        conclusion: what the audit found.
        items: ids of the items of the page; findings about them are links.
    """
    return [_check(check, items) for check in conclusion.checks]


def _check(check: AuditedCheck, items: Collection[str]) -> dict[str, Any]:
    """Return a check: its name, its worst severity, findings by code, scope and numbers."""
    worst = check.codes[0].severity if check.codes else None
    look, result = "good", "no findings"
    if check.skipped is not None and worst in (None, "note"):
        look, result = "severity info", "not checked"
    elif worst is not None:
        look, result = f"severity {_LOOKS[worst]}", f"{worst}s"
    return {
        "name": check.check,
        "look": look,
        "result": result,
        "codes": [_code(code, items) for code in check.codes],
        "scope": ": ".join(text for text in (check.skipped, check.scope) if text),
        "measured": ", ".join(
            f"{name.replace('_', ' ')} {f'{value:,}' if isinstance(value, int) else f'{value:.3g}'}"
            for name, value in check.measured.items()
        ),
    }


def _code(code: AuditedCode, items: Collection[str]) -> dict[str, Any]:
    """Return the findings of a code: their number, and the places of the first ones."""
    return {
        "name": code.code,
        "count": code.count,
        "more": code.count - len(code.places),
        "places": [
            (
                str(replace(place, file=Path(place.file).name)),
                item_href(name)
                if (name := place.record_id) is not None and name in items
                else None,
            )
            for place in code.places
        ],
    }
