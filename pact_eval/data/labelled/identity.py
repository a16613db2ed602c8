"""What the rows of a table are known by: the column that identifies them, and their text.

A column identifies rows if its name says so (`question_id`, `Ticket ID`, `uuid`, `item`, `idx`) and
its values are all there and all different. Of several, the first of these:

    1. names that end with "id" as a word, uuid, guid, uid, qid
    2. item, key
    3. names that count rows: idx, index, row, row_id, nr, no, number, #, and the index of pandas

Within a rank, columns whose values are not just 0, 1, ... or 1, 2, ... are first, then those that
come first in the file. Rows whose question and context are equal text belong together.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pact_eval._json import Json, dumps, sha256_of_json
from pact_eval.data.labelled.entries import Entries
from pact_eval.data.labelled.questions import as_text

_BREAK: Final = re.compile(r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])")
_IDS: Final = frozenset({"id", "uuid", "guid", "uid", "qid"})
_ITEMS: Final = frozenset({"item", "key"})
_COUNTERS: Final = frozenset({"idx", "index", "row", "line", "nr", "no", "number"})
_OF_PANDAS: Final = frozenset({"", "#", "Unnamed: 0", "__index_level_0__"})
_FRACTION: Final = re.compile(r"[-+]?\d*[.,]\d*[1-9]\d*(e[-+]?\d+)?%?", re.IGNORECASE)
_LONGEST: Final = 128  # longer texts are contents
_COUNTING: Final = 2
_HASH: Final = 12


def _rank(name: str) -> int | None:
    """Return how well a name says that a column identifies rows, 0 the best; None if it does not.

    Examples:
        >>> [_rank(name) for name in ("question_id", "questionId", "Ticket ID", "UUID", "paid")]
        [0, 0, 0, 0, None]
        >>> [_rank(name) for name in ("item", "idx", "row_id", "Unnamed: 0", "No.", "item price")]
        [1, 2, 2, 2, 2, None]
    """
    if name.strip() in _OF_PANDAS:
        return _COUNTING
    words = [word.lower() for word in _BREAK.split(name) if word]
    if not words:
        return None
    if words[0] in _COUNTERS and {*words[1:]} <= _COUNTERS | _IDS:
        return _COUNTING
    if words[-1] in _IDS:
        return 0
    return 1 if len(words) == 1 and words[0] in _ITEMS else None


def column_of_ids(
    entries: Entries, free: Sequence[str], *, counters: bool = False, repeats: bool = False
) -> str | None:
    """Return the column whose name and values say that it identifies rows; None without one.

    Args:
        entries: rows of a file; with a column `view`, an id has a row in each view.
        free: columns without another role, in file order.
        counters: whether columns that only count rows are ids: they are within one file or two of
            the same rows, and not between a file for training and one for tests.
        repeats: whether values may repeat, if some differ.

    Examples:
        >>> from pact_eval.data.labelled.entries import Entry
        >>> rows = [Entry(n, {"idx": n, "user_id": "u7", "doc-id": f"d{n}"}) for n in range(3)]
        >>> table = Entries("CSV", rows)
        >>> column_of_ids(table, ["idx", "user_id", "doc-id"], counters=True)
        'doc-id'
        >>> column_of_ids(table, ["idx", "user_id"], counters=True)
        'idx'
    """
    views = [*map(str, entries.column("view"))]
    fitting: list[tuple[int, bool, int, str]] = []
    for place, name in enumerate(free):
        rank = _rank(name)
        if rank is None or (rank == _COUNTING and not counters):
            continue
        cells = [*map(as_text, entries.column(name))]
        ids = [cell.strip() for cell in cells if cell is not None and cell.strip()]
        if len(ids) < len(cells) or not (_are_ids(ids, views) or (repeats and len({*ids}) > 1)):
            continue
        counted = {*ids} in [{str(start + n) for n in range(len({*ids}))} for start in (0, 1)]
        if counters or not counted:
            fitting.append((rank, counted, place, name))
    return min(fitting)[-1] if fitting else None


def _are_ids(ids: Sequence[str], views: Sequence[str]) -> bool:
    """Return whether texts are all different, or have one row in every view."""
    pairs = {*zip(ids, views, strict=True)}
    if not ids or len(pairs) < len(ids) or len({*ids}) * len({*views}) != len(ids):
        return False
    return not any(len(text) > _LONGEST or _FRACTION.fullmatch(text) for text in ids)


def counts_in_order(entries: Entries, column: str) -> bool:
    """Return whether a column only numbers the rows of a file: it has the index of each.

    Examples:
        >>> from pact_eval.data.labelled.entries import Entry
        >>> table = Entries("CSV", [Entry(2, {"idx": "0"}), Entry(3, {"idx": "1"})])
        >>> counts_in_order(table, "idx")
        True
    """
    if _rank(column) != _COUNTING:
        return False
    cells = [(as_text(cell) or "").strip() for cell in entries.column(column)]
    return cells in [[str(start + n) for n in range(len(cells))] for start in (0, 1)]


def text_of_row(value: Mapping[str, Json], columns: Sequence[str]) -> str | None:
    r"""Return the text of a row with normal white space, as one line; None without any.

    Args:
        value: the row.
        columns: those of the context and the question.

    Examples:
        >>> text_of_row({"text": "two  lines\nhere", "question": "Why? "}, ["text", "question"])
        '["two lines here", "Why?"]'
        >>> text_of_row({"text": " "}, ["text"])
    """
    cells = [value.get(name) for name in columns]
    texts = [
        " ".join((cell if isinstance(cell, str) else "" if cell is None else dumps(cell)).split())
        for cell in cells
    ]
    return dumps([*texts]) if any(texts) else None


def families_of_texts(texts: Sequence[str | None], ids: Sequence[str]) -> list[str | None]:
    """Return the family of every row whose text another item has too.

    Args:
        texts: of rows; see `text_of_row`.
        ids: of the items of the rows.

    Returns:
        (n,) names of families, of all rows with a text; None for all if no two items share a text,
        or if all share one, which says nothing.

    Examples:
        >>> families_of_texts(["a", "b", "a"], ["1", "2", "3"])
        ['ac8d8342bbb2', 'c100f95c1913', 'ac8d8342bbb2']
        >>> families_of_texts(["a", "a"], ["1", "2"])
        [None, None]
    """
    pairs = {(text, item) for text, item in zip(texts, ids, strict=True) if text is not None}
    different = {text for text, _ in pairs}
    if len(different) == len(pairs) or is_constant(texts):
        return [None] * len(texts)
    names = {text: sha256_of_json(text)[:_HASH] for text in different}
    return [None if text is None else names[text] for text in texts]


def is_shared(texts: Collection[str | None]) -> bool:
    """Return whether rows share their texts: each is that of two or more rows on average.

    Examples:
        >>> is_shared(["spam?", "spam?", "urgent?", "urgent?"]), is_shared(["a", "b", "b"])
        (True, False)
    """
    return 0 < 2 * len({*texts}) <= len(texts)


def is_constant(texts: Collection[str | None]) -> bool:
    """Return whether several rows all have one text, so that it does not tell them apart."""
    return len(texts) > 1 and len({*texts}) == 1 and None not in texts
