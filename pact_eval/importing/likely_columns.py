"""Columns that may have a role that no name gives: messages offer them, nothing reads them so."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import Final

from pact_eval.data.labelled.answers import (
    TEXT,
    Options,
    cell_text,
    distinct_labels,
    fold_label,
    is_unlabelled,
    numbered_columns,
    of_texts,
    options_of_row,
)
from pact_eval.data.labelled.questions import DraftError
from pact_eval.data.labelled.reading import IGNORED, columns_option, roles_option
from pact_eval.importing.one_number import KnownColumns, options_option
from pact_eval.importing.table_cells import scores_of, truth_of

_SHARE: Final = 0.9
_MOST_LABELS: Final = 20
_MOST_OFFERED: Final = 3
_SUM_ERROR: Final = 0.01
_OF_A_MODEL: Final = re.compile(r"pred|guess|output|model|said", re.IGNORECASE)


def label_remedies(known: KnownColumns, free: Sequence[str], role: str) -> list[str]:
    """Return the options that name columns of answers: those that nearly always have one.

    If the answers are not known, it is the only column of a few labels, or those whose labels
    another column has too.

    Args:
        known: the table.
        free: columns without a role.
        role: of the column that is lacking, "reference" or "prediction".
    """
    words, likely = _words_of_rows(known), []
    for name in free if words else ():
        cells = [*map(cell_text, known.entries.column(name))]
        pairs = zip(cells, words, strict=True)
        found = [fold_label(cell) in row for cell, row in pairs if cell and not is_unlabelled(cell)]
        if found and sum(found) >= _SHARE * len(cells):
            likely.append(name)
    if not words and (role == "reference" or known.roles.unlabelled):
        labels = {name: {*distinct_labels(known.entries.column(name))[0]} for name in free}
        few = {name: each for name, each in labels.items() if _are_few(known, name, each)}
        alike = [
            name
            for name, each in few.items()
            if any(each <= few[x] or few[x] <= each for x in few if x != name)
        ]
        right = [name for name in alike if not _OF_A_MODEL.search(name)] or alike
        likely = [*few] if len(few) == 1 else right
    return [columns_option(role, [name]) for name in likely[:_MOST_OFFERED]]


def _are_few(known: KnownColumns, column: str, labels: Collection[str]) -> bool:
    """Return whether labels are few and repeat, and no decimal numbers.

    True and false may say whether an answer is right.
    """
    if {*map(fold_label, labels)} <= {"true", "false"}:
        return False
    whole = all(number.is_integer() for number in known.known(column))
    return whole and 2 <= len(labels) <= min(_MOST_LABELS, len(known.entries.entries) // 2)


def _words_of_rows(known: KnownColumns) -> list[frozenset[str]]:
    """Return the folded answers of each row, as far as other columns know them; or nothing."""
    entries, roles = known.entries, known.roles
    columns = roles.columns.get("options")
    if columns:
        rows = []
        for entry in entries.entries:
            try:
                texts = options_of_row(entry.value, columns, roles.first("reference")).texts
            except DraftError:
                texts = ()
            rows.append(frozenset(map(fold_label, texts)))
        return rows
    names = [name for group in roles.groups.values() for name in group.values()]
    stated = known.table.reading.options
    words = frozenset(map(fold_label, stated or names or known.answers))
    return [words] * len(entries.entries) if words else []


def score_remedies(known: KnownColumns, free: Sequence[str]) -> list[str]:
    """Return the options that name columns of numbers as those of the answers.

    Args:
        known: the table.
        free: columns without a role.
    """
    lists = [columns_option(kind, [name]) for name in free if (kind := _kind_of(known, name))]
    if lists:
        return lists
    found = {name: known.numbers(name) for name in free}
    numeric = {
        name: [math.nan if x is None else x for x in numbers]
        for name, numbers in found.items()
        if numbers is not None
    }

    def sum_to_one(names: Sequence[str]) -> bool:
        rows = zip(*(numeric[name] for name in names), strict=True)
        return all(min(row) >= 0 and abs(sum(row) - 1) <= _SUM_ERROR for row in rows)

    answers, reference = known.answers, known.roles.first("reference")
    named = [name for name in numeric if known.index_of_name(name) is not None]
    named = named if len(named) == len(answers) > 1 else []
    if named and any(not 0 <= x <= 1 for name in named for x in numeric[name]):
        return [columns_option("logits", named)]
    # All columns of numbers, or those of one stem, may have a number for each answer.
    stems = ([*group.values()] for _, group in numbered_columns([*numeric]))
    for group in (named, [*numeric], *stems):
        if len(group) > 1 and sum_to_one(group):
            option, orders = columns_option("probabilities", group), list[str]()
            if reference is not None and group != named:
                rows = [*zip(*(numeric[name] for name in group), strict=True)]
                right = [*map(cell_text, known.entries.column(reference))]
                orders = likely_orders(rows, right, answers)
            return [f"{option} {order}" for order in orders] or [option]
    between = [name for name, numbers in numeric.items() if all(0 <= x <= 1 for x in numbers)]
    between = [name for name in between if known.are_probabilities(name)]
    pairs = (answers[::-1], answers) if len(answers) == 2 and len(between) == 1 else ()
    orders = [order for order in map(options_option, pairs) if order is not None]
    return [f"{columns_option('probabilities', between)} {order}" for order in orders]


def _kind_of(known: KnownColumns, column: str) -> str | None:
    """Return what the numbers for several answers in the cells of a column are; None if none."""
    try:
        cells = [cell for cell in known.entries.column(column) if cell not in (None, "")]
        scores = [scores_of("logits", cell) for cell in cells]
    except ValueError:
        return None
    numbers = [() if each is None else each.numbers for each in scores]
    if not numbers or min(map(len, numbers)) < 2:
        return None
    if all(min(row) >= 0 and abs(math.fsum(row) - 1) <= _SUM_ERROR for row in numbers):
        return "probabilities"
    return "log_probabilities" if all(max(row) <= 0 for row in numbers) else "logits"


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


def outcome_remedy(known: KnownColumns, free: Sequence[str]) -> str:
    """Return the remedy for a table that has a confidence, or whether the answers are right."""
    roles = known.roles
    named = {role: roles.first(role) for role in ("confidence", "correct")}
    if roles.has_scores or {*named.values()} == {None}:
        return ""
    for role, name in named.items():
        if name is None:
            fitting = [each for each in free if _fits_outcome(known, role, each)]
            named[role] = fitting[0] if len(fitting) == 1 else "NAME"
    stated = {role: [str(name)] for role, name in named.items()}
    if "prediction" in roles.columns:
        stated[IGNORED] = [*roles.columns["prediction"]]
    return f". If it only says whether each answer is right: {roles_option(stated)}"


def _fits_outcome(known: KnownColumns, role: str, column: str) -> bool:
    """Return whether a column may be a confidence, or says in every cell what is right."""
    if role == "confidence":
        return known.are_probabilities(column)
    try:
        return None not in of_texts(truth_of, known.entries.column(column))
    except ValueError:
        return False
