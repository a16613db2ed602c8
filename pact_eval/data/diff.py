"""Differences between two versions of a dataset file: records added, removed, changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pact_eval._json import Json, dumps
from pact_eval.data.files import DataFile
from pact_eval.data.index import Located, index_of_records


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """A record and its line in the file that has it.

    Attributes:
        id: the record's id.
        line: 1-based line.
    """

    id: str
    line: int


@dataclass(frozen=True, slots=True)
class RecordChange:
    """A record that occurs in both files and differs.

    Attributes:
        id: the record's id.
        old_line: 1-based line in the old file.
        new_line: 1-based line in the new file.
        fields: what differs, by path: `family`, `input.state`, `input.questions.decision.criteria`,
            `reference.target`, ...
        references: the old and the new reference, as answer keys, where they differ.
    """

    id: str
    old_line: int
    new_line: int
    fields: tuple[str, ...]
    references: tuple[str, str] | None


@dataclass(frozen=True)
class DatasetDiff:
    """The difference of two dataset files, joined on record ids.

    Attributes:
        old_records: number of records in the old file.
        new_records: number of records in the new file.
        added: records that only the new file has, in its order.
        removed: records that only the old file has, in its order.
        changed: records that differ, in the order of the new file.
        reordered: whether the records that both have occur in another order.
    """

    old_records: int
    new_records: int
    added: tuple[RecordPlace, ...]
    removed: tuple[RecordPlace, ...]
    changed: tuple[RecordChange, ...]
    reordered: bool

    @property
    def unchanged(self) -> int:
        """Number of records that are the same in both."""
        return self.new_records - len(self.added) - len(self.changed)

    @property
    def flipped(self) -> int:
        """Number of records whose reference is another answer now."""
        return sum(change.references is not None for change in self.changed)


def diff_datasets(old: Path, new: Path) -> DatasetDiff:
    """Compare two dataset files record by record.

    Records are compared by meaning: white space and escapes of the JSON do not count, the order of
    answers does.

    Args:
        old: the old file.
        new: the new file.

    Returns:
        The difference.

    Raises:
        InputError: a file cannot be read.
        RecordError: a line is not a record, or an id appears twice.
    """
    before = {summary.id: summary for summary in _summaries(old)}
    added, changed, kept_lines = [], [], []
    n_new = 0
    for after in _summaries(new):
        n_new += 1
        earlier = before.pop(after.id, None)
        if earlier is None:
            added.append(RecordPlace(after.id, after.line))
            continue
        kept_lines.append(earlier.line)
        if earlier.fields != after.fields:
            changed.append(_change(earlier, after))
    removed = tuple(RecordPlace(summary.id, summary.line) for summary in before.values())
    return DatasetDiff(
        old_records=len(kept_lines) + len(removed),
        new_records=n_new,
        added=tuple(added),
        removed=removed,
        changed=tuple(changed),
        reordered=kept_lines != sorted(kept_lines),
    )


@dataclass(frozen=True, slots=True)
class _Summary:
    """A record in a few bytes: hashes of its parts by path."""

    id: str
    line: int
    reference: str
    fields: Mapping[str, bytes]


def _summaries(path: Path) -> Iterator[_Summary]:
    index = index_of_records([DataFile(str(path), "train", path)])
    for located in index.read(range(len(index))):
        yield _summary(located)


def _summary(located: Located) -> _Summary:
    record = located.record
    return _Summary(
        record.id,
        record.line,
        record.field.answers[record.reference or 0].key,
        {
            path: hashlib.blake2b(dumps(value).encode(), digest_size=8).digest()
            for path, value in _parts(located.value)
        },
    )


def _parts(value: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Yield (path, value) of what is compared: down to the parts of the input and the reference."""
    opened = ("", "input", "input.questions", "input.questions.decision", "reference")
    if path in opened and isinstance(value, dict):
        for key, item in value.items():
            yield from _parts(item, f"{path}.{key}" if path else key)
    else:
        yield path, value


def _change(before: _Summary, after: _Summary) -> RecordChange:
    paths = [*after.fields, *(path for path in before.fields if path not in after.fields)]
    differing = [path for path in paths if before.fields.get(path) != after.fields.get(path)]
    flipped = before.reference != after.reference
    references = (before.reference, after.reference) if flipped else None
    return RecordChange(after.id, before.line, after.line, tuple(differing), references)
