"""Exact test of two runs, and the items that only one of them answers correctly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pact_eval._json import Json, dumps
from pact_eval.data.records import Record
from pact_eval.evaluation.comparison import Comparison, DifferingItem
from pact_eval.numbers import UNDEFINED, p_value_text
from pact_eval.plain_text import one_line, short_names
from pact_reports.table import Cell, Column, Line, Part, Row, Table

SHOWN: Final = 20
"""Items that are listed for each run; JSON has all."""

_MOST_CHARACTERS: Final = 80
_LONGEST_NAME: Final = 20


def differing_parts(
    comparison: Comparison,
    records: Mapping[str, Record] | None,
    names: tuple[str, str] = ("A", "B"),
) -> tuple[Part, ...]:
    """Lay out the McNemar test over items, and the first items of each side in one table.

    Args:
        comparison: the two runs, A and B.
        records: by id, the records of the items; None shows ids alone, and how to see the texts.
        names: what the runs are called.
    """
    test = comparison.groups[0].accuracy.items
    reason = "" if test.reason is None else f" ({one_line(test.reason)})"
    a, b = short_names(names, _LONGEST_NAME)
    parts: list[Part] = [
        Line(
            f"{test.method}: {p_value_text(test.p_value)}{reason}; of {test.n:,} items only {a} "
            f"right {test.b:,}, only {b} right {test.c:,}, both {test.both:,}, neither "
            f"{test.neither:,}",
            "strong",
        )
    ]
    sides = [[item for item in comparison.differing if item.correct == side] for side in ("a", "b")]
    if not comparison.differing:
        return tuple(parts)
    parts.append(_table({a: sides[0][:SHOWN], b: sides[1][:SHOWN]}, records))
    left = sum(max(0, len(items) - SHOWN) for items in sides)
    if left:
        parts.append(Line(f"{left:,} more; --json lists all.", "faint"))
    if records is None:
        advice = "Questions and answers: give --data FILE; the data that run.json names were not "
        parts.append(Line(f"{advice}found unchanged.", "caution"))
    return tuple(parts)


def _table(
    sides: Mapping[str, Sequence[DifferingItem]], records: Mapping[str, Record] | None
) -> Table:
    """Lay out items, by the name of the run that alone is right."""
    columns = [Column("only right", "left"), Column("item", "left")]
    if records is not None:
        columns.append(Column("question", "left", width=0.4))
        columns += [Column(f"{which} answer", "left", width=0.2) for which in ("right", "other")]
    rows = [
        Row(tuple(Cell(text) for text in (name, one_line(item.id), *_texts(item, records))))
        for name, items in sides.items()
        for item in items
    ]
    return Table(
        name="differing",
        title="Items that only one run answers correctly",
        caption="",
        columns=tuple(columns),
        rows=tuple(rows),
    )


def _texts(item: DifferingItem, records: Mapping[str, Record] | None) -> Iterator[str]:
    """Yield the question, the right answer and the other run's answer, if these are known."""
    if records is None:
        return
    record = records[item.id]
    answers = (_answer(record, item.reference), _answer(record, item.other))
    for text in (_question(record), *answers):
        yield _cut(one_line(text))


def _question(record: Record) -> str:
    instructions = record.field.instructions
    return instructions if isinstance(instructions, str) else dumps(instructions)


def _answer(record: Record, index: int | None) -> str:
    if index is None:
        return UNDEFINED
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

    def answer(index: int | None) -> Json:
        if record is None or index is None:
            return {"index": index, "answer": None}
        return {"index": index, "answer": record.field.answers[index].key}

    right, wrong = (item.correct, "b" if item.correct == "a" else "a")
    return {
        "id": item.id,
        "correct": item.correct,
        "question": None if record is None else record.field.instructions,
        right: answer(item.reference),
        wrong: answer(item.other),
    }
