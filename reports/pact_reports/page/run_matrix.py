"""Runs by questions: a row per run, a column per question, for a page of three runs or more.

The differences from every reference are in the page. A click on a run shows those from it, so the
script computes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.conclusions.better import BetterConclusion, Claim
from pact_eval.evaluation.conclusions.conclusion import Conclusion
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.experiment_conclusions import RunConclusions
from pact_eval.evaluation.conclusions.order import OrderConclusion
from pact_eval.evaluation.conclusions.probabilities import ProbabilitiesConclusion
from pact_eval.evaluation.registry import MetricDecoding, metric_spec
from pact_eval.evaluation.report import COMPARED
from pact_eval.evaluation.run_comparisons import run_differences
from pact_eval.numbers import (
    UNDEFINED,
    Unit,
    estimate_parts,
    p_value_number,
    value_text,
    views_words,
)
from pact_eval.stats.estimate import Estimate
from pact_reports.markup import Child, Html, data_text, element, joined
from pact_reports.page.data_audit import ANCHOR as DATA_AUDIT
from pact_reports.page.forest import MARKS, Axis, difference_html, interval_mark, ticks_html
from pact_reports.page.item_blocks import compared_runs
from pact_reports.page.item_links import items_href
from pact_reports.page.request import PageRequest
from pact_reports.page.sections import copies_html, formats_of
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import decoding_words

_ENDS: Final = ("value", "low", "high")


def answer_table(conclusions: Sequence[BetterConclusion], names: ArmNames) -> Table:
    """Lay out the differences behind an answer: a row per arm, metric and decoding.

    Args:
        conclusions: on an arm and each of the others.
        names: display names of arms.
    """
    rows = [
        Row(
            (
                Cell(names.arm(conclusion.left), data=conclusion.left),
                Cell(names.arm(conclusion.right), data=conclusion.right),
                Cell(metric_spec(claim.metric).title),
                Cell(views_words(claim.k, claim.repeats)),
                _estimate_cell(claim.difference, "points"),
                _p_value_cell(claim.evidence.deciding),
                Cell(claim.status),
            )
        )
        for conclusion in conclusions
        for name in COMPARED
        for claim in conclusion.of(name)
    ]
    return Table(
        name="answer",
        title="Is it better?",
        caption=" ".join(str(conclusion.named(names).words) for conclusion in conclusions),
        columns=(
            *(Column(title, "left") for title in ("Arm", "Other arm", "Metric", "Views")),
            _estimate_column("Difference (points)", "difference"),
            Column("p", numbers=("p",)),
            Column("Status", "left"),
        ),
        rows=tuple(rows),
    )


def matrix_table(
    conclusions: Sequence[RunConclusions],
    differences: Sequence[Claim | None],
    reference: str,
    names: ArmNames,
) -> Table:
    """Lay out runs by questions, with the differences from one reference.

    Args:
        conclusions: on every run, in their order.
        differences: by run, its accuracy minus that of the reference.
        reference: label of the reference.
        names: display names of arms.
    """
    rows = [
        Row(
            (
                Cell(names.run(run.run), data=run.run),
                _estimate_cell(run.accuracy, "percent"),
                *_difference_cells(difference),
                Cell(run.data.status.capitalize()),
                Cell(run.order.words.finding),
                _estimate_cell(run.order.flip_rate, "percent"),
                Cell(run.probabilities.words.finding),
                Cell(
                    value_text(run.probabilities.ece.value, "percent"),
                    (run.probabilities.ece.value,),
                ),
            )
        )
        for run, difference in zip(conclusions, differences, strict=True)
    ]
    return Table(
        name="runs-by-questions",
        title="Runs by questions",
        caption=f"Differences are points of accuracy, run minus {names.run(reference)}.",
        columns=(
            Column("Run", "left"),
            _estimate_column("Accuracy %", "accuracy"),
            _estimate_column("Difference", "difference"),
            Column("p", numbers=("p",)),
            *(Column(title, "left") for title in ("Status", "Data", "Order")),
            _estimate_column("Flips %", "flip_rate"),
            Column("Probabilities", "left"),
            Column("ECE %", numbers=("ece (fraction)",)),
        ),
        rows=tuple(rows),
    )


def _estimate_column(title: str, name: str) -> Column:
    return Column(title, numbers=tuple(f"{name} {end} (fraction)" for end in _ENDS))


def _estimate_cell(estimate: Estimate, unit: Unit) -> Cell:
    value, interval = estimate_parts(estimate, unit)
    return Cell(value, (estimate.value, estimate.low, estimate.high), interval=interval)


def _p_value_cell(p_value: float) -> Cell:
    text = UNDEFINED if math.isnan(p_value) else p_value_number(p_value)
    return Cell(text, (p_value,))


def _difference_cells(difference: Claim | None) -> tuple[Cell, Cell, Cell]:
    """Write difference, p-value and status; the reference has none."""
    if difference is None:
        return Cell(UNDEFINED, (None, None, None)), Cell(UNDEFINED, (None,)), Cell("reference")
    return (
        _estimate_cell(difference.difference, "points"),
        _p_value_cell(difference.evidence.deciding),
        Cell(difference.status),
    )


MATRIX_RUNS: Final = 3
"""From this number of runs on, the matrix replaces the cards."""

MOST_REFERENCES: Final = 15
"""Of more runs, one reference has differences: their number is the square of the runs."""

_COLUMNS: Final = ("Accuracy %", "Difference", "Data", "Order", "Probabilities")


@dataclass(frozen=True)
class _References:
    """The differences of a matrix.

    Attributes:
        chosen: index of the run that is the reference at first.
        rows: by index of a reference, the differences of all runs from it; empty if items differ.
    """

    chosen: int
    rows: Mapping[int, Sequence[Claim | None]]

    def axis(self, reference: int) -> Axis:
        """Return the axis that holds the intervals of the differences from a reference."""
        compared = (run.difference for run in self.rows[reference] if run is not None)
        ends = [
            end for estimate in compared for end in (estimate.value, estimate.low, estimate.high)
        ]
        return Axis.of(ends)


def run_matrix_html(request: PageRequest, conclusions: Sequence[RunConclusions]) -> Html:
    """Write the matrix of a page.

    Args:
        request: the runs.
        conclusions: on every run, in their order.
    """
    references = _references(request)
    rows = [_row(request, at, run, references) for at, run in enumerate(conclusions)]
    table = element(
        "table",
        element("thead", _heads(request, references), role="rowgroup"),
        element("tbody", *rows, role="rowgroup"),
        role="table",
        aria_label="Runs by questions",
    )
    return element(
        "section",
        element("h3", "Runs"),
        element("div", table, class_="scroll", tabindex="0", role="region", aria_label="Runs"),
        element("p", _hint(request, references), class_="hint"),
        _copies(request, conclusions, references),
        id="runs",
        class_="runs",
    )


def _references(request: PageRequest) -> _References:
    experiment = request.experiment
    chosen, _ = compared_runs(experiment)
    if not experiment.same_items:
        return _References(chosen, {})
    runs = len(experiment.runs)
    every = range(runs) if runs <= MOST_REFERENCES else (chosen,)
    rows = run_differences(experiment, every, chosen)
    return _References(chosen, dict(zip(every, rows, strict=True)))


def _copies(
    request: PageRequest, conclusions: Sequence[RunConclusions], references: _References
) -> Html | None:
    """Write the texts of the buttons of the matrix, by its reference."""
    texts: dict[str, dict[str, str]] = {}
    for reference, differences in references.rows.items():
        label = request.experiment.runs[reference].label
        table = matrix_table(conclusions, differences, label, request.names)
        for name, text in formats_of(table).items():
            texts.setdefault(name, {})[str(reference)] = text
    return copies_html("runs", texts) if texts else None


def _hint(request: PageRequest, references: _References) -> str:
    if not references.rows:
        return "The runs have different items, so none is compared with another."
    decoding = decoding_words(MetricDecoding(request.experiment.settings.decoding))
    text = (
        f"Decoding: {decoding}. Differences are points of accuracy, run minus reference, with 95% "
        f"intervals over families. {MARKS}"
    )
    if len(references.rows) > 1:
        return f"Choose a run to make it the reference. {text}"
    return f"{text} With more than {MOST_REFERENCES} runs, the reference is fixed."


def _heads(request: PageRequest, references: _References) -> Html:
    runs = request.experiment.runs
    heads: list[Html] = [_head("Run")]
    for column in _COLUMNS:
        if column != "Difference":
            heads.append(_head(column))
            continue
        subtitles = [
            element(
                "div",
                "Difference ",
                element("span", "from ", data_text(request.names.run(runs[at].label))),
                element("div", ticks_html(references.axis(at)), class_="compared"),
                hidden=at != references.chosen,
                data_reference=str(at),
            )
            for at in references.rows
        ]
        heads.append(_head(*subtitles) if subtitles else _head(column))
    return element("tr", *heads, role="row")


def _head(*children: Child) -> Html:
    return element("th", *children, scope="col", role="columnheader", class_="left")


def _row(
    request: PageRequest, at: int, conclusions: RunConclusions, references: _References
) -> Html:
    """Write what is concluded of a run; every cell is a link to its items."""
    accuracy, interval = estimate_parts(conclusions.accuracy, "percent")
    value = joined([element("strong", accuracy), " ", element("span", interval, class_="interval")])
    cells = [
        _cell("Accuracy %", element("a", value, href=items_href(at, outcome="wrong"))),
        _differences(at, references),
        _cell("Data", _data(conclusions.data, at)),
        _cell("Order", _order(conclusions.order, at)),
        _cell("Probabilities", _probabilities(conclusions.probabilities, at)),
    ]
    name = data_text(request.names.run(conclusions.run))
    chosen = at == references.chosen
    if len(references.rows) > 1:
        name = element(
            "button",
            name,
            type="button",
            data_reference_of=str(at),
            aria_pressed="true" if chosen else "false",
            title="Make this run the reference",
        )
    head = element("th", name, scope="row", role="rowheader", class_="left")
    return element("tr", head, *cells, role="row", class_="reference" if chosen else None)


def _cell(label: str, *children: Child) -> Html:
    """Write a cell with the head of its column, which a narrow screen shows next to it."""
    return element("td", *children, role="cell", data_label=label, class_="left")


def _differences(at: int, references: _References) -> Html:
    """Write the differences of a run from every reference, of which one is visible."""
    if not references.rows:
        return _cell("Difference", "other items")
    parts = []
    for reference, row in references.rows.items():
        compared = row[at]
        shown: Child = "reference"
        if compared is not None:
            shown = _difference(compared, references.axis(reference), items_href(at, b=reference))
        hidden = reference != references.chosen
        parts.append(
            element("div", shown, class_="compared", hidden=hidden, data_reference=str(reference))
        )
    return _cell("Difference", *parts)


def _difference(compared: Claim, axis: Axis, href: str) -> Html:
    p_value = compared.evidence.deciding
    number = difference_html(compared.difference, p_value, shown=compared.shown)
    word = element("span", compared.status, class_=BetterConclusion.tones[compared.status])
    return joined(
        [
            interval_mark(compared.difference, axis, shown=compared.shown),
            element("a", number, " ", word, href=href),
        ]
    )


def _concluded(conclusion: Conclusion, word: str, number: str, href: str) -> Html:
    return joined(
        [
            element("a", element("span", word, class_=conclusion.tone), href=href),
            joined([" ", element("span", number, class_="interval")]) if number else None,
        ]
    )


def _data(data: DataConclusion, at: int) -> Html:
    href = items_href(at, ids=data.items) if data.items else f"#{DATA_AUDIT}"
    return _concluded(data, data.status.capitalize(), "", href)


def _order(order: OrderConclusion, at: int) -> Html:
    changes = order.flip_rate.value
    number = "" if math.isnan(changes) else f"{value_text(changes, 'percent')}% change"
    return _concluded(order, order.words.finding, number, items_href(at, outcome="flips"))


def _probabilities(probabilities: ProbabilitiesConclusion, at: int) -> Html:
    ece = value_text(probabilities.ece.value, "percent")
    number = "" if probabilities.status == "cannot tell" else f"ECE {ece}%"
    finding = probabilities.words.finding
    return _concluded(probabilities, finding, number, items_href(at))
