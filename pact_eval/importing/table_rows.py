"""Rows of a table of others: its columns by role, its cells parsed, joined with their records.

Texts of the rows of an imported table: questions and answers, by the ids of the run.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from pact_eval._json import Json, dumps, sha256_of_json
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.data.labelled.answers import (
    Form,
    Options,
    distinct_labels,
    flagged,
    fold_label,
    of_texts,
    options_of_row,
)
from pact_eval.data.labelled.columns import SETS, find_roles, unwrapped
from pact_eval.data.labelled.entries import ROW_NAMES, Entries, read_entries
from pact_eval.data.labelled.identity import is_constant, is_shared, text_of_row
from pact_eval.data.labelled.questions import DraftError, as_text
from pact_eval.data.labelled.reader import read_labelled
from pact_eval.data.labelled.reading import (
    IGNORED,
    PREDICTED,
    ROLES,
    Reading,
    columns_option,
    roles_option,
)
from pact_eval.data.records import Record
from pact_eval.errors import Problem, ShapeError
from pact_eval.importing.labels_file import NO_LABELS
from pact_eval.importing.likely_columns import likely_labels, score_remedies
from pact_eval.importing.one_number import (
    ANSWER_COLUMN,
    Question,
    has_unlikely,
    is_in_percent,
    numbers_of,
    settle_one_number,
)
from pact_eval.importing.source import References, texts_of_record
from pact_eval.importing.table_cells import (
    Scores,
    check_repeats,
    confidence_of,
    number_of,
    numbers_in,
    read_each,
    scored_answer,
    scores_of,
    truth_of,
    with_names,
)

_OWN_REFERENCES: Final = ("reference", "gold")
_SCORES: Final = ("probabilities", "log_probabilities", "logits")
_GROUPS: Final = {"logprob": "log_probabilities", "logit": "logits"}
_TIE: Final = 1e-12
_MOST_OFFERED: Final = 3
_HASH: Final = 12
_DIGITS: Final = 15
"""So many decimals of 1 - p are kept: 1 - 0.9 is 0.1, as a file with both columns has it."""


@dataclass(frozen=True)
class ForeignTable:
    """A table of others, and what the user says of it.

    Attributes:
        entries: its rows.
        reading: what the user says of it.
        source: name of the file, for messages.
        references: records with the right answers, joined by id; None if the table has them.
    """

    entries: Entries
    reading: Reading
    source: str
    references: References | None = None


@dataclass(frozen=True)
class TableRoles:
    """Columns by role, and columns with one number for one answer each.

    Attributes:
        columns: by role, its columns.
        groups: by kind of number, the answer that each column is of.
        form: how the public set that has these columns writes answers.
        outcomes: whether rows say how sure a model is and whether it is right, and no answers.
        rest: the other answer, if there are two and one column has the probability of one.
        percent: whether confidences are in percent.
        unlabelled: whether right answers are left out.
        labels: columns of right answers that are left out.
    """

    columns: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, Mapping[str, str]]
    form: Form | None = None
    outcomes: bool = False
    rest: str | None = None
    percent: bool = False
    unlabelled: bool = False
    labels: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns of the context and the question."""
        return (*self.columns.get("state", ()), *self.columns.get("question", ()))

    def first(self, role: str) -> str | None:
        """Return the column of a role; None without one."""
        return next(iter(self.columns.get(role, ())), None)

    @property
    def probability_of(self) -> str:
        """The answer whose probability the only column of numbers has."""
        return next(iter(self.groups["probabilities"].values()))

    @property
    def has_scores(self) -> bool:
        """Whether there are numbers for the answers."""
        return bool(self.groups) or any(kind in self.columns for kind in _SCORES)

    @property
    def used(self) -> set[str]:
        """Columns that have a role."""
        named = {name for names in self.columns.values() for name in names}
        return named | {name for names in self.groups.values() for name in names}


