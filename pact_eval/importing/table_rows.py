"""Rows of a table: their cells parsed, joined with the record that has the right answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from pact_eval._json import Json, dumps, sha256_of_json
from pact_eval.data.labelled.answers import (
    Form,
    Options,
)
from pact_eval.data.labelled.columns import (
    flagged,
)
from pact_eval.data.labelled.draft import as_text
from pact_eval.data.labelled.entries import Entries, Entry
from pact_eval.data.labelled.roles import (
    IGNORED,
)
from pact_eval.data.records import Record
from pact_eval.errors import Problem
from pact_eval.importing.references import References, texts_of_record
from pact_eval.importing.scores import (
    Scores,
    confidence_of,
    log_sum,
    number_of,
    scores_of,
    truth_of,
    with_names,
)
from pact_eval.importing.table_roles import SCORE_KINDS, TableRoles

__all__ = [
    "TableRow",
    "answer_cell",
    "facts_of_record",
    "names_fit",
    "options_of_record",
    "parse_rows",
    "record_answer",
    "stated_kind",
    "vector_of",
]

_TIE: Final = 1e-12
_TYPES: Final = {"choice": "choice", "noul": "boolean", "boolean": "boolean", "score": "score"}
_HASH: Final = 12


@dataclass
class TableRow:
    """One row, parsed; what its cells name is not yet decided."""

    entry: Entry
    id: str
    scores: Scores | None = None
    confidence: float | None = None
    correct: bool | None = None
    record: Record | None = None
    options: Options = field(default_factory=lambda: Options(()))
    vector: list[float | None] = field(default_factory=list)

    @property
    def place(self) -> str:
        """Where the row is, for messages."""
        part = f"{self.entry.part}, row" if self.entry.part else "line"
        return f"{part} {self.entry.line} (id {self.id})"

    def named(self, index: int) -> str:
        """Return an option in words."""
        texts = self.options.texts
        return dumps(texts[index]) if texts else f"answer {index + 1} of {len(self.options)}"

    @cached_property
    def tops(self) -> set[int]:
        """The most probable answers; several if they tie."""
        known = [value for value in self.vector if value is not None]
        best = max(known, default=-math.inf)
        tie = _TIE * max(1.0, abs(best)) if math.isfinite(best) else 0.0
        return {i for i, v in enumerate(self.vector) if v is not None and v >= best - tie}


def parse_rows(
    entries: Entries, roles: TableRoles, references: References | None
) -> tuple[list[TableRow], list[Problem]]:
    """Parse the cells of every row, and join it with its record."""
    rows: list[TableRow] = []
    problems: list[Problem] = []
    repeats: Counter[str] = Counter()
    has_views = "view" in entries.columns
    for entry in entries.entries:
        row = TableRow(entry, _id_of(entry, roles))
        repeats[row.id] += 1
        if roles.first("id") is None and repeats[row.id] > 1 and not has_views:
            row.id = f"{row.id}-{repeats[row.id]}"
        try:
            if references is not None:
                row.record = references.record(row.id)
            row.scores = _scores(entry.value, roles)
            row.confidence = _confidence_in(entry.value, roles)
            column = roles.first("correct")
            if column is not None:
                with naming(column):
                    row.correct = truth_of(entry.value.get(column))
        except ValueError as error:
            problems.append(Problem(entry.line, row.id, str(error), "cells that cannot be read"))
        rows.append(row)
    return rows, problems


def _id_of(entry: Entry, roles: TableRoles) -> str:
    """Return the id of a row: its own, a hash of its text, or its number."""
    column = roles.first("id")
    own = None if column is None else as_text(entry.value.get(column))
    if own is not None:
        return own
    names = (*roles.columns.get("state", ()), *roles.columns.get("question", ()))
    texts = {name: entry.value[name] for name in names if name in entry.value}
    return sha256_of_json({**texts})[:_HASH] if texts else str(entry.line)


def _scores(value: Mapping[str, Json], roles: TableRoles) -> Scores | None:
    """Return the numbers of a row.

    Raises:
        ValueError: they cannot be read.
    """
    for kind in SCORE_KINDS:
        column = roles.first(kind)
        if column is not None:
            with naming(column):
                scores = scores_of(kind, value.get(column))
            return None if scores is None else with_names(scores, value.get("labels"))
    for kind, group in roles.groups.items():
        numbers = []
        for name in group:
            with naming(name):
                numbers.append(number_of(value.get(name)))
        present = [number for number in numbers if number is not None]
        if present and len(present) < len(numbers):
            lacking = [*group][numbers.index(None)]
            raise ValueError(f"{lacking}: expected a number, got none; fill the cell in")
        return Scores(kind, tuple(present), tuple(group.values())) if present else None
    return None


def _confidence_in(value: Mapping[str, Json], roles: TableRoles) -> float | None:
    """Return the probability of the answer of a row.

    Raises:
        ValueError: it cannot be read.
    """
    column = roles.first("confidence")
    try:
        return None if column is None else confidence_of(value.get(column))
    except ValueError as error:
        other = f"if it is not the probability of the answer: --columns {IGNORED}={column}"
        raise ValueError(f"{column}: {error}; {other}") from None


@contextmanager
def naming(column: str) -> Iterator[None]:
    """Put the name of a column before the message of a `ValueError` of the block."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{column}: {error}") from None


