"""The columns of a table of others by role: what the user says, names, and what the cells prove.

Two columns for one role are a question to the user, and so is a role that has none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pact_eval._json import Json
from pact_eval.data.labelled.answers import of_texts
from pact_eval.data.labelled.columns import SETS, find_roles
from pact_eval.data.labelled.entries import ROW_NAMES
from pact_eval.data.labelled.reading import IGNORED, PREDICTED, ROLES, columns_option
from pact_eval.errors import ShapeError
from pact_eval.importing.labels_file import NO_LABELS
from pact_eval.importing.likely_columns import label_remedies, outcome_remedy, score_remedies
from pact_eval.importing.one_number import (
    ANSWER_COLUMN,
    IF_UNLABELLED,
    ForeignTable,
    KnownColumns,
    TableRoles,
    settle_one_number,
)
from pact_eval.importing.row_reader import SCORES
from pact_eval.importing.table_cells import scored_answer, scores_of
from pact_eval.importing.table_rows import check_repeats

_OWN_REFERENCES: Final = ("reference", "gold")
_GROUPS: Final = {"logprob": "log_probabilities", "logit": "logits"}
_EVEN: Final = 0.5


def split_predictions(table: ForeignTable) -> ForeignTable:
    """Take the scores out of a column of predictions that has them too.

    Classifiers return {"label": "spam", "score": 0.98}, or a list with an object for each answer.
    The first is a prediction with its confidence, the second has the probabilities.
    """
    entries, reading = table.entries, table.reading
    names = reading.columns.get("prediction") or [
        name for name in PREDICTED["prediction"] if name in entries.columns
    ]
    stated_scores = (reading.columns.get(kind, ()) for kind in SCORES)
    others = {x for names in (*stated_scores, *map(PREDICTED.get, SCORES)) for x in names or ()}
    has_others = any(name in others or ANSWER_COLUMN.fullmatch(name) for name in entries.columns)
    if len(names) != 1 or has_others:
        return table
    (name,) = names
    cells = entries.column(name)
    found = of_texts(scored_answer, cells)
    stated = {role: tuple(each) for role, each in reading.columns.items() if role != "prediction"}
    full = [at for at, cell in enumerate(cells) if cell not in (None, "")]
    if full and all(found[at] for at in full):
        score = f"{name}.score"
        pairs = zip(entries.entries, found, strict=True)
        rows = [
            replace(entry, value=entry.value | ({name: one[0], score: one[1]} if one else {}))
            for entry, one in pairs
        ]
        entries = replace(entries, entries=rows)
        stated |= {"prediction": (name,), "confidence": (score,)}
    elif full and all(_are_several(cells[at]) for at in full):
        stated |= {"probabilities": (name,)}
    else:
        return table
    return replace(table, entries=entries, reading=replace(reading, columns=stated))


def _are_several(cell: Json) -> bool:
    """Return whether a cell has numbers with the names of two or more answers."""
    try:
        scores = scores_of("probabilities", cell)
    except ValueError:
        return False
    return scores is not None and scores.names is not None and len(scores.names) > 1


def roles_of_table(table: ForeignTable) -> TableRoles:
    """Return the columns of a table by role: one for each, but for lists of columns.

    Raises:
        ShapeError: a named column is missing, two fit one role, or a role has none.
    """
    entries, stated = table.entries, table.reading.columns
    columns, known_set = find_roles(entries, table.reading, table.source, counters=True)
    form = None if known_set is None else SETS[known_set][1]
    roles = TableRoles(columns, {}, form, unlabelled=table.reading.unlabelled)
    known = KnownColumns(table, roles)
    taken = {name for names in (*columns.values(), *stated.values()) for name in names}
    free = [name for name in entries.columns if name not in taken]
    if stated.keys().isdisjoint(SCORES):
        roles.groups |= _groups_of_answers(free)
    for role, tried in PREDICTED.items():
        names = stated.get(role) or tuple(name for name in tried if name in free)
        if len(names) > 1 and role in stated:
            shared = _prefix_of_all(names)
            roles.groups[role] = {name: name[len(shared) :].strip("()[] ") for name in names}
        elif names:
            columns[role] = names
    listed = columns.pop("probabilities", ())
    single = [name for name in listed if known.numbers(name) is not None]
    lists = tuple(name for name in listed if name not in single)
    columns |= {"probabilities": lists} if lists else {}
    if roles.has_scores:
        columns.pop("confidence", None)
    if roles.unlabelled:
        check_repeats(table, roles)
        _leave_labels_out(roles)
    else:
        _settle_answer(roles, table)
    _check_roles(roles, table)
    if not roles.has_scores:
        _take_one_number(known, single)
    _check_parts(known)
    return roles


def _groups_of_answers(free: Sequence[str]) -> dict[str, Mapping[str, str]]:
    """Return the columns with a number for one answer each, by kind."""
    groups: dict[str, dict[str, str]] = {}
    for name in free:
        match = ANSWER_COLUMN.fullmatch(name)
        if match:
            kind = _GROUPS.get(match[1].lower(), "probabilities")
            groups.setdefault(kind, {})[name] = match[2]
    return {kind: group for kind, group in groups.items() if len(group) > 1}


def _prefix_of_all(names: Sequence[str]) -> str:
    """Return what all names begin with, up to a separator."""
    low, high = min(names), max(names)
    same = next((i for i, c in enumerate(low) if i >= len(high) or high[i] != c), len(low))
    ends = [match.end() for match in re.finditer(r"[_. :/\-(\[]+", low[:same])]
    return low[: ends[-1]] if ends else ""


def _leave_labels_out(roles: TableRoles) -> None:
    """Take the right answers out of the roles; a column "answer" alone is of the model."""
    columns = roles.columns
    labels = columns.pop("reference", ())
    if not roles.has_scores and "prediction" not in columns and "answer" in labels:
        columns["prediction"] = ("answer",)
        labels = tuple(name for name in labels if name != "answer")
    roles.labels = labels + columns.get("correct", ())
    if roles.has_scores or "prediction" in columns:
        columns.pop("correct", None)


def _settle_answer(roles: TableRoles, table: ForeignTable) -> None:
    """Take a column "answer" next to our own names, or to the data, as what a model said.

    Raises:
        ShapeError: nothing says which of two columns is the right answer.
    """
    names, references = roles.columns.get("reference", ()), table.references
    if "reference" in table.reading.columns or "prediction" in roles.columns:
        return
    others = tuple(name for name in names if name != "answer")
    own = bool(others) and {*others} <= {*_OWN_REFERENCES}
    if "answer" in names and (own if references is None else not roles.has_scores):
        roles.columns |= {"prediction": ("answer",), "reference": others}
        if not others:
            del roles.columns["reference"]
    elif len(names) == 2 and references is None and not roles.has_scores:
        a, b = names
        raise ShapeError(
            f"{table.source}: {a} or {b} can be the right answer, and the other one that of the "
            f"model. Decide with --columns reference={a},prediction={b} or --columns reference={b},"
            f"prediction={a}"
        )


def _check_roles(roles: TableRoles, table: ForeignTable) -> None:
    """Check that every role has one column, and that one column has the numbers.

    Raises:
        ShapeError: several fit a role.
    """
    for role, tried in {**ROLES, **PREDICTED}.items():
        names = [name for name in roles.columns.get(role, ()) if name in tried]
        if len(names) > 1 and role not in table.reading.columns:
            either = " or ".join(columns_option(role, [name]) for name in names)
            raise ShapeError(
                f"{table.source}: {' and '.join(names)} both fit the {role}; use {either}"
            )
    kinds = [name for kind in SCORES for name in roles.columns.get(kind, ())]
    kinds += [next(iter(group)) for group in roles.groups.values()]
    if len(kinds) > 1:
        either = " or ".join(columns_option(IGNORED, [name]) for name in kinds)
        raise ShapeError(
            f"{table.source}: {' and '.join(kinds)} all have numbers for the answers; leave all "
            f"but one out: {either}"
        )


def _take_one_number(known: KnownColumns, single: Sequence[str]) -> None:
    """Give a column that has the only number of each row its role.

    Args:
        known: the table, which has no numbers for all answers.
        single: columns with one number per row that are called probabilities.

    Raises:
        ShapeError: it may be several things.
    """
    table, roles, columns = known.table, known.roles, known.roles.columns
    named = table.reading.columns
    stated = next(iter(named.get("probabilities", ())), None)
    taken = roles.used | {name for names in named.values() for name in names}
    free = [name for name in known.entries.columns if name not in taken]
    sure = roles.first("confidence")
    if sure is not None and not stated:
        # No chosen one of two answers has less than 1/2.
        low = (
            known.is_of_two
            and "prediction" in columns
            and any(x < _EVEN for x in known.known(sure))
        )
        answered = not columns.keys().isdisjoint(("prediction", "correct"))
        if "confidence" in named or (answered and not low):
            roles.percent = known.are_in_percent(sure)
            return
        free.append(sure)
    if not (roles.unlabelled or table.references is not None or "reference" in columns):
        return
    found = settle_one_number(known, free, stated if stated in single else None)
    if found is None:
        return
    column, answer = found
    columns.pop("confidence", None)
    if answer is None:
        columns["confidence"] = (column,)
    else:
        roles.groups["probabilities"] = {column: known.answers[answer]}
        roles.rest = known.answers[1 - answer]


def _check_parts(known: KnownColumns) -> None:
    """Check that there is a right answer, and something that a model said.

    Raises:
        ShapeError: one of them has no column.
    """
    table, roles, columns = known.table, known.roles, known.roles.columns
    answered = roles.has_scores or "prediction" in columns
    if not answered and {"confidence", "correct"} <= columns.keys():
        for role in columns.keys() & {"reference", "options"}:
            del columns[role]
        roles.outcomes, roles.percent = True, known.are_in_percent(columns["confidence"][0])
        return
    labelled = roles.unlabelled or table.references is not None or "reference" in columns
    if labelled and answered:
        return
    present = known.entries.columns
    taken = roles.used | {*table.reading.columns.get(IGNORED, ()), ROW_NAMES}
    free = [name for name in present if name not in taken]
    there = f"there are {', '.join(present) or 'no columns'}. Name it: "
    outcomes = outcome_remedy(known, free)
    if not labelled:
        named = " or ".join(label_remedies(known, free, "reference"))
        unnamed = "--columns reference=NAME, or give the file that has it: --data FILE"
        raise ShapeError(
            f"{table.source}: no column is known as the right answer "
            f"({', '.join(ROLES['reference'])}); {there}{named or unnamed}{outcomes}. {NO_LABELS}"
        )
    remedies = score_remedies(known, free) + label_remedies(known, free, "prediction")
    remedies = remedies or [columns_option(x, ["NAME"]) for x in ("probabilities", "prediction")]
    raise ShapeError(
        f"{table.source}: no column is known as what a model said; {there}"
        f"{' or '.join(remedies)}{outcomes}"
        f"{IF_UNLABELLED if columns.get('reference') == ('answer',) else ''}"
    )
