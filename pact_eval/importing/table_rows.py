"""Rows of a table of others: cells parsed, joined with their records, and known by an id.

A row is known by its id, or by the text that was asked about. Rows about one item belong together.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from pact_eval._json import Json, dumps, sha256_of_json
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.data.labelled.answers import Options, flagged
from pact_eval.data.labelled.columns import find_roles, unwrapped
from pact_eval.data.labelled.entries import Entries, read_entries
from pact_eval.data.labelled.identity import (
    column_of_ids,
    families_of_texts,
    is_constant,
    is_shared,
    text_of_row,
)
from pact_eval.data.labelled.questions import as_text
from pact_eval.data.labelled.reader import read_labelled
from pact_eval.data.labelled.reading import IGNORED, Reading, columns_option
from pact_eval.data.records import Record
from pact_eval.errors import Problem, ShapeError
from pact_eval.importing.one_number import ForeignTable, TableRoles
from pact_eval.importing.row_reader import SCORES
from pact_eval.importing.source import texts_of_record
from pact_eval.importing.table_cells import (
    Scores,
    confidence_of,
    number_of,
    numbers_in,
    read_each,
    scores_of,
    truth_of,
    with_names,
)

_TIE: Final = 1e-12
_HASH: Final = 12
BOOLEAN: Final = ("false", "true")
_DIGITS: Final = 15
"""So many decimals of 1 - p are kept: 1 - 0.9 is 0.1, as a file with both columns has it."""


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

    def labels(self, name: str) -> list[str | None]:
        """Return what the records say of their rows; of "kind", also what two answers say."""
        if name == "kind":
            pairs = zip(self.records, self.options, strict=True)
            return [
                ("boolean" if own.texts == BOOLEAN else None)
                if record is None
                else record.field.kind
                for record, own in pairs
            ]
        return [
            None if record is None else getattr(record, name) or None for record in self.records
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


def check_repeats(table: ForeignTable, roles: TableRoles) -> None:
    """Check that a column decides which rows ask about one item, if no text does.

    Args:
        table: the rows, of which no right answers are used.
        roles: of its columns.

    Raises:
        ShapeError: a column of ids, or the question, repeats, and either reading of it fits.
    """
    if not roles.columns.keys().isdisjoint(("id", "state", "family")):
        return
    question, named = roles.first("question"), _repeated_ids(table.entries, roles)
    texts = [*map(as_text, table.entries.column(question))]
    if named is not None:
        other = columns_option("family", [named])
        what, is_no_id = f"{named} repeats", f"items that belong together: {other}"
    elif question is not None and is_shared(texts) and not is_constant(texts):
        named, other = question, columns_option(IGNORED, [question])
        what, is_no_id = f"{question} repeats, and nothing else names items", f"others: {other}"
    else:
        return
    raise ShapeError(
        f"{table.source}: {what}: its rows ask about one item again, "
        f"{columns_option('id', [named])}, or are of {is_no_id}"
    )


def families_of_rows(
    table: ForeignTable, roles: TableRoles, rows: TableRows, labels: Sequence[Hashable]
) -> list[str | None]:
    """Return the family of every row whose text another item has too.

    A question alone is such a text only if its rows agree: where they have different right answers,
    it was put to things that the table does not have.

    Args:
        table: all rows, whether they have a label or not.
        roles: of its columns.
        rows: those that are used.
        labels: their right answers; None is not known.

    Returns:
        (n,) names of families, as `families_of_texts` returns them.

    Raises:
        ShapeError: only questions are known, and rows of one have different right answers.
    """
    entries, texts, ids = table.entries, rows.texts, rows.ids
    by_text: dict[str | None, set[Hashable]] = defaultdict(set)
    for text, label in {*zip(texts, labels, strict=True)}:
        by_text[text] |= {label} - {None}
    question, row = roles.first("question"), roles.first("id")
    agree = question is None or all(len(each) < 2 for each in by_text.values())
    twice = len({*ids}) < len(ids) and "view" not in entries.columns  # refused later
    is_known = agree or twice or not roles.columns.keys().isdisjoint(("state", "options"))
    if is_known or question is None or not is_shared(texts) or is_constant(texts):
        return families_of_texts(texts, ids)
    named = _repeated_ids(entries, roles)
    alone = columns_option(IGNORED, [question]) if row is None else columns_option("family", [row])
    by = [f"by {name}, {columns_option('family', [name])}" for name in (named, question) if name]
    raise ShapeError(
        f"{table.source}: {question} repeats with different right answers, and no column has what "
        f"it was asked about. Its rows belong together {', '.join(by)}, or not at all, {alone}"
    )


def _repeated_ids(entries: Entries, roles: TableRoles) -> str | None:
    """Return the column that is named like ids, has no role and may repeat; None without one."""
    used = {name for names in roles.columns.values() for name in names}
    free = [name for name in entries.columns if name not in used]
    return column_of_ids(entries, free, repeats=True)


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
    for kind in filter(roles.first, SCORES):
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
