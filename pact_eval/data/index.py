"""One pass over the files of a dataset, for the facts that every check needs.

The index holds one small row per record and the place of its line in the file, so a dataset of
hundreds of thousands of records is audited without being held in memory: records are read again,
one by one or family by family, by those checks that need their texts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Generic, Protocol, Self, TypeVar, cast

import polars as pl

from pact_eval._files import LineSpan, decoded, line_spans, read_lines_at, sha256_of_file
from pact_eval._json import Json, dumps, loads, loads_again
from pact_eval.data.files import DataFile, FileFacts
from pact_eval.data.processes import in_processes
from pact_eval.data.records import (
    Record,
    content_of,
    defaults_of_record,
    name_of,
    parse_record,
    visible,
    with_remedy,
)
from pact_eval.errors import InputError, Place, Problem, RecordError
from pact_eval.progress import step, tracked

COLUMNS: Final = {
    "file": pl.UInt16,
    "line": pl.UInt32,
    "offset": pl.UInt64,
    "length": pl.UInt32,
    "id": pl.String,
    "family": pl.String,
    "source_family": pl.String,
    "source_id": pl.String,
    "domain": pl.String,
    "kind": pl.String,
    "variant": pl.String,
    "n_choices": pl.UInt8,
    "reference": pl.UInt8,
    "context": pl.UInt64,
    "asked": pl.UInt64,
    "right": pl.UInt64,
    "certified": pl.Boolean,
    "sourced": pl.Boolean,
}
"""Columns of `Index.frame`: one row per valid record. `file` counts the index's files, `offset` and
`length` are the bytes of its line, `context` is a hash of its state, `source_id` may be null.
`asked` is a hash of context and question, and `right` of the right answer: see `answer_texts`.
`sourced` says whether the source family is named: of a labelled file, it may be a default."""

FEWEST_BYTES: Final = 50_000_000
"""Smaller datasets are read in this process: others take a second to start."""

_BYTES_IN_A_PART: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class Located:
    """A valid record, its JSON as written in the file, and its place.

    Attributes:
        record: the record.
        value: the object on its line.
        file: the file that contains it.
    """

    record: Record
    value: dict[str, Json]
    file: DataFile

    @property
    def place(self) -> Place:
        """File, line and id."""
        return Place(self.file.name, self.record.line, self.record.id)


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not a record.

    Attributes:
        file: number of its file in the dataset.
        place: where it occurs.
        is_json: whether it is JSON at all.
        message: what is wrong.
        family: the family it names, where that can be read.
    """

    file: int
    place: Place
    is_json: bool
    message: str
    family: str | None


class RecordScan(Protocol):
    """Sees every record once while the index is built; parts may be seen in other processes."""

    def record(self, located: Located) -> None:
        """See a record."""

    def part(self) -> Self:
        """Return a scan that has seen nothing; it can be pickled."""

    def join(self, part: Self) -> None:
        """Take over what a scan of the next lines has seen."""


Scan = TypeVar("Scan", bound=RecordScan)


