"""Diagnostics on a page: in words, each kind with its title and why it matters."""

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
