"""References of rows of your own: labelled data, joined by id.

A row needs an id and what the model said. Reference, kind, family, domain and number of answers are
those of the record with this id, if the row does not have them. Values may then be written by the
names of the answers: `{"probabilities": {"yes": 0.8, "no": 0.2}}`, `{"answer": "yes"}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pact_eval._files import sha256_of_file
from pact_eval._json import Json, dumps
from pact_eval.data.labelled.reader import LabelledData
from pact_eval.data.labelled.reading import AUTOMATIC, Reading
from pact_eval.data.opening import open_dataset
from pact_eval.data.records import Record
from pact_eval.hub.snapshots import hub_json
from pact_eval.importing.row_reader import RowReader

__all__ = ["References", "read_references"]

_BY_ANSWER: Final = ("probabilities", "log_probabilities", "logits")


@dataclass
class References:
    """Records with references, by id.

    Attributes:
        path: the file.
        records: its records, in file order.
        labelled: how it was read, if it is a labelled file.
        met: ids of records that rows have.
    """

    path: Path
    records: Sequence[Record] = field(repr=False)
    labelled: LabelledData | None = None
    met: set[str] = field(default_factory=set, repr=False)

    def __post_init__(self) -> None:
        self._by_id = {record.id: record for record in self.records}

    def complete(self, row: Mapping[str, Json], names: RowReader) -> dict[str, Json]:
        """Return a row with what its record knows.

        Args:
            row: as it was read.
            names: our columns by their names in the rows.

        Raises:
            ValueError: no record has the id of the row, or it names another answer.
        """
        record_id = names.id_if_readable({**row})
        record = None if record_id is None else self._by_id.get(record_id)
        if record is None:
            message = f"expected an id of {self.path}, got {dumps(record_id)}"
            raise ValueError(message)
        self.met.add(record.id)
        keys = [answer.key for answer in record.field.answers]
        completed = names.with_columns(row, _facts(record))
        for column in _BY_ANSWER:
            name = names.name_in(completed, column)
            values = completed.get(name) if name is not None else None
            if name is not None and isinstance(values, dict):
                completed[name] = _in_order(values, keys, name)
        name = names.name_in(completed, "answer")
        if name is not None and completed[name] in keys:
            completed[name] = keys.index(str(completed[name]))
        return completed

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a user should know: records without a row."""
        missing = len(self.records) - len(self.met)
        noun = "record has" if missing == 1 else "records have"
        return (f"{missing:,} {noun} no row and so no place in the run.",) if missing else ()

    def to_json(self) -> dict[str, Json]:
        """Return what identifies the references, for the settings of a run."""
        read = {} if self.labelled is None else {"labelled": self.labelled.to_json()}
        return {
            "sha256": sha256_of_file(self.path),
            "records": len(self.records),
            **read,
            **hub_json(self.path),
        }


def read_references(path: Path, reading: Reading = AUTOMATIC) -> References:
    """Read a dataset file, in the full format or of a known shape.

    Raises:
        InputError: it cannot be read.
        ShapeError: nothing decides how it is read.
        RecordError: an entry is malformed; all problems together.
    """
    opened = open_dataset(path, reading=reading, allow=("trained-on",))
    return References(path, opened.records, opened.labelled)


def _facts(record: Record) -> dict[str, Json]:
    return {
        "family": record.family,
        "source_family": record.source_family,
        "domain": record.domain or None,
        "kind": record.field.kind,
        "variant": record.variant,
        "reference": record.reference,
        "n_choices": record.n_choices,
    }


def _in_order(values: Mapping[str, Json], keys: Sequence[str], name: str) -> list[Json]:
    """Return values by answer in canonical order.

    Raises:
        ValueError: their names are not those of the answers.
    """
    if values.keys() != {*keys}:
        message = f"{name}: expected one for each of {', '.join(keys)}, got {', '.join(values)}"
        raise ValueError(message)
    return [values[key] for key in keys]
