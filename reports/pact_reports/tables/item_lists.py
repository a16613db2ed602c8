"""Items that are worth a look: wrong answers of one run or of one of two, and those that change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pact_eval.evaluation.comparison import Comparison
from pact_eval.evaluation.wrong_items import (
    ChangedItem,
    ChangedItems,
    ItemLists,
    WrongItem,
    WrongItems,
    confidence_text,
)
from pact_eval.numbers import UNDEFINED
from pact_eval.plain_text import one_line, short_names
from pact_reports.table import Cell, Column, Line, Part, Table, table_row

_LONGEST_NAME: Final = 20


def item_parts(lists: ItemLists) -> Iterator[Part]:
    """Lay out the wrong items of a run, and those whose answer changes with the order."""
    if lists.wrong is not None:
        yield _wrong(lists.wrong)
    if lists.changed is not None:
        yield _changed(lists.changed)
    yield from advice_on_texts(known=lists.texts_known)


def _wrong(wrong: WrongItems) -> Part:
    if not wrong.items:
        return Line(f"Wrong answers: {wrong.words}.")
    sure = [_sure(item) for item in wrong.items]
    how = "surest first" if any(sure) else "by id"
    title = f"Wrong answers, {how}: {len(wrong.items):,} of {wrong.wrong:,}"
    return _table("wrong-items", title, wrong.items, sure)


def _sure(item: WrongItem) -> str:
    return confidence_text(item.confidence)


def _changed(changed: ChangedItems) -> Part:
    if not changed.items:
        return Line(f"Answers that change with the order: none of {changed.tested:,} items.")
    counted = f"{len(changed.items):,} of {changed.changed:,}"
    title = f"Answers that change with the order, and how many orders give each: {counted}"
    return _table("changed-items", title, changed.items)


def differing_parts(
    comparison: Comparison,
    items: Mapping[str, Sequence[WrongItem]],
    names: tuple[str, str] = ("A", "B"),
    where: str = "",
) -> Iterator[Part]:
    """Lay out items that only one of two runs answers correctly, one table for each run.

    Args:
        comparison: the two runs, A and B.
        items: those to list, by the run that is right.
        names: what the runs are called.
        where: precedes the heading, such as "Seed 17: ".
    """
    short = short_names(names, _LONGEST_NAME)
    for (side, listed), name, other in zip(items.items(), short, short[::-1], strict=True):
        counted = sum(item.correct == side for item in comparison.differing)
        if not listed:
            yield Line(f"{where}Only {name} right: no item.")
            continue
        title = (
            f"{where}Only {name} right, the surest answers of {other} first: {len(listed):,} of "
            f"{counted:,}"
        )
        yield _table(f"only-{side}", title, listed, [_sure(item) for item in listed])


def advice_on_texts(*, known: bool) -> Iterator[Line]:
    """Say how to see the texts of items, unless a file with them is known."""
    if not known:
        yield Line("Texts of the items are not known: give the file --data FILE.", "caution")


def _table(
    name: str,
    title: str,
    items: Sequence[WrongItem | ChangedItem],
    sure: Sequence[str] = (),
) -> Table:
    """Lay out items, one line each, without the columns of what is not known.

    Args:
        name: of the table.
        title: what it shows.
        items: its rows.
        sure: by item, the confidence of its answer; empty without such a column.
    """
    columns = {"item": [one_line(item.id) for item in items], "sure": [*sure]}
    columns["given"] = [_given(item) for item in items]
    columns["right"] = [" or ".join(item.right) for item in items]
    columns["text"] = [item.text or "" for item in items]
    known = {head: texts for head, texts in columns.items() if any(texts)}
    return Table(
        name=name,
        title=title,
        columns=tuple(item_column(head) for head in known),
        rows=tuple(
            table_row(*(Cell(one_line(text) or UNDEFINED) for text in texts))
            for texts in zip(*known.values(), strict=True)
        ),
    )


_WIDTHS: Final = {"given": 0.2, "right": 0.2, "text": 0.4}


def item_column(head: str) -> Column:
    """Return a column of a table of items; a terminal cuts texts to one line."""
    width = _WIDTHS.get(head)
    return Column(head, "right" if head == "sure" else "left", width=width, cut=width is not None)


def _given(item: WrongItem | ChangedItem) -> str:
    if isinstance(item, WrongItem):
        return item.given or ""
    return ", ".join(f"{answer} {times}" for answer, times in item.given.items())
