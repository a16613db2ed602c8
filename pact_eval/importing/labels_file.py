"""Right answers of a log in a file of their own, by the id of the item or by its state.

id,question,label                   one row per answer; `question` if the log has several
id,urgent,topic                     one column per question
{"id", "expect": {"urgent": true}}  one object per item; also "labels", "label", "reference"
{"state", "labels": {...}}          without ids, the state says which item it is
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pact_eval._json import Json, dumps
from pact_eval.data.labelled.answers import cell_text, is_unlabelled
from pact_eval.data.labelled.entries import Entries, read_entries
from pact_eval.data.labelled.reading import ROLES, Reading, columns_option
from pact_eval.errors import Problem, RecordError, ShapeError
from pact_eval.importing.exchanges import content_id

LABELS: Final = (*ROLES["reference"], "labels", "expected", "expect", "outcome")
"""Names of right answers, in a log and in a file of its own."""

NO_LABELS: Final = "Two logs without right answers are compared by pact-eval drift BEFORE AFTER"
"""End of a message on a log that has none."""

_IDS: Final = ("id", "item_id", "case_id", "custom_id", "request_id", "record_id")
_QUESTIONS: Final = ("question", "question_id", "field", "decision")


@dataclass(frozen=True)
class Label:
    """A right answer.

    Attributes:
        cell: the option, as written.
        line: 1-based line in its file.
    """

    cell: Json
    line: int


@dataclass
class LabelsFile:
    """Right answers by item and question; a question of "" is the only one of its item.

    Attributes:
        path: the file.
        labels: by (id, question).
        met: those that an answer of the log has.
    """

    path: Path
    labels: Mapping[tuple[str, str], Label]
    met: set[tuple[str, str]] = field(default_factory=set)

    def of(self, ids: Sequence[str], question: str) -> Label | None:
        """Return the right answer of an item that has one of these ids; None without one."""
        for key in ((name, text) for name in ids for text in (question, "")):
            if key in self.labels:
                self.met.add(key)
                return self.labels[key]
        return None

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a user should know: right answers that no item of the log has."""
        unmet = len(self.labels) - len(self.met)
        return (
            (f"{unmet:,} right answers of {self.path} have no answer in the log.",) if unmet else ()
        )


def read_labels(path: Path, reading: Reading, questions: Set[str]) -> LabelsFile:
    """Read a file of right answers.

    Args:
        path: CSV, JSON or Parquet.
        reading: columns that the user names: id, question, reference.
        questions: names of the questions of the log.

    Raises:
        ShapeError: no column has ids, or right answers.
        RecordError: an answer has no id, or two right answers.
    """
    entries = read_entries(path)
    columns = [name for name in entries.columns if name is not None]
    label = _column(reading, "reference", LABELS, columns)
    wide = [] if label is not None else [name for name in columns if name in questions]
    name = _column(reading, "id", _IDS, columns)
    if (label is None and not wide) or (name is None and "state" not in columns):
        what = "right answers" if name is not None or "state" in columns else "ids"
        option = columns_option("reference" if what == "right answers" else "id", ["NAME"])
        there = ", ".join(columns)
        raise ShapeError(
            f"{path}: no column is known as {what}; there are {there}. Name it: {option}"
        )
    of_question = _column(reading, "question", _QUESTIONS, columns)
    labels: dict[tuple[str, str], Label] = {}
    problems = [*entries.problems]
    for line, item, question, cell in _cells(entries, name, label, wide, of_question):
        earlier = labels.setdefault((item or "", question), Label(cell, line))
        if item is None:
            problems.append(Problem(line, None, "expected an id, got nothing"))
        elif earlier.cell != cell:
            other = f"{dumps(earlier.cell)} on line {earlier.line}"
            message = f"two right answers: {other}, and {dumps(cell)}"
            problems.append(Problem(line, item, message))
    if problems:
        raise RecordError(str(path), problems)
    return LabelsFile(path, labels)


def _column(
    reading: Reading, role: str, names: Sequence[str], columns: Sequence[str]
) -> str | None:
    named = reading.columns.get(role, ())
    return next((name for name in (*named, *names) if name in columns), None)


def _cells(
    entries: Entries, name: str | None, label: str | None, wide: Sequence[str], question: str | None
) -> Iterator[tuple[int, str | None, str, Json]]:
    """Yield line, item, question and right answer of every cell that has one."""
    for entry in entries.entries:
        row = entry.value
        item = cell_text(row.get(name)) if name else content_id(row.get("state"))
        cell = row.get(label) if label else {key: row.get(key) for key in wide}
        named = cell_text(row.get(question)) if question else None
        of_each = cell if isinstance(cell, dict) else {named or "": cell}
        for key, value in of_each.items():
            if not is_unlabelled(value):
                yield entry.line, item, key, value
