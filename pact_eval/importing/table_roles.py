"""Columns of a table with the answers of a model, by role.

Besides the roles of labelled data (`data/labelled/roles.py`), a table has a prediction, numbers for
the answers, a confidence, or whether the answer is right. Numbers are in one column, or in one per
answer: `p_refund`, `prob.refund`, or columns that are named as the labels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pact_eval._json import Json
from pact_eval.data.labelled.answers import (
    Form,
    cell_text,
    fold_label,
)
from pact_eval.data.labelled.columns import (
    roles_of_file,
)
from pact_eval.data.labelled.entries import Entries
from pact_eval.data.labelled.reading import Reading
from pact_eval.data.labelled.roles import IGNORED, PREDICTED, columns_for, columns_option
from pact_eval.errors import ShapeError
from pact_eval.importing.references import References, texts_of_record
from pact_eval.importing.scores import (
    number_of,
    scores_of,
)

_PREDICTED: Final = re.compile(r"pred|prob|score|logit", re.IGNORECASE)
"""In the name of a column that a model has made; others may be votes of annotators."""

__all__ = ["SCORE_KINDS", "TableRoles", "roles_of_predictions", "unread_numbers"]

SCORE_KINDS: Final = ("probabilities", "log_probabilities", "logits")
"""Roles of numbers for the answers."""

_GROUPS: Final = (
    ("log_probabilities", r"log[_ ]?prob(?:s|abilit(?:y|ies))?|logp|log[_ ]p|lp"),
    ("logits", r"logits?"),
    ("probabilities", r"prob(?:s|a|abilit(?:y|ies))?|p|pr"),
)


@dataclass(frozen=True)
class TableRoles:
    """Columns by role, and columns with one number for one answer each.

    Attributes:
        columns: by role, its columns.
        groups: by kind of number, the answer that each column is of.
        stated: roles that the user names.
        form: how the public set that has these columns writes answers.
    """

    columns: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, Mapping[str, str]]
    stated: frozenset[str]
    form: Form | None = None

    def first(self, role: str) -> str | None:
        """Return the column of a role; None without one."""
        return next(iter(self.columns.get(role, ())), None)

    @property
    def has_scores(self) -> bool:
        """Whether there are numbers for the answers."""
        return bool(self.groups) or any(kind in self.columns for kind in SCORE_KINDS)

    @property
    def used(self) -> set[str]:
        """Columns that have a role."""
        named = {name for names in self.columns.values() for name in names}
        return named | {name for names in self.groups.values() for name in names}


def roles_of_predictions(
    entries: Entries, reading: Reading, source: str, references: References | None = None
) -> TableRoles:
    """Return the columns of a table by role.

    Args:
        entries: its rows.
        reading: what the user says of it.
        source: name of the file, for messages.
        references: records with the right answers; None if the table has them.

    Raises:
        ShapeError: a named column is missing.
    """
    roles, known = roles_of_file(entries, reading, source)
    stated = reading.columns
    taken = {name for names in (*roles.values(), *stated.values()) for name in names}
    free = [name for name in entries.columns if name not in taken]
    groups = {} if {*SCORE_KINDS} & {*stated} else _groups_of_answers(free)
    free = [name for name in free if not any(name in group for group in groups.values())]
    for role in PREDICTED:
        names = stated.get(role) or tuple(columns_for(role, free))
        if len(names) > 1 and role in stated:
            shared = _shared_prefix(names)
            groups[role] = {name: name[len(shared) :].strip("()[] ") for name in names}
        elif names:
            roles[role] = names
    single = [] if "probabilities" in stated else _drop_single_numbers(entries, roles)
    form = None if known is None else known.form
    found = TableRoles(roles, groups, frozenset(stated), form)
    free = [name for name in free if name not in found.used]
    found = _without_confidence(_with_labelled_scores(entries, found, free, references, source))
    if single and not found.has_scores and "confidence" not in found.columns:
        message = (
            f"{source}: {single[0]} has one number per row: the probability of the answer that the "
            f"model chose, or of one of the answers. Decide with "
            f"{columns_option('confidence', single[:1])} or {columns_option(IGNORED, single[:1])}"
        )
        raise ShapeError(message)
    return found


def _groups_of_answers(free: Sequence[str]) -> dict[str, Mapping[str, str]]:
    """Return the columns with a number for one answer each, by kind."""
    groups: dict[str, Mapping[str, str]] = {}
    for kind, prefix in _GROUPS:
        pattern = re.compile(rf"(?:{prefix})[_. :/\-(\[]+(.+?)[)\]]?", re.IGNORECASE)
        named = {name: match[1] for name in free if (match := pattern.fullmatch(name))}
        if len(named) > 1:
            groups[kind] = named
            free = [name for name in free if name not in named]
    return groups


def _drop_single_numbers(entries: Entries, roles: dict[str, tuple[str, ...]]) -> list[str]:
    """Take the role of numbers from columns with one number per row, and return these columns."""
    names = roles.get("probabilities", ())
    single = [name for name in names if _is_single(entries, name)]
    if single:
        roles.pop("probabilities")
        kept = tuple(name for name in names if name not in single)
        roles |= {"probabilities": kept} if kept else {}
    return single


def _with_labelled_scores(
    entries: Entries,
    roles: TableRoles,
    free: Sequence[str],
    references: References | None,
    source: str,
) -> TableRoles:
    """Return roles with numbers that have no usual name, but the labels as names."""
    if not roles.has_scores:
        roles = replace(roles, groups=_scores_by_label(entries, roles, free, references, source))
    if not roles.has_scores:
        named = [
            name
            for name in free
            if _PREDICTED.search(name) and _has_labels(entries, roles.first("reference"), name)
        ]
        if len(named) == 1:
            roles = replace(roles, columns={**roles.columns, "probabilities": (named[0],)})
    return roles


def _without_confidence(roles: TableRoles) -> TableRoles:
    """Return roles without a confidence if all numbers are known."""
    if not roles.has_scores:
        return roles
    others = {role: names for role, names in roles.columns.items() if role != "confidence"}
    return replace(roles, columns=others)


def _has_labels(entries: Entries, reference: str | None, name: str) -> bool:
    """Return whether every cell of a column has numbers by name, and one for the right answer."""
    for entry in entries.entries:
        cell, label = entry.value.get(name), cell_text(entry.value.get(str(reference)))
        try:
            scores = None if _is_plain(cell) else scores_of("probabilities", cell)
        except ValueError:
            return False
        names = () if scores is None or scores.names is None else scores.names
        if label is None or fold_label(label) not in map(fold_label, names):
            return False
    return True


def _is_single(entries: Entries, name: str) -> bool:
    """Return whether a column has one number per row, which can be that of the answer only."""
    for entry in entries.entries:
        try:
            number_of(entry.value.get(name))
        except ValueError:
            return False
    return True


def unread_numbers(entries: Entries, used: Collection[str]) -> list[str]:
    """Return columns without a role whose cells are lists or objects of numbers."""
    unread = []
    for name in entries.columns:
        cells = [entry.value.get(name) for entry in entries.entries if name not in used]
        try:
            scores = [scores_of("logits", cell) for cell in cells if not _is_plain(cell)]
        except ValueError:
            continue
        sizes = [len(each.numbers) for each in scores if each is not None]
        if sizes and len(sizes) == len(cells) and min(sizes) > 1:
            unread.append(name)
    return unread


def _is_plain(cell: Json) -> bool:
    """Return whether a cell is one value, or text that is no list or object."""
    return not isinstance(cell, list | dict) and str(cell).strip()[:1] not in ("[", "{")


def _shared_prefix(names: Sequence[str]) -> str:
    """Return what all names begin with, up to a separator."""
    low, high = min(names), max(names)
    same = next((i for i, c in enumerate(low) if i >= len(high) or high[i] != c), len(low))
    ends = [match.end() for match in re.finditer(r"[_. :/\-(\[]+", low[:same])]
    return low[: ends[-1]] if ends else ""


def _scores_by_label(
    entries: Entries,
    roles: TableRoles,
    free: Sequence[str],
    references: References | None,
    source: str,
) -> dict[str, Mapping[str, str]]:
    """Return columns of numbers whose names are the labels, if they sum to 1 in every row.

    Raises:
        ShapeError: they may be the right answers once more.
    """
    column = roles.first("reference")
    labels = {cell_text(entry.value.get(column or "")) for entry in entries.entries}
    if references is not None:
        labels = {text for record in references.records for text in texts_of_record(record)}
    labels = {fold_label(label) for label in labels if label not in (None, "-") and label}
    named = [name for name in free if fold_label(name) in labels]
    if len(named) < 2 or {fold_label(name) for name in named} != labels:
        return {}
    right = True
    for entry in entries.entries:
        try:
            numbers = [number_of(entry.value.get(name)) or 0.0 for name in named]
        except ValueError:
            return {}
        if abs(math.fsum(numbers) - 1) > 1e-2:
            return {}
        top = named[numbers.index(max(numbers))]
        right = right and fold_label(top) == fold_label(
            cell_text(entry.value.get(column or "")) or ""
        )
    if right and column is not None:
        message = (
            f"{source}: {', '.join(named)} may be probabilities of a model, or the right answers "
            f"once more: the largest is {column} in every row. Decide with "
            f"{columns_option('probabilities', named)} or {columns_option(IGNORED, named)}"
        )
        raise ShapeError(message)
    return {"probabilities": {name: name for name in named}}