def answer_cell(row: TableRow, column: str | None) -> Json:
    """Return what a row has in a column of answers."""
    return flagged(row.entry.value.get(str(column)))


def names_fit(row: TableRow, form: Form) -> bool:
    """Return whether the names of the numbers of a row name its options under a form."""
    if row.scores is None or row.scores.names is None or form not in row.options.forms:
        return False
    indices = [row.options.index(name, form) for name in row.scores.names]
    known = {index for index in indices if index is not None}
    if row.scores.listed:
        return bool(known)
    return len(known) == len(indices) == len(row.options)


def vector_of(row: TableRow, form: Form) -> list[float | None]:
    """Return the numbers of a row by option; None for an option that is not listed.

    Raises:
        ValueError: they are not those of the options.
    """
    if row.scores is None:
        return []
    names, numbers = row.scores.names, row.scores.numbers
    if names is None:
        if len(numbers) != len(row.options):
            message = (
                f"expected {len(row.options)} numbers, one per answer, got {len(numbers)}; if rows "
                "have options of their own, name them: --columns options=NAME"
            )
            raise ValueError(message)
        return [*numbers]
    if not names_fit(row, form):
        texts = ", ".join(row.options.texts[:8])
        message = f"expected a number for each of {texts}; got {', '.join(names)[:200]}"
        raise ValueError(message)
    vector: list[float | None] = [None] * len(row.options)
    for name, number in zip(names, numbers, strict=True):
        index = row.options.index(name, form)
        if index is None:
            continue
        earlier = vector[index]  # "yes" and "Yes" may both be listed
        vector[index] = number if earlier is None else log_sum([earlier, number])
    return vector


def record_answer(row: TableRow) -> str | None:
    """Return the text of the right answer of the record of a row."""
    record = row.record
    if record is None or record.reference is None:
        return None
    options = texts_of_record(record)
    return options[record.reference]


def options_of_record(record: Record | None, references: References) -> Options:
    """Return the answers of a record, and the names that may stand for them."""
    if record is None:
        return Options(())
    keys = tuple(answer.key for answer in record.field.answers)
    if record.field.kind == "boolean":
        return Options(keys, ("no", "yes"))
    texts = texts_of_record(record)
    return Options(texts, () if texts == keys else keys, ordered=references.ordered)


def facts_of_record(record: Record) -> dict[str, Json]:
    """Return what a record knows of its rows."""
    return {
        "family": record.family,
        "source_family": record.source_family,
        **({"domain": record.domain} if record.domain else {}),
        "kind": record.field.kind,
        "variant": record.variant,
    }


def stated_kind(row: TableRow, roles: TableRoles) -> str | None:
    """Return the kind of question that a column of types gives; None without a known one."""
    column = roles.first("type")
    return None if column is None else _TYPES.get(str(row.entry.value.get(column)))
