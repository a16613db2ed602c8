"""Exact test of two runs, and the items that only one of them answers correctly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pact_eval._json import Json, dumps
from pact_eval.data.records import Record
from pact_eval.evaluation.comparison import Comparison, DifferingItem
from pact_reports.numbers import p_value_text
from pact_reports.plain_text import one_line
from pact_reports.table import Cell, Column, Line, Part, Row, Table

SHOWN: Final = 20
"""Items that are listed for each run; JSON has all."""

_MOST_CHARACTERS: Final = 120


def differing_parts(
    comparison: Comparison, records: Mapping[str, Record] | None
) -> tuple[Part, ...]:
    """Lay out the McNemar test over items, and the first items of each side.

    Args:
        comparison: the two runs, A and B.
        records: by id, the records of the items; None shows ids alone, and how to see the texts.
    """
    test = comparison.groups[0].accuracy.items
    reason = "" if test.reason is None else f" ({one_line(test.reason)})"
    parts: list[Part] = [
        Line(
            f"McNemar over {test.n:,} items, {test.method}: {p_value_text(test.p_value)}{reason}",
            "strong",
        ),
        Line(
            f"Only A is correct: {test.b:,}; only B is correct: {test.c:,}; both: {test.both:,}; "
            f"neither: {test.neither:,}."
        ),
    ]
    for side in ("a", "b"):
        items = [item for item in comparison.differing if item.correct == side]
        parts += _side(side.upper(), items, records)
    if records is None and comparison.differing:
        advice = "Questions and answers: give --data FILE; the data that run.json names were not "
        parts.append(Line(f"{advice}found unchanged.", "caution"))
    return tuple(parts)


def _side(
    name: str, items: Sequence[DifferingItem], records: Mapping[str, Record] | None
) -> list[Part]:
    heading = f"Only {name} is correct ({len(items):,}):"
    shown = items[:SHOWN]
    if not items:
        return [Line(f"{heading} none", "strong")]
    parts: list[Part]
    if records is None:
        texts = "\n".join(one_line(f"  {item.id}") for item in shown)
        parts = [Line(heading, "strong"), Line(texts)]
    else:
        parts = [_table(name, heading, shown, records)]
    if len(items) > SHOWN:
        parts.append(Line(f"{len(items) - SHOWN:,} more; --json lists all.", "faint"))
    return parts


def _table(
    name: str, heading: str, items: Sequence[DifferingItem], records: Mapping[str, Record]
) -> Table:
    other = "B" if name == "A" else "A"
    return Table(
        name=f"only-{name.lower()}",
        title=heading,
        caption="",
        columns=(
            Column("item", "left"),
            Column("question", "left", width=0.45),
            Column(f"{name}, correct", "left", width=0.2),
            Column(f"{other}, wrong", "left", width=0.2),
        ),
        rows=tuple(_row(item, records[item.id]) for item in items),
    )


def _row(item: DifferingItem, record: Record) -> Row:
    answers = (_answer(record, item.reference), _answer(record, item.other))
    texts = (item.id, _question(record), *answers)
    return Row(tuple(Cell(_cut(one_line(text))) for text in texts))


def _question(record: Record) -> str:
    instructions = record.field.instructions
    return instructions if isinstance(instructions, str) else dumps(instructions)


def _answer(record: Record, index: int) -> str:
    answer = record.field.answers[index]
    if record.field.kind == "choice" or answer.description is None:
        return answer.key
    return f"{answer.key}: {answer.description}"


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."


def differing_json(comparison: Comparison, records: Mapping[str, Record] | None) -> list[Json]:
    """Return every item that only one run answers correctly; texts are null if not known.

    Args:
        comparison: the two runs, A and B.
        records: by id, the records of the items, or None.
    """
    return [_item_json(item, records) for item in comparison.differing]


def _item_json(item: DifferingItem, records: Mapping[str, Record] | None) -> Json:
    record = None if records is None else records[item.id]
    keys = None if record is None else [answer.key for answer in record.field.answers]
    right, wrong = (item.correct, "b" if item.correct == "a" else "a")
    return {
        "id": item.id,
        "correct": item.correct,
        "question": None if record is None else record.field.instructions,
        right: {"index": item.reference, "answer": None if keys is None else keys[item.reference]},
        wrong: {"index": item.other, "answer": None if keys is None else keys[item.other]},
    }
