"""Diagnostics of a page, in a matrix and in sentences, and the audit of the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pact_eval.errors import counted
from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.conclusions.conclusion import SEVERITIES, Severity
from pact_eval.evaluation.conclusions.data import AuditedCheck, AuditedCode, DataConclusion
from pact_eval.evaluation.diagnostics import CATALOGUE, Diagnostic
from pact_reports.page.html import data_text
from pact_reports.page.item_links import DATA_AUDIT, item_href, items_href

# A severity after the number one, and after any other number.
_COUNTED: Final[Mapping[Severity, tuple[str, str]]] = {
    "critical": ("critical", "critical"),
    "warning": ("warning", "warnings"),
    "info": ("informational", "informational"),
}
_MOST_IN_A_CELL: Final = 2

FEW_RUNS: Final = 3
"""Of more runs, a count in the matrix is written without its total."""


def diagnostics_by_run(
    diagnostics: Sequence[Diagnostic], labels: Sequence[str], names: ArmNames
) -> dict[str, Any]:
    """Return diagnostics as templates write them: types by runs, and sentences by type.

    Args:
        diagnostics: the diagnostics, in any order.
        labels: labels of the runs, in the order of the item browser.
        names: display names of arms.
    """
    shared = any(diagnostic.run not in labels for diagnostic in diagnostics)
    columns: list[str | None] = [*([None] if shared else []), *labels]
    kinds = [
        {
            "name": kind,
            "severity": severity,
            "anchor": f"diagnostic-{severity}-{kind}",
            "title": CATALOGUE[kind].title,
            "why": CATALOGUE[kind].why,
            "cells": [_cell(group, label, labels) for label in columns],
            "lines": [
                (
                    None if diagnostic.run is None else names.run(diagnostic.run),
                    diagnostic.text,
                    items_link(diagnostic, labels),
                )
                for diagnostic in group
            ],
        }
        for severity, kind, group in _by_kind(diagnostics)
    ]
    return {
        "columns": [None if label is None else names.run(label) for label in columns],
        "kinds": kinds,
        "counts": counts_text(diagnostics),
    }


def _by_kind(
    diagnostics: Sequence[Diagnostic],
) -> Iterator[tuple[Severity, str, list[Diagnostic]]]:
    """Group diagnostics, the most severe first and diagnostics of the same kind together."""
    for severity in SEVERITIES:
        for kind in CATALOGUE:
            group = [each for each in diagnostics if (each.severity, each.kind) == (severity, kind)]
            if group:
                yield severity, kind, group


def items_link(diagnostic: Diagnostic, labels: Sequence[str]) -> str | None:
    """Return the link that lists the items of a diagnostic; None if it is not about some items.

    Args:
        diagnostic: the finding.
        labels: labels of the runs, in the order of the item browser.
    """
    if not diagnostic.items or diagnostic.run not in labels:
        return None
    # The link has the number of the run, since labels may have characters shown as escapes.
    return items_href(labels.index(diagnostic.run), **diagnostic.items)


def counts_text(diagnostics: Sequence[Diagnostic]) -> str:
    """Count diagnostics by severity, in a sentence.

    Example:
        >>> seeds = [Diagnostic("one-seed", "warning", None, "", "")] * 2
        >>> counts_text([*seeds, Diagnostic("few-families", "info", "base", "", "")])
        '3 diagnostics: 2 warnings, 1 informational.'
    """
    counts = Counter(diagnostic.severity for diagnostic in diagnostics)
    words = [
        f"{counts[severity]:,} {one if counts[severity] == 1 else several}"
        for severity, (one, several) in _COUNTED.items()
        if counts[severity]
    ]
    return f"{counted(len(diagnostics), 'diagnostic')}: {', '.join(words)}."


def _cell(
    group: Sequence[Diagnostic], label: str | None, labels: Sequence[str]
) -> list[tuple[str, str]]:
    """Return the numbers of a type for a run; None stands for all diagnostics of no single run."""
    in_cell = [
        diagnostic
        for diagnostic in group
        if diagnostic.run == label or (label is None and diagnostic.run not in labels)
    ]
    sentences = f"#diagnostic-{group[0].severity}-{group[0].kind}"
    links: dict[str, str] = {}
    for diagnostic in in_cell:
        narrow = len(labels) > FEW_RUNS
        number = diagnostic.short.partition(" of ")[0] if narrow else diagnostic.short
        links[data_text(number)] = items_link(diagnostic, labels) or sentences
    if len(links) > _MOST_IN_A_CELL:
        return [(f"{len(in_cell):,}", sentences)]
    return [*links.items()]


_LOOKS: Final = {"error": "critical", "warning": "warning", "note": "info"}


def audit_findings(conclusion: DataConclusion, items: Collection[str]) -> dict[str, Any]:
    """Return the findings of an audit as a template writes them.

    Args:
        conclusion: what the audit found.
        items: ids of the items of the page; findings about them are links.
    """
    notes = sum(check.count("note") for check in conclusion.checks)
    counts = (
        f"{counted(conclusion.records, 'record')}, {counted(conclusion.checked, 'check')}: "
        f"{counted(conclusion.errors, 'error')}, {counted(conclusion.warnings, 'warning')}, "
        f"{counted(notes, 'note')}."
    )
    if conclusion.unchecked:
        counts += f" Not checked: {', '.join(check.name for check in conclusion.unchecked)}."
    return {
        "id": DATA_AUDIT,
        "why": "; ".join(check.reason for check in conclusion.unchecked),
        "counts": counts,
        "checks": [_check(check, items) for check in conclusion.checks],
    }


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
