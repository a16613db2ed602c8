"""Source "rows": rows in our own format (`row_reader.py`), and tables of others (`tables.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from pact_eval.data.labelled.columns import unwrapped
from pact_eval.data.labelled.entries import Entries, Entry, read_entries
from pact_eval.data.labelled.reading import IGNORED, PREDICTED, ROLES, Reading
from pact_eval.errors import InputError, Problem
from pact_eval.importing.one_number import ForeignTable
from pact_eval.importing.row_reader import SCORES
from pact_eval.importing.source import (
    ImportOptions,
    Log,
    LogFacts,
    LogRow,
    References,
    Source,
    Start,
    read_references,
)
from pact_eval.importing.tables import read_table

_ANSWERED: Final = (*SCORES, "answer", "status")
_REFERENCES: Final = ("reference", "gold")
_ROLE_OF: Final[Mapping[str, str]] = {"kind": "type", "answer": "prediction"}
_RUN: Final = "run.json"
_CHECKED: Final[Mapping[str, str]] = {"correct": "correct", "answer": "answer"}


class Rows(Source):
    """Rows in our own format, and tables that anything else made."""

    title = "anything"
    reads = "JSON, CSV, `.parquet`, or a folder of `.parquet` files"
    own = joins = True

    def recognises(self, start: Start) -> bool:
        """Every file that no other source recognises, and every folder of Parquet files."""
        return not start.path.is_dir() or any(start.path.glob("*.parquet"))

    def open(self, path: Path, options: ImportOptions) -> Log:
        """Open a file of rows, or a folder of Parquet files.

        Raises:
            InputError: the file cannot be read, or is a dataset or a run.
            ShapeError: two readings of a table fit, or none.
        """
        if path.is_dir() and (path / _RUN).exists():
            raise InputError(f"{path}: a run folder; `report` and `compare` read it as it is")
        parts = tuple(sorted(path.glob("*.parquet"))) if path.is_dir() else (path,)
        entries = unwrapped(read_entries(path))
        _refuse_questions(path, entries)
        if is_own(entries, options):
            return Log(_own_rows(entries, options), parts)
        return _table_log(path, parts, entries, options)


SOURCE: Final = Rows()
"""The entry of the registry."""


def is_own(entries: Entries, options: ImportOptions) -> bool:
    """Tell whether rows are in our own format: positions from 0, and lists in canonical order.

    Any fact in words, in a column of another name, or in a second column makes them a table.

    Args:
        entries: the rows.
        options: how they are read.
    """
    if not entries.entries:
        return True
    if options.data is not None or options.reading.named or entries.container == "CSV":
        return False
    mapped = options.mapping
    present = {*entries.columns}
    references = [mapped["reference"]] if "reference" in mapped else [*_REFERENCES]
    references = [name for name in references if name in present]
    unlabelled = options.reading.unlabelled and not references
    given = {mapped.get(name, name) for name in _ANSWERED} & present
    if mapped.get("id", "id") not in present or not given:
        return False
    answer = mapped.get("answer", "answer")
    facts = {*references, answer, "confidence", *mapped.values()}
    further = () if present & {*SCORES} else ("confidence",)
    roles = ("reference", "prediction", "correct", *further, *SCORES)
    others = {name for role in roles for name in {**ROLES, **PREDICTED}[role]} & present
    if others - facts - {*SCORES} or (answer in present and "n_choices" not in present):
        return False
    if len(references) != 1 and not unlabelled:
        return not references and not others and "status" in present
    values = [mapped.get(name, name) for name in SCORES]
    reference = next(iter(references), None)
    words = {*map(type, entries.column(reference)), *map(type, entries.column(answer))}
    kinds = {kind for name in values for kind in map(type, entries.column(name))}
    return str not in words and not kinds & {str, dict}


def _own_rows(entries: Entries, options: ImportOptions) -> Iterator[LogRow | Problem]:
    yield from entries.problems
    for entry in entries.entries:
        line, where = _place(entry, entries)
        name = entry.value.get(options.mapping.get("id", "id"))
        is_id = isinstance(name, str | int) and not isinstance(name, bool)
        record = str(name) if is_id else None
        try:
            row = {**entry.value, **options.grouping.of_entry(entry.value)}
        except ValueError as error:
            yield Problem(line, record, f"{where}{error}")
            continue
        yield LogRow(line, record, row, where)


def _place(entry: Entry, entries: Entries) -> tuple[int | None, str]:
    """Return the line of a row, or its place in words if its file has no lines."""
    if entries.container != "Parquet":
        return entry.line, ""
    return None, f"{entry.part}, row {entry.line:,}: " if entry.part else f"row {entry.line:,}: "


def _table_log(
    path: Path, parts: tuple[Path, ...], entries: Entries, options: ImportOptions
) -> Log:
    """Read a table; with `--data`, columns of labelled data are roles of that file."""
    references: References | None = None
    reading = options.reading
    if options.data is not None:
        of_data = {role: names for role, names in reading.columns.items() if role in ROLES}
        references = read_references(options.data, replace(reading, columns=of_data))
        of_both = {"id"} if {*reading.columns.get("id", ())} <= {*entries.columns} else set()
        others = {
            role: names
            for role, names in reading.columns.items()
            if role not in of_data or role in of_both
        }
        reading = replace(reading, columns=others, options=(), shape=None)
    elif reading.columns.keys() - {*ROLES, *PREDICTED, IGNORED}:
        reading = replace(reading, columns={})
    entries, reading = _map_columns(entries, reading, options.mapping)
    foreign = ForeignTable(entries, reading, str(path), references)
    rows, facts = read_table(foreign, options.grouping)
    if references is not None:
        remarks = (*facts.remarks, *references.remarks)
        facts = LogFacts({**facts.block, **references.block}, remarks=remarks)
    return Log(rows, parts, lambda: facts, references=references, mapping=_CHECKED)


def _map_columns(
    entries: Entries, reading: Reading, mapping: Mapping[str, str]
) -> tuple[Entries, Reading]:
    """Return rows and reading with the columns of `--map` under our names."""
    stated = {_ROLE_OF.get(column, column): (name,) for column, name in mapping.items()}
    roles = {role: names for role, names in stated.items() if role in ROLES or role in PREDICTED}
    renamed = {
        name: column
        for column, name in mapping.items()
        if _ROLE_OF.get(column, column) not in roles
    }
    if renamed:
        rows = [
            Entry(entry.line, {renamed.get(name, name): cell for name, cell in entry.value.items()})
            for entry in entries.entries
        ]
        entries = replace(entries, entries=rows)
    return entries, replace(reading, columns={**roles, **reading.columns})


def _refuse_questions(path: Path, entries: Entries) -> None:
    """Refuse the records of a dataset: contexts and questions, and no answers of a model.

    Raises:
        InputError: the first row is one.
    """
    for entry in entries.entries[:1]:
        inputs = entry.value.get("input")
        is_record = isinstance(inputs, dict) and "questions" in inputs
        if is_record and not entry.value.keys() & {*_ANSWERED}:
            raise InputError(
                f"{path}:{entry.line}: a record of a dataset, which has no answer of a model; "
                f"score it with `pact-eval score ADAPTER --data {path}`"
            )
