"""The answers to one request."""

from __future__ import annotations

from collections.abc import Sequence

from pact_eval.prompts import Decision
from pact_reports.table import Cell, Column, Row, Table


def decision_table(decisions: Sequence[Decision]) -> Table:
    """Lay out one block of rows per field: its answer, the probability of every answer, the mass.

    The first row of a block has the field's answer; every row has one answer and its probability,
    in falling order.
    """
    return Table(
        name="decisions",
        title="",
        caption="",
        columns=(
            Column("field", "left"),
            Column("kind", "left"),
            Column("answer", "left"),
            Column("probability"),
            Column("of", "left"),
            Column("answer mass"),
        ),
        rows=tuple(row for decision in decisions for row in _rows(decision)),
    )


def _rows(decision: Decision) -> list[Row]:
    ranked = sorted(
        zip(decision.field.answers, decision.probabilities, strict=True),
        key=lambda pair: -pair[1],
    )
    answer = decision.answer
    if decision.expected_level is not None:
        answer = f"{answer} (expected level {decision.expected_level:.2f})"
    changes = "changes with the letters" if decision.views_agree is False else ""
    first = (
        Cell(decision.field.name),
        Cell(decision.field.kind),
        Cell(answer, below=changes),
    )
    mass = Cell(f"{decision.answer_mass:.1%}")
    rows = []
    for number, (each, probability) in enumerate(ranked):
        head = first if number == 0 else (Cell(""),) * 3
        cells = (Cell(f"{probability:.1%}"), Cell(each.key), mass if number == 0 else Cell(""))
        rows.append(Row((*head, *cells), rule=number == 0))
    return rows
