"""Items that are worth a look: wrong answers of one run or of one of two, and those that change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pact_eval.evaluation.comparison import Comparison
from pact_eval.evaluation.wrong_items import ChangedItem, ItemLists, WrongItem, confidence_text
from pact_eval.numbers import UNDEFINED
from pact_eval.plain_text import one_line, short_names
from pact_reports.table import Column, ColumnOf, Line, Part, Table, make_table

_LONGEST_NAME: Final = 20


def item_parts(lists: ItemLists) -> Iterator[Part]:
    """Lay out the wrong items of a run, and those whose answer changes with the order."""
    wrong, changed = lists.wrong, lists.changed
    if wrong is not None and not wrong.items:
        yield Line(f"Wrong answers: {wrong.words}.")
    elif wrong is not None:
        how = "surest first" if any(map(_sure, wrong.items)) else "by id"
        title = f"Wrong answers, {how}: {len(wrong.items):,} of {wrong.wrong:,}"
        yield _table("wrong-items", title, wrong.items)
    if changed is not None and not changed.items:
        yield Line(f"Answers that change with the order: none of {changed.tested:,} items.")
    elif changed is not None:
        counted = f"{len(changed.items):,} of {changed.changed:,}"
        title = f"Answers that change with the order, and how many orders give each: {counted}"
        yield _table("changed-items", title, changed.items)
    yield from advice_on_texts(known=lists.texts_known)


def _sure(item: WrongItem | ChangedItem) -> str:
    return confidence_text(item.confidence) if isinstance(item, WrongItem) else ""


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
        yield _table(f"only-{side}", title, listed)


def advice_on_texts(*, known: bool) -> Iterator[Line]:
    """Say how to see the texts of items, unless a file with them is known."""
    if not known:
        yield Line("Texts of the items are not known: give the file --data FILE.", "caution")


def _given(item: WrongItem | ChangedItem) -> str:
    if isinstance(item, WrongItem):
        return item.given or ""
    return ", ".join(f"{answer} {times}" for answer, times in item.given.items())


_COLUMNS: Final[tuple[ColumnOf[WrongItem | ChangedItem], ...]] = (
    (Column("item", "left"), lambda item: one_line(item.id)),
    (Column("sure"), _sure),
    (Column("given", "left", width=0.2, cut=True), _given),
    (Column("right", "left", width=0.2, cut=True), lambda item: " or ".join(item.right)),
    (Column("text", "left", width=0.4, cut=True), lambda item: item.text or ""),
)
"""A terminal cuts texts to one line."""


def _table(name: str, title: str, items: Sequence[WrongItem | ChangedItem]) -> Table:
    """Lay out items, one line each, without the columns of what is not known."""
    known = [(column, text) for column, text in _COLUMNS if any(map(text, items))]
    return make_table(
        name,
        items,
        *(
            (column, lambda item, text=text: one_line(str(text(item))) or UNDEFINED)
            for column, text in known
        ),
        title=title,
    )
