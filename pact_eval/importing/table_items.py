"""What the rows of a table are about: one item again, items that belong together, or others.

A row is known by its id, or by the text that was asked about. A question alone is such a text only
if its rows agree: where they have different right answers, it was put to things that the table does
not have, and the user has to say which rows belong together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from pact_eval._json import sha256_of_json
from pact_eval.data.labelled.entries import Entries, Entry
from pact_eval.data.labelled.identity import (
    column_of_ids,
    families_of_texts,
    is_constant,
    is_shared,
)
from pact_eval.data.labelled.questions import as_text
from pact_eval.data.labelled.reading import IGNORED, columns_option
from pact_eval.errors import ShapeError

Roles = Mapping[str, tuple[str, ...]]

_HASH: Final = 12


def check_repeats(columns: Roles, entries: Entries, source: str) -> None:
    """Check that a column decides which rows ask about one item, if no text does.

    Args:
        columns: by role, its columns; no right answers are used.
        entries: the rows.
        source: name of the file, for messages.

    Raises:
        ShapeError: a column of ids, or the question, repeats, and either reading of it fits.
    """
    if {"id", "state", "family"} & columns.keys():
        return
    named = _repeated_ids(columns, entries)
    question = _first(columns, "question")
    texts = [*map(as_text, entries.column(question))]
    if named is not None:
        other = columns_option("family", [named])
        what, is_no_id = f"{named} repeats", f"items that belong together: {other}"
    elif question is not None and is_shared(texts) and not is_constant(texts):
        named, other = question, columns_option(IGNORED, [question])
        what, is_no_id = f"{question} repeats, and nothing else names items", f"others: {other}"
    else:
        return
    raise ShapeError(
        f"{source}: {what}: its rows ask about one item again, {columns_option('id', [named])}, or "
        f"are of {is_no_id}"
    )


def families_of_rows(
    columns: Roles,
    entries: Entries,
    source: str,
    texts: Sequence[str | None],
    ids: Sequence[str],
    labels: Sequence[Hashable],
) -> list[str | None]:
    """Return the family of every row whose text another item has too.

    Args:
        columns: by role, its columns.
        entries: the rows of the file, whether they have a label or not.
        source: name of the file, for messages.
        texts: of the rows that are used; see `text_of_row`.
        ids: of their items.
        labels: their right answers; None is not known.

    Returns:
        (n,) names of families, as `families_of_texts` returns them.

    Raises:
        ShapeError: only questions are known, and rows of one have different right answers.
    """
    by_text: dict[str | None, set[Hashable]] = defaultdict(set)
    for text, label in {*zip(texts, labels, strict=True)}:
        by_text[text] |= {label} - {None}
    question = _first(columns, "question")
    several = sum(len(each) > 1 for each in by_text.values())
    if question is None or "state" in columns or "options" in columns or not several:
        return families_of_texts(texts, ids)
    twice = len({*ids}) < len(ids) and "view" not in entries.columns  # refused later
    if twice or not is_shared(texts) or is_constant(texts):
        return families_of_texts(texts, ids)
    row, named = _first(columns, "id"), _repeated_ids(columns, entries)
    alone = columns_option(IGNORED, [question]) if row is None else columns_option("family", [row])
    by = [f"by {name}, {columns_option('family', [name])}" for name in (named, question) if name]
    raise ShapeError(
        f"{source}: {question} repeats with different right answers, and no column has what it was "
        f"asked about. Its rows belong together {', '.join(by)}, or not at all, {alone}"
    )


def _repeated_ids(columns: Roles, entries: Entries) -> str | None:
    """Return the column that is named like ids, has no role and may repeat; None without one."""
    taken = {name for names in columns.values() for name in names}
    free = [name for name in entries.columns if name not in taken]
    return column_of_ids(entries, free, repeats=True)


def _first(columns: Roles, role: str) -> str | None:
    return next(iter(columns.get(role, ())), None)


def own_ids(entries: Entries, columns: Roles) -> list[str | None]:
    """Return what rows have in the column of ids; None if it is empty."""
    column = _first(columns, "id")
    return [
        *map(as_text, [None] * len(entries.entries) if column is None else entries.column(column))
    ]


def has_requests(entries: Entries, columns: Roles) -> bool:
    """Return whether ids repeat, and id and question together do not: several questions each."""
    question = _first(columns, "question")
    if question is None or "view" in entries.columns:
        return False
    asked = zip(own_ids(entries, columns), entries.column(question), strict=True)
    named = [(own, as_text(text) or "") for own, text in asked if own is not None]
    return len({own for own, _ in named}) < len({*named}) == len(named)


def made_id(entry: Entry, columns: Roles, *, constant: bool) -> str:
    """Return the id of a row without one: a hash of its text unless all have it, or its number."""
    names = () if constant else (*columns.get("state", ()), *columns.get("question", ()))
    texts = {name: entry.value[name] for name in names if name in entry.value}
    return sha256_of_json({**texts})[:_HASH] if texts else str(entry.line)