@dataclass(frozen=True)
class Index:
    """The records of a dataset, by place.

    Attributes:
        files: its files; `frame["file"]` counts them.
        facts: hash, rows and fingerprint of each file.
        frame: one row per valid record, in the order of the files; see `COLUMNS`.
        bad_lines: the lines that are not records.
    """

    files: tuple[DataFile, ...]
    facts: tuple[FileFacts, ...]
    frame: pl.DataFrame
    bad_lines: tuple[BadLine, ...] = ()

    def __len__(self) -> int:
        """Number of healthy records."""
        return self.frame.height

    @property
    def is_incomplete(self) -> bool:
        """Whether some line is not a record, or some file has no lines."""
        return bool(self.bad_lines) or any(facts.rows == 0 for facts in self.facts)

    def place(self, row: int) -> Place:
        """Return the place of the record of a row of the frame."""
        file, line, record_id = self.frame.select("file", "line", "id").row(row)
        return Place(self.files[file].name, line, record_id)

    def read(self, rows: Iterable[int]) -> Iterator[Located]:
        """Read records again, one at a time.

        Args:
            rows: rows of the frame; neighbouring rows are read fastest.

        Raises:
            InputError: a file has changed since the index was built.
        """
        lines = self.frame["line"].to_numpy()
        for row, file, value in self._values(rows):
            try:
                record = parse_record(value, line=int(lines[row]))
            except ValueError:
                raise _change_error(file) from None
            yield Located(record, value, file)

    def states(self) -> Iterator[Json]:
        """Read the contexts of all records again, faster than `read`.

        Raises:
            InputError: a file has changed since the index was built.
        """
        for _, file, value in self._values(range(len(self))):
            try:
                yield value["input"]["state"]  # type: ignore[call-overload,index]
            except (KeyError, TypeError):
                raise _change_error(file) from None

    def _values(self, rows: Iterable[int]) -> Iterator[tuple[int, DataFile, dict[str, Json]]]:
        """Yield (row, file, JSON object) of records."""
        files = self.frame["file"].to_numpy()
        offsets, lengths = self.frame["offset"].to_numpy(), self.frame["length"].to_numpy()
        with ExitStack() as stack:
            handles = [stack.enter_context(file.path.open("rb")) for file in self.files]
            for row in tracked(rows, "Reading records", "records"):
                number = int(files[row])
                handles[number].seek(int(offsets[row]))
                raw = handles[number].read(int(lengths[row]))
                try:
                    value = cast("dict[str, Json]", loads_again(raw.decode("utf-8")))
                except ValueError:
                    raise _change_error(self.files[number]) from None
                yield row, self.files[number], value

    def families(self) -> Iterator[list[Located]]:
        """Yield the members of every family of every file, in file order.

        Members need not be adjacent. A family of which a line is not a record is left
        out: that line has its own finding.
        """
        families = self._rows_by_family()
        located = self.read([row for rows in families for row in rows])
        for rows in families:
            yield list(islice(located, len(rows)))

    def in_parts(self, size: int) -> list[Index]:
        """Divide the dataset: each part has the next `size` families, all their members.

        The parts' `families` together are those of the whole, in the same order.

        Args:
            size: families of a part, at least 1.
        """
        families = self._rows_by_family()
        rows = [
            [row for of_family in families[start : start + size] for row in of_family]
            for start in range(0, len(families), size)
        ]
        return [replace(self, frame=self.frame[part]) for part in rows]

    def in_slices(self, size: int) -> list[Index]:
        """Divide the dataset: each part has the next `size` records.

        Args:
            size: records of a part, at least 1.
        """
        return [replace(self, frame=frame) for frame in self.frame.iter_slices(size)]

    def _rows_by_family(self) -> list[list[int]]:
        """Return the rows of every family of every file without a damaged line, in file order."""
        rows_of: dict[tuple[int, str], list[int]] = {}
        damaged = {line.family for line in self.bad_lines}
        names = zip(self.frame["file"], self.frame["family"], strict=True)
        for row, (file, family) in enumerate(names):
            if family not in damaged:
                rows_of.setdefault((file, family), []).append(row)
        return list(rows_of.values())

    def repeated_ids(self) -> Iterator[tuple[int, int, str, int]]:
        """Yield (file, line, id, first line) of each record with the id of an earlier one."""
        first = self.frame.with_columns(first=pl.col("line").first().over("file", "id"))
        repeated = first.filter(pl.col("line") != pl.col("first"))
        yield from repeated.select("file", "line", "id", "first").iter_rows()


def build_index(files: Sequence[DataFile], scan: Scan | None = None) -> Index:
    """Read every line of a dataset once, in several processes if the files are large.

    Args:
        files: the files.
        scan: sees every record by its parts, which are joined in the order of the lines.

    Returns:
        The index.

    Raises:
        InputError: a file cannot be read.
    """
    n_bytes = sum(file.path.stat().st_size for file in files if file.path.is_file())
    in_others = n_bytes >= FEWEST_BYTES
    tasks, hashes, read = [], [], []
    n_lines, spoiled = [0] * len(files), set[int]()
    # Of `json.dumps(list of records, ensure_ascii=False, sort_keys=True)`.
    fingerprints = [hashlib.sha256(b"[") for _ in files]
    with step("Reading", n_bytes, "bytes") as reading:
        for number, file in enumerate(files):
            with step("Hashing", counts=0):  # a fiftieth of the time
                sha256, spans = line_spans(file.path, _BYTES_IN_A_PART)
                hashes.append(sha256 if file.origin is None else sha256_of_file(file.origin))
            tasks += [
                _Task(number, file, span, None if scan is None else scan.part()) for span in spans
            ]
        parts = in_processes(_read_part, tasks) if in_others else map(_read_part, tasks)
        for task, part in zip(tasks, parts, strict=True):
            if scan is not None and part.scan is not None:
                scan.join(part.scan)
            if part.content is None:
                spoiled.add(task.number)
            elif part.content:
                comma = ", " if n_lines[task.number] else ""
                fingerprints[task.number].update(f"{comma}{part.content}".encode())
            n_lines[task.number] += part.n_lines
            read.append(part)
            reading.done += task.span.stop - task.span.start if in_others else 0
    facts = []
    for number, file in enumerate(files):
        fingerprints[number].update(b"]")
        has_fingerprint = file.role == "eval" and number not in spoiled
        fingerprint = fingerprints[number].hexdigest() if has_fingerprint else None
        facts.append(FileFacts(hashes[number], n_lines[number], fingerprint))
    frame = pl.concat([pl.DataFrame(schema=COLUMNS), *(part.frame for part in read)])
    bad_lines = tuple(line for part in read for line in part.bad_lines)
    return Index(tuple(files), tuple(facts), frame, bad_lines)


