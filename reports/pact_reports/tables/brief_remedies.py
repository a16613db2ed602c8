"""Brief output of `report --remedies`: the answer, and the main remedies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from pact_eval.numbers import interval_text, value_text
from pact_eval.remedies.comparison import RemedyComparison, RemedyRow
from pact_reports.sentences.remedies import remedies_answer
from pact_reports.table import Cell, Column, Line, Part, Row, Table
from pact_reports.tables.brief import COLUMNS, MOST_LINES, Brief, Fact
from pact_reports.tables.cells import leak_lines
from pact_reports.writers.terminal import to_text

_MAIN: Final = ("k2", "k2_additive", "k1_additive", "k1_batch", "k1_contextual")
"""Remedies that most runs can show, after those of the answer."""


def brief_remedies(comparison: RemedyComparison) -> tuple[Part, ...]:
    """Lay out whether a remedy helps, and the main ones, in at most twelve lines."""
    files = [row.remedy.name for row in comparison.rows if row.remedy.from_file]
    names = [*comparison.references, *files, comparison.enough, *_MAIN]
    compared = {row.remedy.name for row in comparison.rows}
    shown = [name for name in dict.fromkeys(names) if name in compared]
    parts = _laid_out(comparison, shown)
    while to_text(*parts, width=COLUMNS).count("\n") > MOST_LINES and len(shown) > 1:
        shown.pop()
        parts = _laid_out(comparison, shown)
    return parts


def _laid_out(comparison: RemedyComparison, shown: Collection[str | None]) -> tuple[Part, ...]:
    marks = "" if comparison.k == 1 else "; * shown after Holm's adjustment"
    letters = "; right answers favour letters" if comparison.balance == "unbalanced" else ""
    return Brief(
        answer=(*leak_lines(comparison.leak), Line(remedies_answer(comparison), "strong")),
        facts=[
            Fact(
                "sample",
                f"{comparison.items:,} items, {comparison.families:,} families; fits by "
                f"{comparison.fold_unit}{marks}{letters}",
            ),
        ],
        notes=(),
        more="Pairs, ECE, flips, costs and letters: --full.",
        tables=[_table([row for row in comparison.rows if row.remedy.name in shown])],
    ).parts()


def _table(rows: Sequence[RemedyRow]) -> Table:
    return Table(
        name="remedies",
        title="",
        caption="",
        columns=(
            Column("remedy", "left"),
            Column("accuracy"),
            Column("- K = 1, points", "left"),
            Column("NLL"),
            Column("- K = 1, nats", "left"),
        ),
        rows=tuple(map(_row, rows)),
        bare=True,
    )


def _row(row: RemedyRow) -> Row:
    return Row(
        (
            Cell(row.remedy.title),
            *(cell for name in ("accuracy", "nll_nats") for cell in _cells(row, name)),
        )
    )


def _cells(row: RemedyRow, name: str) -> tuple[Cell, Cell]:
    """Return the value of a metric, and its difference from one view."""
    metric = row.metric(name)
    against = metric.differences.get("k1")
    difference = ""
    if against is not None:
        difference = interval_text(against.difference, metric.spec.difference_unit)
        difference += "*" if against.marked else ""
    percent = "%" if metric.spec.unit == "percent" else ""
    return Cell(f"{value_text(metric.value.value, metric.spec.unit)}{percent}"), Cell(difference)
