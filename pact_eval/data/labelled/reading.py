"""Settings for reading a labelled file, and recognition of such files, without the reader.

Most datasets are in the full format, and most commands never need more than this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pact_eval._json import Json
from pact_eval.data.labelled.entries import ENCODING, Entry, container_of, json_lines
from pact_eval.errors import Problem

__all__ = [
    "AUTOMATIC",
    "RECORDS_NAME",
    "SHAPE_NAMES",
    "Reading",
    "is_labelled",
    "reading_of_json",
]

RECORDS_NAME: Final = "records"
"""Name of the full format among the shapes."""

SHAPE_NAMES: Final = (
    *(RECORDS_NAME, "questions", "labels", "columns", "systemone"),
    *("decision-index", "jevbench", "typed-decisions"),
)
"""The shapes that `--shape` may name."""

_INPUT: Final = "input"
_OF_RECORDS: Final = frozenset({"source_family", "variant"})


@dataclass(frozen=True)
class Reading:
    """Choices of the user for reading a labelled file.

    Attributes:
        shape: name of its shape; None detects it.
        columns: by role, the columns that have it; see `columns.py`.
        question: the question of every entry, if there is no column of questions.
        questions: file of the questions of the shape "labels"; None takes FILE.questions.json.
    """

    shape: str | None = None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    question: str | None = None
    questions: Path | None = None

    @property
    def named(self) -> bool:
        """Whether the user says anything."""
        return self != AUTOMATIC

    def to_json(self) -> dict[str, Json]:
        """Return what the user says, for `run.json`."""
        value: dict[str, Json] = {}
        if self.shape is not None:
            value["shape"] = self.shape
        if self.columns:
            value["columns"] = {role: [*names] for role, names in self.columns.items()}
        if self.question is not None:
            value["question"] = self.question
        if self.questions is not None:
            value["questions"] = str(self.questions)
        return value


AUTOMATIC: Final = Reading()
"""Everything is detected."""


def reading_of_json(value: Json) -> Reading:
    """Return the reading that `LabelledData.to_json` describes; automatic if it is not one."""
    if not isinstance(value, dict) or value.get("shape") not in SHAPE_NAMES:
        return AUTOMATIC
    columns = value.get("columns")
    named = columns.items() if isinstance(columns, dict) else ()
    roles = {role: tuple(map(str, names)) for role, names in named if isinstance(names, list)}
    question, questions = value.get("question"), value.get("questions")
    return Reading(
        str(value["shape"]),
        roles,
        question if isinstance(question, str) else None,
        Path(questions) if isinstance(questions, str) else None,
    )


def is_labelled(path: Path, reading: Reading = AUTOMATIC) -> bool:
    """Tell whether a file is to be read by shape: it is not in the full format.

    A file of JSON lines is in the full format if its first line has an `input`, or looks like a
    record without one, or is not an object: then its own reader says what is wrong. What the user
    says of labelled files does not make a record anything else.

    Raises:
        InputError: the file cannot be read.
    """
    if reading.shape == RECORDS_NAME:
        return False
    if container_of(path) != "JSON lines":
        return True
    first = next(json_lines(path), None)
    if isinstance(first, Entry) and _INPUT in first.value:
        return False
    if reading.named:
        return True
    if isinstance(first, Problem):
        return first.kind == ENCODING
    return first is not None and not first.value.keys() >= _OF_RECORDS
