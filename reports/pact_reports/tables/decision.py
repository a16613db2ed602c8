"""The answers to one request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pact_eval.plain_text import one_line
from pact_eval.prompts.requests import Decision
from pact_reports.table import Cell, Column, Line, Part, Row, Table

if TYPE_CHECKING:  # decisions of a model here need no client
    from pact_eval.scoring.servers.decide import ServedDecisions, ServedField, Spread


def decision_table(decisions: Sequence[Decision]) -> Table:
    """Lay out one block of rows per field: its answer, the probability of every answer, the mass.

    The first row of a block has the field's answer; every row has one answer and its probability,
    in falling order.
    """
    rows = []
    for decision in decisions:
        answers = _ranked(decision, [f"{p:.1%}" for p in decision.probabilities])
        first = (
            Cell(decision.field.name),
            Cell(decision.field.kind),
            _answer(decision, "changes with the letters"),
        )
        masses = [Cell(_mass(decision)), *[Cell("")] * (len(answers) - 1)]
        rows += [
            Row((*(first if number == 0 else (Cell(""),) * 3), *cells, mass), rule=number == 0)
            for number, (cells, mass) in enumerate(zip(answers, masses, strict=True))
        ]
    heads = ("field", "kind", "answer", "probability", "of", "answer mass")
    return _table(heads, ("probability", "answer mass"), rows)


def _served_table(fields: Sequence[ServedField]) -> Table:
    """Lay out decisions likewise; each probability with its range over the orders."""
    rows = []
    for served in fields:
        if served.decision is None:
            continue
        shown = [f"{p:.1%}" for p in served.decision.probabilities]
        if len(served.orders) > 1:
            shown = [
                f"{text} ({100 * low:.1f} to {100 * high:.1f})"
                for text, (low, high) in zip(shown, served.ranges, strict=True)
            ]
        first = (Cell(served.field.name), _answer(served.decision, "changes with the order"))
        rows += [
            Row((*(first if number == 0 else (Cell(""),) * 2), *cells), rule=number == 0)
            for number, cells in enumerate(_ranked(served.decision, shown))
        ]
    probability = "probability (by order)"
    notes = ("In brackets, the lowest and the highest probability over the orders.",)
    return _table(("field", "answer", probability, "of"), (probability,), rows, notes)


def _table(
    heads: Sequence[str], right: Sequence[str], rows: Sequence[Row], notes: tuple[str, ...] = ()
) -> Table:
    return Table(
        name="decisions",
        title="",
        caption="",
        columns=tuple(Column(head) if head in right else Column(head, "left") for head in heads),
        rows=tuple(rows),
        notes=notes,
    )


def _answer(decision: Decision, changes: str) -> Cell:
    answer = decision.answer
    if decision.expected_level is not None:
        answer = f"{answer} (expected level {decision.expected_level:.2f})"
    return Cell(answer, below=changes if decision.views_agree is False else "")


def _ranked(decision: Decision, shown: Sequence[str]) -> list[tuple[Cell, Cell]]:
    """Return the probability of each answer, as it is shown, and its key, most probable first."""
    ranked = sorted(
        zip(decision.field.answers, decision.probabilities, shown, strict=True),
        key=lambda entry: -entry[1],
    )
    return [(Cell(text), Cell(answer.key)) for answer, _, text in ranked]


def _mass(decision: Decision) -> str:
    return "–" if decision.answer_mass is None else f"{decision.answer_mass:.1%}"


def served_parts(decisions: ServedDecisions) -> tuple[Part, ...]:
    """Lay out the reply of a server to one request: decisions and their spread."""
    missing = [
        Line(f"{served.field.name}: {served.missing.status}: {served.missing.reason}", "caution")
        for served in decisions.fields
        if served.missing is not None
    ]
    by = (
        "the answers carry no name"
        if decisions.answered_by is None
        else f"{decisions.answered_by} answers"
    )
    rounded = (
        ""
        if decisions.decimals is None
        else f"; probabilities are rounded to {decisions.decimals} decimals"
    )
    who = (
        f"{decisions.model} was asked, {by}: wire {decisions.wire}, "
        f"{decisions.requests:,} requests{rounded}"
    )
    return (
        _served_table(decisions.fields),
        _spread_table(decisions.fields),
        *missing,
        Line(one_line(who)),
    )


def _spread_table(fields: Sequence[ServedField]) -> Table:
    """Lay out the spread over orders and over repeats: two rows per field."""
    rows = []
    for served in fields:
        if served.between_repeats is not None:
            orders = ("one order", "–", "–")
            if served.between_orders is not None:
                orders = _spread(served.between_orders, "orders")
            rows += [
                Row(tuple(map(Cell, (served.field.name, *orders))), rule=True),
                Row(tuple(map(Cell, ("", *_spread(served.between_repeats, "repeats of one"))))),
            ]
    return Table(
        name="orders",
        title="What the order of the answers moves, beside noise",
        caption="",
        columns=(
            *(Column(head, "left") for head in ("field", "asked in")),
            *map(Column, ("largest TV (%)", "flips")),
        ),
        rows=tuple(rows),
        notes=(
            "TV: total variation distance of two of the answers. Flips: those whose most probable "
            "answer is not that of the first. A server that remembers its answers shows no noise.",
        ),
    )


def _spread(spread: Spread, of: str) -> tuple[str, str, str]:
    return f"{spread.answers} {of}", f"{100 * spread.largest_tv:.1f}", f"{spread.flips}"
