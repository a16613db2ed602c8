"""Diagnostics as a matrix: types by runs, with a number in each cell that leads to its items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pact_eval.evaluation import diagnostics as d
from pact_eval.evaluation.alignment import ItemMismatch
from pact_eval.evaluation.conclusions.conclusion import Severity
from pact_eval.evaluation.conclusions.order import OrderConclusion
from pact_eval.evaluation.registry import metric_spec
from pact_eval.preregistration.diagnostics import RegistrationProblem, WeakVerdict
from pact_reports.arm_names import ArmNames
from pact_reports.markup import Html, data_text, element, joined
from pact_reports.numbers import value_text
from pact_reports.page.diagnostics import EXPLANATIONS, anchor, by_type, counts_text
from pact_reports.tables.order_audit import slot_name

_MOST_IN_A_CELL: Final = 2

FEW_RUNS: Final = 3
"""Of more runs, the matrix takes the full width, and a count is written without its total."""


def _share(value: float) -> str:
    return f"{value_text(value, 'percent')}%"


def _lead(diagnostic: d.LeadDiagnostic) -> str:
    return value_text(diagnostic.conclusion.claims[0].difference.value, "points")


def _followed(conclusion: OrderConclusion) -> str:
    """Write the letter or position that is followed, and by how many points."""
    slot = conclusion.followed[0]
    return f"{slot_name(slot)} {value_text(slot.preference.value, 'points')}"


def _changing(conclusion: OrderConclusion) -> _CountOf:
    return _CountOf(len(conclusion.items), conclusion.flip_rate.n)


def _change(diagnostic: d.CalibrationNotBetter) -> str:
    group = "" if diagnostic.group == "all" else f"{diagnostic.group} "
    return f"{group}{metric_spec(diagnostic.score).title} {diagnostic.difference.value:+.3f}"


def _values(diagnostic: d.DifferentValues) -> str:
    return f"{diagnostic.name}: {len(diagnostic.values):,}" if diagnostic.values else "resumed"


@dataclass(frozen=True, slots=True)
class _CountOf:
    """A count and its total; a narrow column has the count alone."""

    count: int
    total: int

    def __str__(self) -> str:
        return f"{self.count:,} of {self.total:,}"


NUMBERS: Final[Mapping[type[d.Diagnostic], Callable[[Any], str | _CountOf]]] = {
    d.Leak: lambda diagnostic: f"{len(diagnostic.leak.items):,} items",
    d.DifferentItems: lambda diagnostic: _differing(diagnostic.mismatch),
    d.RunsNotAlike: lambda _: "2 runs",
    d.OneRunTwice: lambda diagnostic: (
        f"seeds {diagnostic.same.seeds[0]}, {diagnostic.same.seeds[1]}"
    ),
    d.DifferentData: lambda diagnostic: f"{diagnostic.sha256[:8]}…",
    RegistrationProblem: lambda diagnostic: str(diagnostic.registration.status),
    d.ContractMismatch: lambda _: "differs",
    d.ContractStated: lambda _: "stated",
    d.LowAnswerMass: lambda diagnostic: _share(diagnostic.mass.value),
    d.ConfidentErrors: lambda diagnostic: _CountOf(diagnostic.wrong, diagnostic.confident),
    d.NearChance: lambda diagnostic: f"{diagnostic.group} {_share(diagnostic.accuracy.value)}",
    d.FollowsOrder: lambda diagnostic: _followed(diagnostic.conclusion),
    d.Unstable: lambda diagnostic: _changing(diagnostic.conclusion),
    d.Miscalibrated: lambda diagnostic: diagnostic.conclusion.status,
    d.SameAnswer: lambda diagnostic: _CountOf(diagnostic.same, diagnostic.pairs),
    WeakVerdict: lambda diagnostic: str(diagnostic.result.hypothesis.id),
    d.MethodIsWorse: _lead,
    d.CalibrationNotBetter: _change,
    d.CalibratorMisuse: lambda _: "1 note",
    d.DifferenceNotShown: _lead,
    d.OneSeed: lambda diagnostic: f"seed {diagnostic.seed}",
    d.FewFamilies: lambda diagnostic: f"{diagnostic.accuracy.clusters:,}",
    d.OrderUnknown: lambda _: "unknown",
    d.ReportNote: lambda _: "1 note",
    d.DifferentSettings: _values,
    d.MissingProvenance: lambda diagnostic: f"{len(diagnostic.missing):,} missing",
    d.DifferentVersions: _values,
}
"""The number of a cell, by type of diagnostic: the one that raised it."""


def matrix_html(
    diagnostics: Sequence[d.Diagnostic], labels: Sequence[str], names: ArmNames
) -> Html:
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
            element("th", _head(severity, type_), scope="row", class_="left"),
            *(element("td", _cell(group, label, labels)) for label in columns),
        )
        for severity, type_, group in by_type(diagnostics)
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


def _head(severity: Severity, type_: type[d.Diagnostic]) -> Html:
    return joined(
        [
            element("span", severity.capitalize(), class_=f"severity {severity}"),
            " ",
            element("a", EXPLANATIONS[type_].title, href=f"#{anchor(severity, type_)}"),
        ]
    )


def _cell(group: Sequence[d.Diagnostic], label: str | None, labels: Sequence[str]) -> Html | None:
    """Write the numbers of a type for a run; None stands for all diagnostics of no single run."""
    in_cell = [
        diagnostic
        for diagnostic in group
        if diagnostic.run == label or (label is None and diagnostic.run not in labels)
    ]
    if not in_cell:
        return None
    sentences = f"#{anchor(in_cell[0].severity, type(in_cell[0]))}"
    links: dict[str, str] = {}
    for diagnostic in in_cell:
        items = EXPLANATIONS[type(diagnostic)].items
        number = _number(diagnostic, narrow=len(labels) > FEW_RUNS)
        links[number] = sentences
        if items is not None and label is not None:
            links[number] = items(diagnostic, labels.index(label))
    if len(links) > _MOST_IN_A_CELL:
        return element("a", f"{len(in_cell):,}", href=sentences)
    parts = (element("a", data_text(number), href=href) for number, href in links.items())
    return joined(part for link in parts for part in (link, element("br")))


def _number(diagnostic: d.Diagnostic, *, narrow: bool) -> str:
    number = NUMBERS[type(diagnostic)](diagnostic)
    return f"{number.count:,}" if narrow and isinstance(number, _CountOf) else str(number)


def _differing(mismatch: ItemMismatch) -> str:
    if mismatch.column:
        return f"{len(mismatch.differing):,} items"
    return f"{len(mismatch.only_first) + len(mismatch.only_other):,} items"