def roles_of_table(table: ForeignTable) -> TableRoles:
    """Return the columns of a table by role: one for each, but for lists of columns.

    Raises:
        ShapeError: a named column is missing, two fit one role, or a role has none.
    """
    entries, reading = table.entries, table.reading
    columns, known = find_roles(entries, reading, table.source, counters=True)
    stated = reading.columns
    taken = {name for names in (*columns.values(), *stated.values()) for name in names}
    free = [name for name in entries.columns if name not in taken]
    groups = {} if {*_SCORES} & {*stated} else _groups_of_answers(free)
    for role, tried in PREDICTED.items():
        names = stated.get(role) or tuple(name for name in tried if name in free)
        if len(names) > 1 and role in stated:
            shared = _prefix_of_all(names)
            groups[role] = {name: name[len(shared) :].strip("()[] ") for name in names}
        elif names:
            columns[role] = names
    single = _take_single_numbers(columns, entries)
    form = None if known is None else SETS[known][1]
    roles = TableRoles(columns, groups, form, unlabelled=reading.unlabelled)
    if roles.has_scores:
        columns.pop("confidence", None)
    if reading.unlabelled:
        check_repeats(columns, entries, table.source)
        roles = _without_labels(roles)
        columns = {**roles.columns}
    else:
        _settle_answer(columns, roles, table)
    _check_roles(roles, table)
    if not roles.has_scores:
        roles = _with_one_number(roles, single, table)
    return _check_parts(roles, table)


def split_predictions(table: ForeignTable) -> ForeignTable:
    """Take the scores out of a column of predictions that has them too.

    Classifiers return {"label": "spam", "score": 0.98}, or a list with an object for each answer.
    The first is a prediction with its confidence, the second has the probabilities.
    """
    entries, reading = table.entries, table.reading
    names = reading.columns.get("prediction") or [
        name for name in PREDICTED["prediction"] if name in entries.columns
    ]
    others = [
        tried for kind in _SCORES for tried in (*PREDICTED[kind], *reading.columns.get(kind, ()))
    ]
    if len(names) != 1 or any(
        name in others or ANSWER_COLUMN.fullmatch(name) for name in entries.columns
    ):
        return table
    (name,) = names
    cells = entries.column(name)
    found = of_texts(scored_answer, cells)
    stated = {role: tuple(each) for role, each in reading.columns.items() if role != "prediction"}
    full = [at for at, cell in enumerate(cells) if cell not in (None, "")]
    if full and all(found[at] for at in full):
        score = f"{name}.score"
        rows = [
            replace(
                entry, value={**entry.value, name: one[0], score: one[1]} if one else entry.value
            )
            for entry, one in zip(entries.entries, found, strict=True)
        ]
        stated |= {"prediction": (name,), "confidence": (score,)}
        split = replace(entries, entries=rows)
        return replace(table, entries=split, reading=replace(reading, columns=stated))
    if full and all(_are_several(cells[at]) for at in full):
        stated |= {"probabilities": (name,)}
        return replace(table, reading=replace(reading, columns=stated))
    return table


def _are_several(cell: Json) -> bool:
    """Return whether a cell has numbers with the names of two or more answers."""
    try:
        scores = scores_of("probabilities", cell)
    except ValueError:
        return False
    return scores is not None and scores.names is not None and len(scores.names) > 1


def _without_labels(roles: TableRoles) -> TableRoles:
    """Return the roles without right answers; a column "answer" alone is of the model."""
    columns = {**roles.columns}
    labels = columns.pop("reference", ())
    answers = roles.has_scores or "prediction" in columns
    if not answers and "answer" in labels:
        columns["prediction"] = ("answer",)
        labels = tuple(name for name in labels if name != "answer")
    labels += columns.get("correct", ())
    if roles.has_scores or "prediction" in columns:
        columns.pop("correct", None)
    return replace(roles, columns=columns, labels=labels)


def _take_single_numbers(columns: dict[str, tuple[str, ...]], entries: Entries) -> tuple[str, ...]:
    """Take columns with one number per row out of the probabilities, and return them."""
    names = columns.pop("probabilities", ())
    single = tuple(name for name in names if numbers_of(entries, name) is not None)
    lists = tuple(name for name in names if name not in single)
    columns |= {"probabilities": lists} if lists else {}
    return single


