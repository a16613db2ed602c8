"""Diagnostics as a matrix: types by runs, with a number in each cell that leads to its items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.conclusions.conclusion import SEVERITIES, Severity
from pact_eval.evaluation.diagnostics import CATALOGUE, Diagnostic
from pact_reports.markup import Html, data_text, element, joined
from pact_reports.page.item_links import items_href

_OPEN_RUNS: Final = 4
# A severity after the number one, and after any other number.
_COUNTED: Final[Mapping[Severity, tuple[str, str]]] = {
    "critical": ("critical", "critical"),
    "warning": ("warning", "warnings"),
    "info": ("informational", "informational"),
}


def anchor(severity: Severity, kind: str) -> str:
    """Return the id of the sentences of a kind of diagnostic.

    Examples:
        >>> anchor("warning", "unstable")
        'diagnostic-warning-unstable'
    """
    return f"diagnostic-{severity}-{kind}"


def by_kind(
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


def diagnostics_html(
    diagnostics: Sequence[Diagnostic], labels: Sequence[str], names: ArmNames
) -> Html | None:
    """Write diagnostics in sentences, the most severe first.

    Args:
        diagnostics: the diagnostics, in any order.
        labels: labels of the runs, in the order of the item browser.
        names: display names of arms.
    """
    if not diagnostics:
        return None
    items = [_kind_html(*group, labels, names) for group in by_kind(diagnostics)]
    return element(
        "section",
        element("h3", "Diagnostics in words"),
        element("ul", *items, class_="diagnostics"),
        id="diagnostics-in-words",
    )


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
    n = len(diagnostics)
    return f"{n:,} {'diagnostic' if n == 1 else 'diagnostics'}: {', '.join(words)}."


def _kind_html(
    severity: Severity,
    kind: str,
    diagnostics: Sequence[Diagnostic],
    labels: Sequence[str],
    names: ArmNames,
) -> Html:
    lines = [_line(diagnostic, labels, names) for diagnostic in diagnostics]
    more = None
    if len(lines) > _OPEN_RUNS:
        rest = lines[_OPEN_RUNS:]
        more = element("details", element("summary", f"{len(rest):,} more"), element("ul", *rest))
    return element(
        "li",
        element("span", severity.capitalize(), class_=f"severity {severity}"),
        " ",
        element("strong", CATALOGUE[kind].title),
        element("p", CATALOGUE[kind].why, class_="why"),
        element("ul", *lines[:_OPEN_RUNS]),
        more,
        class_=severity,
        data_diagnostic=kind,
        id=anchor(severity, kind),
    )


def _line(diagnostic: Diagnostic, labels: Sequence[str], names: ArmNames) -> Html:
    about = None if diagnostic.run is None else joined([data_text(names.run(diagnostic.run)), ": "])
    href = items_link(diagnostic, labels)
    link = None if href is None else joined([" ", element("a", "show them", href=href)])
    return element("li", about, data_text(diagnostic.text), link)


_MOST_IN_A_CELL: Final = 2

FEW_RUNS: Final = 3
"""Of more runs, the matrix takes the full width, and a count is written without its total."""


def matrix_html(diagnostics: Sequence[Diagnostic], labels: Sequence[str], names: ArmNames) -> Html:
    """Write diagnostics as a table with a row per type and a column per run.

    Args:
        diagnostics: the diagnostics, in any order.
        labels: labels of the runs, in the order of the item browser.
        names: display names of arms.
    """
    heading = element("h3", "Diagnostics")
    if not diagnostics:
        none = element("p", "No diagnostic was raised; docs/page.md lists what is checked.")
        return element("section", heading, none, id="diagnostics")
    shared = any(diagnostic.run not in labels for diagnostic in diagnostics)
    columns: list[str | None] = [*([None] if shared else []), *labels]
    heads = [
        element("th", "All runs" if label is None else data_text(names.run(label)), scope="col")
        for label in columns
    ]
    rows = [
        element(
            "tr",
            element("th", _head(severity, kind), scope="row", class_="left"),
            *(element("td", _cell(group, label, labels)) for label in columns),
        )
        for severity, kind, group in by_kind(diagnostics)
    ]
    first = element("th", "Diagnostic", scope="col", class_="left")
    table = element(
        "table", element("thead", element("tr", first, *heads)), element("tbody", *rows)
    )
    hint = f"{counts_text(diagnostics)} A number leads to its items, or to its sentence."
    return element(
        "section",
        heading,
        element(
            "div",
            table,
            class_="scroll matrix",
            tabindex="0",
            role="region",
            aria_label="Diagnostics by run",
        ),
        element("p", hint, class_="hint"),
        id="diagnostics",
    )


def _head(severity: Severity, kind: str) -> Html:
    return joined(
        [
            element("span", severity.capitalize(), class_=f"severity {severity}"),
            " ",
            element("a", CATALOGUE[kind].title, href=f"#{anchor(severity, kind)}"),
        ]
    )


def _cell(group: Sequence[Diagnostic], label: str | None, labels: Sequence[str]) -> Html | None:
    """Write the numbers of a type for a run; None stands for all diagnostics of no single run."""
    in_cell = [
        diagnostic
        for diagnostic in group
        if diagnostic.run == label or (label is None and diagnostic.run not in labels)
    ]
    if not in_cell:
        return None
    sentences = f"#{anchor(in_cell[0].severity, in_cell[0].kind)}"
    links: dict[str, str] = {}
    for diagnostic in in_cell:
        number = _number(diagnostic, narrow=len(labels) > FEW_RUNS)
        links[number] = items_link(diagnostic, labels) or sentences
    if len(links) > _MOST_IN_A_CELL:
        return element("a", f"{len(in_cell):,}", href=sentences)
    parts = (element("a", data_text(number), href=href) for number, href in links.items())
    return joined(part for link in parts for part in (link, element("br")))


def _number(diagnostic: Diagnostic, *, narrow: bool) -> str:
    """Write the number of a cell; a narrow one has a count without its total."""
    return diagnostic.short.partition(" of ")[0] if narrow else diagnostic.short
