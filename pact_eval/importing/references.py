"""References of rows of your own: labelled data, joined by id.

A row needs an id and what the model said. Reference, options, kind, family and domain are those of
the record with this id. A row that has a right answer of its own has to agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pact_eval._files import sha256_of_file
from pact_eval._json import Json, dumps
from pact_eval.data.labelled.reader import LabelledData
from pact_eval.data.labelled.reading import AUTOMATIC, Reading
from pact_eval.data.opening import open_dataset
from pact_eval.data.records import Record
from pact_eval.hub.downloads import hub_json

__all__ = ["References", "read_references", "texts_of_record"]


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

    def record(self, record_id: str) -> Record:
        """Return the record with the id of a row.

        Raises:
            ValueError: there is none.
        """
        record = self._by_id.get(record_id)
        if record is None:
            message = f"expected an id of {self.path}, got {dumps(record_id)}"
            raise ValueError(message)
        self.met.add(record.id)
        return record

    @property
    def ordered(self) -> bool:
        """Whether the data give the order of the answers, instead of different labels only."""
        columns = None if self.labelled is None else self.labelled.columns
        return columns is None or columns.ordered

    @property
    def block(self) -> dict[str, Json]:
        """What `run.json` keeps: how many records have a row, if not all."""
        if len(self.met) == len(self.records):
            return {}
        return {"incomplete": {"read": len(self.met), "of": len(self.records)}}

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
    opened = open_dataset(path, reading=replace(reading, bare=True), allow=("trained-on",))
    return References(path, opened.records, opened.labelled)


def texts_of_record(record: Record) -> tuple[str, ...]:
    """Return the texts of the answers of a record: of levels, their descriptions if all differ."""
    keys = tuple(answer.key for answer in record.field.answers)
    described = [answer.description for answer in record.field.answers]
    if record.field.kind == "score" and all(described) and len({*described}) == len(keys):
        return tuple(map(str, described))
    return keys