def _with_one_number(roles: TableRoles, single: Sequence[str], table: ForeignTable) -> TableRoles:
    """Return the roles with that of a column that has the only number of each row.

    Raises:
        ShapeError: it may be several things.
    """
    entries, reading = table.entries, table.reading
    columns = {**roles.columns}
    answered = {"prediction", "correct"} & columns.keys()
    stated = next(iter(reading.columns.get("probabilities", ())), None)
    taken = roles.used | {name for names in reading.columns.values() for name in names}
    free = [name for name in entries.columns if name not in taken]
    question = _question(roles, table)
    if "confidence" in columns and not stated:
        (column,) = columns["confidence"]
        of_answer = question.is_of_two and "prediction" in columns and has_unlikely(entries, column)
        if "confidence" in reading.columns or (answered and not of_answer):
            return replace(roles, percent=is_in_percent(entries, column))
        free.append(column)
    if question.reference is None and table.references is None and not roles.unlabelled:
        return roles
    # Who names the column of predictions has said what the answers are.
    asks = "prediction" not in reading.columns
    one = settle_one_number(question, free, stated if stated in single else None, asks=asks)
    if one is None:
        return roles
    columns.pop("confidence", None)
    if one.answer is None:
        return replace(roles, columns=columns | {"confidence": (one.column,)})
    groups = {"probabilities": {one.column: one.answer}}
    return replace(roles, columns=columns, groups=groups, rest=one.rest)


def _question(roles: TableRoles, table: ForeignTable) -> Question:
    """Return what is known of the answers of a table, for a question about its columns."""
    entries, references = table.entries, table.references
    reference, prediction = roles.first("reference"), roles.first("prediction")
    answers: Sequence[str] = table.reading.options
    if not answers and references is not None:
        sets = {options_of_record(record, references).texts for record in references.records}
        answers = next(iter(sets)) if len(sets) == 1 else ()
    elif not answers and "options" not in roles.columns:
        names = [name for name in (reference, prediction) if name is not None]
        cells = [cell for name in names for cell in entries.column(name)]
        answers = entries.class_names.get(str(reference)) or distinct_labels(cells)[0]
    stated, correct = bool(table.reading.options), roles.first("correct")
    return Question(table.source, entries, answers, stated, reference, prediction, correct)


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


def _settle_answer(
    columns: dict[str, tuple[str, ...]], roles: TableRoles, table: ForeignTable
) -> None:
    """Take a column "answer" next to our own names, or to the data, as what a model said.

    Raises:
        ShapeError: nothing says which of two columns is the right answer.
    """
    names, references = columns.get("reference", ()), table.references
    if "reference" in table.reading.columns or "prediction" in columns:
        return
    others = tuple(name for name in names if name != "answer")
    own = bool(others) and {*others} <= {*_OWN_REFERENCES}
    if "answer" in names and (own if references is None else not roles.has_scores):
        columns["prediction"] = ("answer",)
        columns["reference"] = others
        if not others:
            del columns["reference"]
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
    kinds = [name for kind in _SCORES for name in roles.columns.get(kind, ())]
    kinds += [next(iter(group)) for group in roles.groups.values()]
    if len(kinds) > 1:
        either = " or ".join(columns_option(IGNORED, [name]) for name in kinds)
        raise ShapeError(
            f"{table.source}: {' and '.join(kinds)} all have numbers for the answers; leave all "
            f"but one out: {either}"
        )


