"""Columns that may have a role that no name gives: messages offer them, nothing reads them so."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence

from pact_eval.data.labelled.answers import (
    TEXT,
    Options,
    cell_text,
    distinct_labels,
    fold_label,
    is_unlabelled,
    numbered_columns,
)
from pact_eval.data.labelled.entries import Entries
from pact_eval.data.labelled.reading import columns_option
from pact_eval.importing.one_number import ANSWER_COLUMN, numbers_of, options_option
from pact_eval.importing.table_cells import scores_of

_SHARE = 0.9
_MOST_LABELS = 20
_SUM_ERROR = 0.01
_OF_A_MODEL = re.compile(r"pred|guess|output|model|said", re.IGNORECASE)


def likely_labels(
    entries: Entries, columns: Sequence[str], words: Sequence[Collection[str]]
) -> list[str]:
    """Return the columns that nearly always have one of the words of the row.

    Args:
        entries: the rows.
        columns: columns without a role.
        words: (n,) the folded answers of every row; empty if they are not known: then the only
            column of a few labels is returned, or those whose labels another column has too.

    Examples:
        >>> from pact_eval.data.labelled.entries import Entry
        >>> rows = [Entry(1, {"a": "Yes", "b": "x"}), Entry(2, {"a": "no", "b": "y"})]
        >>> likely_labels(Entries("CSV", rows), ["a", "b"], [{"yes", "no"}] * 2)
        ['a']
    """
    if not words:
        few = [name for name in columns if _has_few_labels(entries, name)]
        labels = {name: {*_labels(entries, name)} for name in few}
        alike = [
            name
            for name in few
            if any(
                labels[name] <= labels[other] or labels[other] <= labels[name]
                for other in few
                if other != name
            )
        ]
        right = [name for name in alike if not _OF_A_MODEL.search(name)] or alike
        return few if len(few) == 1 else right
    likely = []
    for name in columns:
        cells = [*map(cell_text, entries.column(name))]
        pairs = zip(cells, words, strict=True)
        known = [fold_label(cell) in row for cell, row in pairs if not is_unlabelled(cell) and cell]
        if known and sum(known) >= _SHARE * len(cells):
            likely.append(name)
    return likely


def _labels(entries: Entries, column: str) -> Sequence[str]:
    return distinct_labels(entries.column(column))[0]


def _has_few_labels(entries: Entries, column: str) -> bool:
    """Return whether a column has a few labels that repeat, and no decimal numbers.

    True and false may say whether an answer is right.
    """
    labels = _labels(entries, column)
    if {fold_label(label) for label in labels} <= {"true", "false"}:
        return False
    numbers = numbers_of(entries, column) or ()
    whole = all(number is None or number.is_integer() for number in numbers)
    return whole and 2 <= len(labels) <= min(_MOST_LABELS, len(entries.entries) // 2)


def score_remedies(
    entries: Entries, columns: Sequence[str], reference: str | None, answers: Sequence[str]
) -> list[str]:
    """Return the options that name columns of numbers as those of the answers.

    Args:
        entries: the rows.
        columns: columns without a role.
        reference: the column of the right answer; None if another file has it.
        answers: the different answers of the file; empty if rows have their own.
    """
    lists = [columns_option(kind, [name]) for name in columns if (kind := _kind_of(entries, name))]
    if lists:
        return lists
    numbers = {name: numbers_of(entries, name) for name in columns}
    numeric = {
        name: [math.nan if x is None else x for x in found]
        for name, found in numbers.items()
        if found is not None
    }
    named = [name for name in numeric if _index_of_name(name, answers) is not None]
    if len(named) == len(answers) > 1:
        if _sum_to_one([numeric[name] for name in named]):
            return [columns_option("probabilities", named)]
        if any(not 0 <= x <= 1 for name in named for x in numeric[name]):
            return [columns_option("logits", named)]
    for group in _groups(numeric):
        if _sum_to_one([numeric[name] for name in group]):
            option = columns_option("probabilities", group)
            if reference is None:
                return [option]
            cells = [*map(cell_text, entries.column(reference))]
            rows = [*zip(*(numeric[name] for name in group), strict=True)]
            orders = likely_orders(rows, cells, answers)
            return [f"{option} {order}" for order in orders] or [option]
    between = [name for name, xs in numeric.items() if all(0 <= x <= 1 for x in xs)]
    between = [name for name in between if any(0 < x < 1 for x in numeric[name])]
    if len(answers) != 2 or len(between) != 1:
        return []
    both = [options_option(answers[::-1]), options_option(answers)]
    option = columns_option("probabilities", between)
    return [f"{option} {order}" for order in both if order is not None]


def _kind_of(entries: Entries, column: str) -> str | None:
    """Return what the numbers for several answers in the cells of a column are; None if none."""
    numbers: list[tuple[float, ...]] = []
    for cell in entries.column(column):
        if cell in (None, ""):
            continue
        try:
            scores = scores_of("logits", cell)
        except ValueError:
            return None
        if scores is None or len(scores.numbers) < 2:
            return None
        numbers.append(scores.numbers)
    if not numbers:
        return None
    if all(min(row) >= 0 and abs(math.fsum(row) - 1) <= _SUM_ERROR for row in numbers):
        return "probabilities"
    return "log_probabilities" if all(max(row) <= 0 for row in numbers) else "logits"


def _index_of_name(column: str, answers: Sequence[str]) -> int | None:
    match = ANSWER_COLUMN.fullmatch(column)
    return Options(tuple(answers)).index(match[2] if match else column, TEXT)


def _groups(numeric: Collection[str]) -> list[list[str]]:
    """Return groups of columns that may have one number per answer: all, or those of one stem."""
    numbered = [[*group.values()] for _, group in numbered_columns([*numeric])]
    return [group for group in ([*numeric], *numbered) if len(group) > 1]


def _sum_to_one(columns: Sequence[Sequence[float]]) -> bool:
    rows = [*zip(*columns, strict=True)]
    return all(min(row) >= 0 and abs(sum(row) - 1) <= _SUM_ERROR for row in rows)


def likely_orders(
    rows: Sequence[Sequence[float]], right: Sequence[str | None], answers: Sequence[str]
) -> list[str]:
    """Return the options for two orders of answers: sorted, and that with the most right answers.

    Args:
        rows: (n, C) the numbers of every row.
        right: (n,) the right answer of every row.
        answers: (C,) the answers, sorted, as scikit-learn has them.

    Returns:
        Each with a word on it; one if both are the same, none if the numbers are not of so many
        answers.

    Examples:
        >>> likely_orders([(0.9, 0.1), (0.2, 0.8)], ["yes", "no"], ["no", "yes"])
        ['--options yes,no (100.0% right)', '--options no,yes (0.0% right, sorted)']
    """
    from scipy.optimize import linear_sum_assignment  # slow to import, for a message only

    if not rows or {len(row) for row in rows} != {len(answers)}:
        return []
    options = Options(tuple(answers))
    hits = [[0] * len(answers) for _ in answers]
    for row, cell in zip(rows, right, strict=True):
        index = options.index(cell, TEXT)
        if index is not None:
            hits[max(range(len(row)), key=row.__getitem__)][index] += 1
    best = [*map(int, linear_sum_assignment(hits, maximize=True)[1])]
    by_name = [*range(len(answers))]
    offered = []
    for order, what in {tuple(best): "", tuple(by_name): ", sorted"}.items():
        share = sum(hits[at][index] for at, index in enumerate(order)) / max(1, len(rows))
        option = options_option([answers[index] for index in order])
        offered += [] if option is None else [f"{option} ({share:.1%} right{what})"]
    return offered