def index_of_records(files: Sequence[DataFile]) -> Index:
    """Index files of which every line must be a record with an id of its own.

    Args:
        files: the files.

    Returns:
        The index; it holds at least one record.

    Raises:
        InputError: a file cannot be read.
        RecordError: a line is not a record, an id appears twice, or a file is empty; all problems
            of the first such file together.
    """
    index = build_index(files)
    repeated = [*index.repeated_ids()]
    for number, (file, facts) in enumerate(zip(index.files, index.facts, strict=True)):
        problems = [
            Problem(bad.place.line, bad.place.record_id, bad.message)
            for bad in index.bad_lines
            if bad.file == number
        ]
        problems += [
            Problem(line, record_id, f"the id already occurs at line {first}; ids must be unique")
            for of_file, line, record_id, first in repeated
            if of_file == number
        ]
        if not facts.rows:
            problems = [Problem(None, None, "expected at least one record, the file is empty")]
        if problems:
            problems.sort(key=lambda problem: problem.line or 0)
            raise RecordError(str(file.path), with_remedy(problems, file.path))
    return index


@dataclass(frozen=True, slots=True)
class _Task(Generic[Scan]):
    """Lines that one process reads, and a scan that has seen nothing."""

    number: int
    file: DataFile
    span: LineSpan
    scan: Scan | None


@dataclass(frozen=True, slots=True)
class _Part(Generic[Scan]):
    """Part of the index, made from some lines.

    Attributes:
        frame: a row per record.
        bad_lines: lines that are no records.
        n_lines: number of lines that are not empty.
        content: what the fingerprint is made of; None if a line is not JSON.
        scan: the scan, which has seen the records.
    """

    frame: pl.DataFrame
    bad_lines: list[BadLine]
    n_lines: int
    content: str | None
    scan: Scan | None


def _read_part(task: _Task[Scan]) -> _Part[Scan]:
    rows: list[tuple[object, ...]] = []
    bad_lines: list[BadLine] = []
    texts: list[str] = []
    number, file, n_lines = task.number, task.file, 0
    for at, offset, raw in read_lines_at(file.path, task.span):
        line = file.lines[at - 1] if file.lines else at
        value: Json = None
        is_json, n_lines = False, n_lines + 1
        try:
            value = loads(decoded(raw, line))
            is_json = True
            record = parse_record(value, line=line)
        except ValueError as error:
            record_id, family = (name_of(value, key) for key in ("id", "family"))
            place = Place(file.name, line, record_id)
            bad_lines.append(BadLine(number, place, is_json, str(error), family))
        else:
            if task.scan is not None:
                task.scan.record(Located(record, cast("dict[str, Json]", value), file))
            rows.append(_row(number, offset, len(raw), record))
        if file.role == "eval" and is_json:
            texts.append(json.dumps(value, ensure_ascii=False, sort_keys=True))
    frame = pl.DataFrame(rows, schema=COLUMNS, orient="row")
    whole = all(line.is_json for line in bad_lines)
    return _Part(frame, bad_lines, n_lines, ", ".join(texts) if whole else None, task.scan)


def _row(number: int, offset: int, length: int, record: Record) -> tuple[object, ...]:
    question = [record.field.kind, content_of(record.field.instructions)]
    source_id = record.provenance.get("source_id")
    return (
        number,
        record.line,
        offset,
        length,
        record.id,
        record.family,
        record.source_family,
        None if source_id is None else str(source_id),
        record.domain,
        record.field.kind,
        record.variant,
        record.n_choices,
        record.reference,
        _hash(content_of(record.state)),
        _hash(dumps([*question, visible(content_of(record.state))])),
        _hash(dumps([*answer_texts(record)[record.reference or 0]])),
        record.certificate is not None,
        "source_family" not in defaults_of_record(record),
    )


def answer_texts(record: Record) -> list[tuple[str, str]]:
    """Return name and description of each answer, for comparison with those of other records.

    Examples:
        >>> from pact_eval.data.records import parse_record
        >>> answer_texts(parse_record({
        ...     "id": "a-base", "family": "a", "source_family": "s", "split": "train",
        ...     "domain": "travel", "variant": "base",
        ...     "input": {"state": "The gate is open.", "questions": {"decision": {
        ...         "type": "noul", "instructions": "Is the gate open?"}}},
        ...     "reference": {"target": True}}))
        [('false', ''), ('true', '')]
    """
    answers = record.field.answers
    return [(visible(answer.key), visible(answer.description or "")) for answer in answers]


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _change_error(file: DataFile) -> InputError:
    return InputError(f"{file.path}: the file has changed during the audit")