def _check_parts(roles: TableRoles, table: ForeignTable) -> TableRoles:
    """Check that there is a right answer, and something that a model said.

    Raises:
        ShapeError: one of them has no column.
    """
    entries, reading = table.entries, table.reading
    sure = {"confidence", "correct"} <= roles.columns.keys()
    if sure and "prediction" not in roles.columns and not roles.has_scores:
        left = roles.columns.keys() - {"reference", "options"}
        columns = {role: names for role, names in roles.columns.items() if role in left}
        percent = is_in_percent(entries, columns["confidence"][0])
        return replace(roles, columns=columns, outcomes=True, percent=percent)
    lacks_reference = table.references is None and "reference" not in roles.columns
    lacks_reference = lacks_reference and not roles.unlabelled
    lacks_answer = not roles.has_scores and "prediction" not in roles.columns
    if not lacks_reference and not lacks_answer:
        return roles
    taken = roles.used | {*reading.columns.get(IGNORED, ()), ROW_NAMES}
    free = [name for name in entries.columns if name not in taken]
    names = ", ".join(entries.columns) or "no columns"
    if lacks_reference:
        likely = likely_labels(entries, free, _words_of_rows(roles, table))
        named = [columns_option("reference", [name]) for name in likely[:_MOST_OFFERED]]
        unnamed = "--columns reference=NAME, or give the file that has it: --data FILE"
        raise ShapeError(
            f"{table.source}: no column is known as the right answer "
            f"({', '.join(ROLES['reference'])}); there are {names}. "
            f"Name it: {' or '.join(named) or unnamed}"
            f"{_or_outcomes(roles, entries, free)}. {NO_LABELS}"
        )
    remedies = _remedies_of_answers(roles, table, free)
    message = (
        f"{table.source}: no column is known as what a model said; there are {names}. Name it: "
        f"{' or '.join(remedies)}{_or_outcomes(roles, entries, free)}"
    )
    if roles.columns.get("reference") == ("answer",):
        message += f". If answer is what a model said: {NO_LABELS[0].lower()}{NO_LABELS[1:]}"
    raise ShapeError(message)


def _remedies_of_answers(roles: TableRoles, table: ForeignTable, free: Sequence[str]) -> list[str]:
    """Return the options that name what a model said; those with a blank if no column fits."""
    entries, question = table.entries, _question(roles, table)
    remedies = score_remedies(entries, free, question.reference, question.answers)
    words = _words_of_rows(roles, table)
    likely = likely_labels(entries, free, words) if words or roles.unlabelled else []
    remedies += [columns_option("prediction", [name]) for name in likely[:_MOST_OFFERED]]
    return remedies or [columns_option(role, ["NAME"]) for role in ("probabilities", "prediction")]


def _words_of_rows(roles: TableRoles, table: ForeignTable) -> list[frozenset[str]]:
    """Return the folded answers of each row, as far as other columns know them; or nothing."""
    entries, columns = table.entries, roles.columns.get("options")
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
    sides = [name for name in map(roles.first, ("reference", "prediction")) if name is not None]
    cells = [cell for name in sides for cell in entries.column(name)]
    words = frozenset(map(fold_label, table.reading.options or names or distinct_labels(cells)[0]))
    return [words] * len(entries.entries) if words else []


def _or_outcomes(roles: TableRoles, entries: Entries, free: Sequence[str]) -> str:
    """Return the remedy for a table that has a confidence, or whether the answers are right."""
    named = {role: roles.first(role) or "NAME" for role in ("confidence", "correct")}
    if roles.has_scores or {*named.values()} == {"NAME"}:
        return ""
    numbers = {name: numbers_of(entries, name) or () for name in free}
    fitting = {
        "confidence": [
            name
            for name, found in numbers.items()
            if any(0 < x < 1 for x in found if x) and all(0 <= x <= 1 for x in found if x)
        ],
        "correct": [name for name in free if _has_truths(entries, name)],
    }
    for role, names in fitting.items():
        if named[role] == "NAME" and len(names) == 1:
            named[role] = names[0]
    stated = {role: [name] for role, name in named.items()}
    prediction = roles.columns.get("prediction", ())
    stated |= {IGNORED: [*prediction]} if prediction else {}
    return f". If it only says whether each answer is right: {roles_option(stated)}"


def _has_truths(entries: Entries, column: str) -> bool:
    """Return whether every cell of a column says that an answer is right or wrong."""
    try:
        return None not in of_texts(truth_of, entries.column(column))
    except ValueError:
        return False


# Rows


class Shape(NamedTuple):
    """How a row writes its numbers.

    Attributes:
        kind: "probabilities", "log_probabilities" or "logits".
        listed: whether these are the most probable tokens only.
        names: what each number is of; None for a list.
        width: how many there are.
    """

    kind: str
    listed: bool
    names: tuple[str, ...] | None
    width: int


