"""Texts of the rows of an imported table: questions and answers, by the ids of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pact_eval.data.labelled.columns import find_roles, unwrapped
from pact_eval.data.labelled.entries import read_entries
from pact_eval.data.labelled.reader import read_labelled
from pact_eval.data.labelled.reading import Reading
from pact_eval.data.records import Record
from pact_eval.importing.table_rows import TableRoles, ids_of_rows, texts_of_rows


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