@dataclass(frozen=True)
class Numbers:
    """Numbers for the answers of rows.

    Attributes:
        shapes: the ways in which rows write them.
        shape_of: (n,) which of these each row has; -1 without numbers.
        values: (n, W) the numbers as written, NaN behind the last one.
        vectors: (n, A) the numbers by option, NaN for one that is not listed or that a row does not
            have; as written until the options are known.
    """

    shapes: Sequence[Shape]
    shape_of: IntArray
    values: FloatArray
    vectors: FloatArray

    @classmethod
    def of(cls, rows: Sequence[Scores | None]) -> Numbers:
        """Return the numbers of rows; None for one without."""
        codes: dict[Shape, int] = {}
        shape_of = np.full(len(rows), -1)
        values = np.full((len(rows), max((len(x.numbers) for x in rows if x), default=0)), math.nan)
        for at, row in enumerate(rows):
            if row is not None:
                shape = Shape(row.kind, row.listed, row.names, len(row.numbers))
                shape_of[at] = codes.setdefault(shape, len(codes))
                values[at, : shape.width] = row.numbers
        return cls([*codes], shape_of, values, values)

    @property
    def used(self) -> list[Shape]:
        """The shapes that a row has."""
        return [self.shapes[code] for code in np.unique(self.shape_of).tolist() if code >= 0]

    def chosen(self, rows: Sequence[int]) -> Numbers:
        """Return those of some rows."""
        values, vectors = self.values[rows], self.vectors[rows]
        return Numbers(self.shapes, self.shape_of[rows], values, vectors)

    def cases(self, options: Sequence[Options]) -> list[tuple[Shape, Options, IntArray]]:
        """Return what decides how numbers are read, shape and options, with the rows of each."""
        here = np.flatnonzero(self.shape_of >= 0)
        _, of_options = np.unique([*map(id, options)], return_inverse=True)
        keys = self.shape_of[here] * len(options) + of_options[here]
        ordered = here[np.argsort(keys, kind="stable")]
        _, counts = np.unique(keys, return_counts=True)
        return [
            (self.shapes[self.shape_of[rows[0]]], options[rows[0]], rows)
            for rows in np.split(ordered, np.cumsum(counts)[:-1])
            if len(rows)
        ]

    @property
    def tops(self) -> BoolArray:
        """(n, A) the most probable answers; several if they tie."""
        known = np.where(np.isnan(self.vectors), -math.inf, self.vectors)
        best = known.max(axis=1, keepdims=True, initial=-math.inf)
        tie = np.where(np.isfinite(best), _TIE * np.maximum(1.0, np.abs(best)), 0.0)
        tops: BoolArray = ~np.isnan(self.vectors) & (known >= best - tie)
        return tops


@dataclass
class TableRows:
    """Rows of a table by column, parsed.

    Attributes:
        entries: the rows as their file has them.
        ids: of their items.
        texts: what was asked about; None without any text.
        requests: the id, if other questions have it too: such items belong together.
        confidences: the probability of the answer; None without one.
        truths: whether the answer is right, as a row says it; None if it does not.
        records: of the data; None without data.
        options: of every row, once they are known.
        numbers: those for the answers.
    """

    entries: Entries
    ids: Sequence[str]
    texts: Sequence[str | None]
    requests: Sequence[str | None]
    confidences: Sequence[float | None]
    truths: Sequence[bool | None]
    records: Sequence[Record | None]
    options: list[Options]
    numbers: Numbers

    def __len__(self) -> int:
        return len(self.ids)

    def chosen(self, rows: Sequence[int]) -> TableRows:
        """Return some of the rows."""
        if len(rows) == len(self):
            return self
        of_rows: dict[str, Any] = {
            name: [cells[row] for row in rows]
            for name, cells in vars(self).items()
            if name not in ("entries", "numbers")
        }
        return TableRows(self.entries.chosen(rows), **of_rows, numbers=self.numbers.chosen(rows))

    def place(self, row: int) -> str:
        """Return where a row is, for messages."""
        entry = self.entries.entries[row]
        part = f"{entry.part}, row" if entry.part else "line"
        return f"{part} {entry.line} (id {self.ids[row]})"

    def problems(self, wrong: Mapping[int, object], kind: str) -> list[Problem]:
        """Return what is wrong with rows, by their numbers, as problems of one kind."""
        lines = self.entries.lines
        return [Problem(lines[at], self.ids[at], str(wrong[at]), kind) for at in sorted(wrong)]

    def answers(self, column: str | None) -> list[Json]:
        """Return what rows have in a column of answers."""
        cells = self.entries.column(column)
        return [*map(flagged, cells)] if dict in {*map(type, cells)} else cells

    def recorded(self) -> list[str | None]:
        """Return the texts of the right answers of the records."""
        return [
            None
            if record is None or record.reference is None
            else texts_of_record(record)[record.reference]
            for record in self.records
        ]

    def named(self, row: int, indices: Iterable[int]) -> str:
        """Return options of a row in words."""
        options = self.options[row]
        return ", ".join(
            dumps(options.texts[index])
            if options.texts
            else f"answer {index + 1} of {len(options)}"
            for index in sorted(indices)
        )


def parse_rows(table: ForeignTable, roles: TableRoles) -> tuple[TableRows, list[Problem]]:
    """Parse the cells of every row, and join it with its record."""
    entries, references = table.entries, table.references
    texts = texts_of_rows(entries, roles)
    ids, requests = ids_of_rows(entries, roles, texts, joined=references is not None)
    wrong: dict[int, ValueError] = {}
    records: list[Any] = [None] * len(ids)
    if references is not None:
        records = read_each(references.record, ids, wrong)
    numbers = _numbers(entries, roles, wrong)
    confidence, correct = roles.first("confidence"), roles.first("correct")
    sure, truths = entries.column(confidence), entries.column(correct)
    confidences = read_each(partial(_confidence, roles), sure, wrong, str(confidence))
    truths = read_each(truth_of, truths, wrong, str(correct))
    if references is not None and not wrong:
        asked = [{"state": x.state, "question": x.field.instructions} for x in records]
        texts = [text_of_row(each, [*each]) for each in asked]
    options = [Options(())] * len(ids)
    parsed: Any = (confidences, truths, records, options, numbers)
    rows = TableRows(entries, ids, texts, requests, *parsed)
    return rows, rows.problems(wrong, "cells that cannot be read")


def texts_of_rows(entries: Entries, roles: TableRoles) -> list[str | None]:
    """Return what rows were asked about; None without any text."""
    names = roles.texts
    if not names:
        return [None] * len(entries.entries)
    rows = zip(*map(entries.column, names), strict=True)
    return [text_of_row(dict(zip(names, row, strict=True)), names) for row in rows]


def ids_of_rows(
    entries: Entries, roles: TableRoles, texts: Sequence[str | None], *, joined: bool
) -> tuple[list[str], list[str | None]]:
    """Return the ids of rows, and of their requests, if other questions have these too."""
    own: list[str | None] = [*map(as_text, entries.column(roles.first("id")))]
    requests: list[str | None] = [None] * len(own)
    question, has_views = roles.first("question"), "view" in entries.columns
    if question is not None and not (joined or roles.unlabelled or has_views):
        texts_asked = [as_text(cell) or "" for cell in entries.column(question)]
        asked = [*zip(own, texts_asked, strict=True)]
        named = [pair for pair in asked if pair[0] is not None]
        if len({x for x, _ in named}) < len({*named}) == len(named):  # several questions each
            requests, own = own, [x and f"{x}/{text}" for x, text in asked]
    if None not in own:
        return [*map(str, own)], requests
    few = roles.unlabelled and "state" not in roles.columns and is_shared(texts)
    names = () if few or (is_constant(texts) and not has_views) else roles.texts
    repeats: Counter[str] = Counter()
    ids: list[str] = []
    for at, name in enumerate(own):
        entry = entries.entries[at]
        values = {x: entry.value[x] for x in names if x in entry.value}
        item = name or (sha256_of_json({**values})[:_HASH] if values else str(entry.line))
        repeats[item] += 1
        again = name is None and repeats[item] > 1 and not has_views and not roles.unlabelled
        ids.append(f"{item}-{repeats[item]}" if again else item)
    return ids, requests


def _numbers(entries: Entries, roles: TableRoles, wrong: dict[int, ValueError]) -> Numbers:
    """Return the numbers of rows; what is wrong with a row is added."""
    for kind, group in roles.groups.items():
        columns = []
        for name in group:
            cells = entries.column(name)
            try:
                columns.append(numbers_in(cells))
            except ValueError:
                columns.append(read_each(number_of, cells, wrong, name))
        names = tuple(group.values())
        if roles.rest is None and not any(None in column for column in columns):
            values = np.array(columns).T
            shape_of = np.zeros(len(values), np.int64)
            return Numbers([Shape(kind, False, names, len(names))], shape_of, values, values)
        read = partial(_of_group, kind, group, roles.rest)
        return Numbers.of(read_each(read, [*zip(*columns, strict=True)], wrong))
    for kind in filter(roles.first, _SCORES):
        column = roles.first(kind)
        cells, labels = entries.column(column), entries.column("labels")
        scores = read_each(partial(scores_of, kind), cells, wrong, str(column))
        if labels.count(None) < len(labels):
            pairs = [*zip(scores, labels, strict=True)]
            scores = read_each(lambda pair: pair[0] and with_names(*pair), pairs, wrong)
        return Numbers.of(scores)
    return Numbers.of([None] * len(entries.entries))


def _of_group(
    kind: str, group: Mapping[str, str], rest: str | None, row: Sequence[float | None]
) -> Scores | None:
    """Return the numbers of a row, of one column for each answer.

    Raises:
        ValueError: one is lacking, or is no probability and has to leave the rest to the other.
    """
    present = tuple(number for number in row if number is not None)
    if len(present) < len(row):
        if present:
            lacking = [*group][row.index(None)]
            raise ValueError(f"{lacking}: expected a number, got none; fill the cell in")
        return None
    if rest is None:
        return Scores(kind, present, tuple(group.values()))
    ((column, answer),) = group.items()
    (number,) = present
    if not 0 <= number <= 1:
        raise ValueError(f"{column}: expected the probability of {answer}, got {number:.6g}")
    left = round(1 - number, _DIGITS)
    other = left if left > 0 or number == 1 else 1 - number
    return Scores("probabilities", (number, other), (answer, rest))


def _confidence(roles: TableRoles, cell: Json) -> float | None:
    """Return the probability of the answer of a row.

    Raises:
        ValueError: it is none.
    """
    try:
        number = number_of(cell) if roles.percent else None
        return confidence_of(cell if number is None else number / 100)
    except ValueError as error:
        raise ValueError(
            f"{error}; if it is not the probability of the answer: --columns "
            f"{IGNORED}={roles.first('confidence')}"
        ) from None


def options_of_record(record: Record | None, references: References) -> Options:
    """Return the answers of a record, and the names that may stand for them."""
    if record is None:
        return Options(())
    keys = tuple(answer.key for answer in record.field.answers)
    if record.field.kind == "boolean":
        return Options(keys, ("no", "yes"))
    texts = texts_of_record(record)
    return Options(texts, () if texts == keys else keys, ordered=references.ordered)


def records_of_table(path: Path, reading: Reading) -> Mapping[str, Record]:
    """Read the rows of an imported table as records.

    Args:
        path: the table: one file.
        reading: its columns, options and form of answers, as the import found them.

    Returns:
        The records by the ids that the import gave to their rows; a row of several questions has
        none.

    Raises:
        InputError: the rows have no text, or cannot be read as records.
    """
    records = read_labelled(path, reading).records
    per_line = Counter(record.line for record in records)
    entries = unwrapped(read_entries(path))
    roles, _ = find_roles(entries, reading, str(path))
    labels = {role: names for role, names in roles.items() if role in ("id", "state", "question")}
    named_roles = TableRoles(labels, {})
    names, _ = ids_of_rows(entries, named_roles, texts_of_rows(entries, named_roles), joined=False)
    ids = {
        line: name for line, name in zip(entries.lines, names, strict=True) if per_line[line] == 1
    }
    named = [replace(record, id=ids[record.line]) for record in records if record.line in ids]
    return {record.id: record for record in named}
