"""Imports: a log of a known format, read and written as a run."""

from __future__ import annotations

import gzip
import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, cast

import polars as pl

from pact_eval._files import open_regular, reading, sha256_of_file
from pact_eval._json import Json
from pact_eval.errors import InputError, Problem, RecordError, ShapeError, counted
from pact_eval.importing.registry import source_names, source_of, sources
from pact_eval.importing.row_reader import (
    OWN_NAMES,
    RowReader,
    SeveralRightError,
    inconsistent_views,
    missing_views,
)
from pact_eval.importing.source import (
    ImportedRows,
    ImportOptions,
    Log,
    LogRow,
    Outcome,
    Source,
    Start,
    unpacking,
)
from pact_eval.runs.folder import Run, RunWriter
from pact_eval.runs.places import RUNS, log_path, naming_urls, refuse_remote, shown
from pact_eval.runs.predictions import with_rounding
from pact_eval.runs.provenance import (
    REPEATS,
    Censored,
    Data,
    ImportFacts,
    Rounding,
    RunLabels,
    RunNames,
    known_by_values,
    seen_from,
)
from pact_eval.runs.rows import (
    COUNTED,
    OF_LOGS,
    SCHEMA,
    UNANSWERED,
    frame_of_metadata,
    metadata_frame,
    with_metadata,
)

_LONGEST_TEXT: Final = 200
"""Of a value that may name a group; a longer one is cut. Whole documents would fill the memory."""

_MOST_LONG: Final = 200
"""So many different cut texts of a column may name groups; of prompts and documents are more."""


class _CutText(NamedTuple):
    """The beginning of a long text, and a hash of the whole: views of an item must not differ."""

    text: str
    whole: int


class FurtherColumns:
    """Columns of rows that a run does not use otherwise.

    A column is one of items if every view of an item has the same text, number or truth value in
    it. Lists, objects and columns of views are ignored. Texts of more than 200 characters are cut,
    and those with the same beginning are one. A column with more than 200 different ones, or more
    than half as many as items, is ignored: prompts and documents name no groups.

    Args:
        kept: whether the columns of items are kept; otherwise all are ignored.

    Examples:
        >>> columns = FurtherColumns(kept=True)
        >>> for view, region in enumerate(("north", "north")):
        ...     columns.add("a", {"id": "a", "region": region, "seconds": view}, {"id"})
        >>> columns.values, columns.ignored
        ({'a': {'region': 'north'}}, ('seconds',))
        >>> columns = FurtherColumns(kept=True)
        >>> for item in "abc":
        ...     columns.add(item, {"topic": 300 * "x", "prompt": item + 300 * "x"}, set())
        >>> len(columns.values["a"]["topic"]), columns.ignored
        (200, ('prompt',))
    """

    def __init__(self, *, kept: bool) -> None:
        self._kept = kept
        self._values: dict[str, dict[str, Json | _CutText]] = {}
        self._ignored: dict[str, bool] = {}
        self._cut: dict[str, dict[str, str]] = {}

    def add(self, item: str, row: Mapping[str, Json], used: Set[str]) -> None:
        """Add the columns of a row.

        Args:
            item: id of its item.
            row: its columns.
            used: names of the columns that a run uses.
        """
        first_view = item not in self._values
        values = self._values.setdefault(item, {})
        for name in (*row, *(name for name in values if name not in row)):
            if name in used:
                continue
            ignored = self._ignored.setdefault(name, not self._kept)
            if ignored:
                continue
            value = self._shortened(name, row.get(name))
            same = first_view or values.get(name) == value
            if isinstance(value, dict | list) or not same or self._too_many(name):
                self._ignored[name] = True
                self._cut.pop(name, None)
            elif value is not None:
                values[name] = value

    def _shortened(self, name: str, value: Json) -> Json | _CutText:
        """Return a value; of a long text, its beginning, which the items that have it share."""
        if not isinstance(value, str) or len(value) <= _LONGEST_TEXT:
            return value
        text = f"{value[: _LONGEST_TEXT - 1]}…"
        return _CutText(self._cut.setdefault(name, {}).setdefault(text, text), hash(value))

    def _too_many(self, name: str, most: float = _MOST_LONG) -> bool:
        return len(self._cut.get(name, ())) > most

    @property
    def values(self) -> dict[str, dict[str, Json]]:
        """By id of the item, the values that it has by column."""
        ignored = {*self.ignored}
        return {
            item: {
                name: value.text if isinstance(value, _CutText) else value
                for name, value in values.items()
                if name not in ignored
            }
            for item, values in self._values.items()
        }

    @property
    def ignored(self) -> tuple[str, ...]:
        """Names of the columns that are not kept."""
        half = len(self._values) / 2
        return tuple(
            name for name, ignored in self._ignored.items() if ignored or self._too_many(name, half)
        )


_MOST_PROBLEMS = 1000
_OWN_REMEDY = "Columns and their values: pact-eval import --help"

_View: TypeAlias = tuple[str, int]
"""Id of an item, and number of a view."""


def read_log(source: Source, path: Path, options: ImportOptions) -> tuple[ImportedRows, Log]:
    """Read the rows of a log.

    Args:
        source: its format.
        path: a file, or a folder if the format has one.
        options: how it is read.

    Returns:
        The rows with remarks, and the log.

    Raises:
        InputError: the log cannot be read.
        RecordError: rows are malformed, or the log contradicts itself; one error lists all of that.
    """
    log = source.open(path, options)
    own = source.own
    reader = RowReader(
        (options.mapping if log.mapping is None else log.mapping) if own else OWN_NAMES,
        log.tolerance,
        several_right=options.multi is not None,
    )
    further = FurtherColumns(kept=source.joins and log.references is None)
    named = str(log.named or path)
    remedy = _OWN_REMEDY if own else ""
    by_view, problems = _read(log.rows, reader, further if source.joins else None, named, remedy)
    if not problems and own and log.mapping is None:
        problems += reader.unmet_mapping()
    if not problems:
        answered, unanswered = _reading_by_item(by_view)
        rows = [*answered.values()]
        problems += _missing(answered, unanswered) or _several_views(rows, reader.values)
    if problems:
        raise RecordError(named, problems)
    facts = log.facts(Outcome(reader.compared, reader.correct, len(unanswered)))
    if facts.problems:
        raise RecordError(named, facts.problems)
    frame, rounding = _frame(rows, unanswered, reader)
    block = dict(facts.block)
    if _are_repeats(rows):
        block.setdefault("views", REPEATS)
    if reader.compared:
        block["recomputed"] = {"answers": reader.compared, "correct": reader.correct}
    remarks = [*facts.remarks]
    if reader.not_most_probable:
        remarks.append(
            f"{reader.not_most_probable:,} answers of the log are not the most probable ones, as "
            "sampled answers need not be; every number here is of the most probable answers."
        )
    imported = ImportedRows(
        frame=frame,
        values=reader.values or "",
        facts=ImportFacts(
            ignored_columns=further.ignored,
            renormalised=reader.renormalised,
            zero_on_reference=reader.zero_on_reference
            if known_by_values(reader.values) == "probabilities"
            else 0,
            rounding=rounding,
            censored=_count_censored(rows),
            several_right=len({row["id"] for row in rows if row["accepted"] is not None}),
            log={"format": source.name, **block} if block else {},
        ),
        model=facts.model,
        log_remarks=tuple(remarks),
        labelled=None if log.references is None else log.references.labelled,
        metadata=frame_of_metadata(further.values),
    )
    return imported, log


def _read(
    entries: Iterator[LogRow | Problem],
    reader: RowReader,
    further: FurtherColumns | None,
    named: str,
    remedy: str,
) -> tuple[dict[_View, dict[str, Json]], list[Problem]]:
    """Check rows one by one, and return them by id and view; problems are collected.

    Raises:
        ShapeError: questions have several right answers, and nothing else is wrong.
    """
    rows: dict[_View, dict[str, Json]] = {}
    problems: list[Problem] = []
    lines: dict[_View, int | None] = {}
    several: list[LogRow] = []
    for entry in entries:
        if isinstance(entry, Problem):
            problems.append(entry)
        else:
            try:
                key, row = reader.read(dict(entry.row))
                if key in lines:
                    earlier = "earlier" if lines[key] is None else f"on line {lines[key]}"
                    message = f"the same id and view already occur {earlier}"
                    raise ValueError(message)
                lines[key], rows[key] = entry.line, row
                if further is not None:
                    _add_further(further, key[0], entry, reader)
            except SeveralRightError:
                several.append(entry)
            except ValueError as error:
                place = entry.line, entry.record
                problems.append(Problem(*place, f"{entry.where}{error}", remedy=remedy))
        if len(problems) >= _MOST_PROBLEMS:
            break
    _add_several(problems, several, named)
    if not rows and not problems:
        problems.append(Problem(None, None, "expected at least one row, got an empty file"))
    return rows, problems


def _add_further(further: FurtherColumns, item: str, entry: LogRow, reader: RowReader) -> None:
    if entry.further is None:
        further.add(item, entry.row, reader.used)
    else:
        further.add(item, entry.further, frozenset())


def _add_several(problems: list[Problem], several: Sequence[LogRow], named: str) -> None:
    """Add the problem of questions with several right answers, as the first.

    Raises:
        ShapeError: nothing else is wrong, so an option decides.
    """
    if not several:
        return
    problem = _several_right(several)
    if not problems:
        raise ShapeError(f"{named}: {problem.message}")
    problems.insert(0, problem)


def _several_right(entries: Sequence[LogRow]) -> Problem:
    """Return the problem of questions with several right answers, with the remedy first."""
    first = entries[0]
    where = first.record or (f"line {first.line}" if first.line else first.where.rstrip(": "))
    rows = counted(len(entries), "row")
    message = (
        "give --multi any, which counts an answer that is one of several right ones: expected one "
        f"right answer, got several in {rows} (the first: {where})"
    )
    return Problem(None, None, message)


def _are_repeats(rows: Sequence[dict[str, Json]]) -> bool:
    """Return whether items have several views, and those of an item show one known order."""
    orders: dict[str, Json] = {}
    same = all(
        row["code_order"]
        and orders.setdefault(str(row["id"]), row["code_order"]) == row["code_order"]
        for row in rows
    )
    return same and len(orders) < len(rows)


def _reading_by_item(
    rows: Mapping[_View, dict[str, Json]],
) -> tuple[dict[_View, dict[str, Json]], list[dict[str, Json]]]:
    """Return the rows of answered items, and one row for each item that lacks an answer.

    An item has an answer in all of its views, or a status and no numbers.
    """
    without: dict[str, dict[str, Json]] = {}
    views: Counter[str] = Counter()
    scored: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for (record_id, _), row in rows.items():
        views[record_id] += 1
        scored[record_id] += bool(row["scored"])
        right[record_id] += bool(row["right"])
        if row["status"] is not None:
            without.setdefault(record_id, row)
    for record_id, row in without.items():
        if views[record_id] > 1:
            row["reason"] = f"view {row['view']}: {row['reason'] or row['status']}"
        row |= {"view": 0, "asked": scored[record_id], "right": right[record_id]}
    answered = {key: row for key, row in rows.items() if key[0] not in without}
    return answered, [*without.values()]


def _missing(rows: Mapping[_View, dict[str, Json]], unanswered: Sequence[object]) -> list[Problem]:
    if not rows:
        message = f"no entry has an answer ({len(unanswered):,} have a status)"
        return [Problem(None, None, message)]
    return missing_views(rows.keys()) + inconsistent_views([*rows.values()])


def _several_views(rows: Sequence[dict[str, Json]], values: str | None) -> list[Problem]:
    """Refuse several right answers under several views: the reference would depend on K."""
    if known_by_values(values) == "answers" or not any(row["view"] for row in rows):
        return []
    several = next((row for row in rows if row["accepted"] is not None), None)
    if several is None:
        return []
    message = "several right answers: expected one view per item"
    return [Problem(None, str(several["id"]), message)]


def _count_censored(rows: Sequence[dict[str, Json]]) -> Censored | None:
    """Return how many views do not list every answer, and how many of them lack the reference."""
    listed = [
        (row["reference"], indices) for row in rows if isinstance(indices := row["censored"], list)
    ]
    if not listed:
        return None
    return Censored(len(listed), sum(reference in indices for reference, indices in listed))


def _frame(
    rows: list[dict[str, Json]], unanswered: list[dict[str, Json]], reader: RowReader
) -> tuple[pl.DataFrame, Rounding | None]:
    """Return the rows of a run, and how its probabilities are rounded."""
    of_logs = {
        name: dtype for name, dtype in OF_LOGS.items() if any(row[name] is not None for row in rows)
    }
    schema = dict(SCHEMA) | {"logits": pl.List(pl.Float64())} | of_logs
    frame = pl.DataFrame(rows, schema=schema)
    rounding = None
    if reader.values == "probabilities":
        frame, rounding = with_rounding(frame)
    if unanswered:
        without = {**UNANSWERED, **COUNTED}
        both = schema | without
        statuses = [pl.lit(None, dtype).alias(name) for name, dtype in without.items()]
        frame = pl.concat([frame.with_columns(statuses), pl.DataFrame(unanswered, schema=both)])
    return frame, rounding


_START_BYTES: Final = 1 << 16
_GZIP: Final = b"\x1f\x8b"


def find_source(path: Path, name: str | None = None) -> Source:
    """Return the format of a log.

    Args:
        path: a file or folder.
        name: name of the format; None looks at the content.

    Raises:
        InputError: the path cannot be read, or has no known format, or there is no such name, or
            the content is that of another format than the named one.
    """
    start = start_of(path)
    recognising = next((source for source in sources() if source.recognises(start)), None)
    if name is None and recognising is not None:
        return recognising
    if name is None:
        with reading(path), open_regular(path):  # raises: a folder, and what is in it
            message = f"{path}: not a log of a known format ({', '.join(source_names())})"
            raise InputError(message)
    named = source_of(name)
    if recognising is not None and not recognising.own and not named.recognises(start):
        message = (
            f"{path}: --from {name}, but its content is that of {recognising.name}; use "
            f"--from {recognising.name}, or leave --from out"
        )
        raise InputError(message)
    return named


def is_log_folder(path: Path) -> bool:
    """Return whether a folder has a log of a known format.

    Raises:
        InputError: it cannot be read.
    """
    return path.is_dir() and any(source.recognises(start_of(path)) for source in sources())


def start_of(path: Path) -> Start:
    """Return what a source is recognised by.

    Raises:
        InputError: the path cannot be read.
    """
    if path.is_dir():
        return Start(path, b"", frozenset())
    with reading(path), open_regular(path) as file:
        content = file.read(_START_BYTES)
    if content.startswith(_GZIP):
        with reading(path), unpacking(path), gzip.open(path) as unpacked:
            content = unpacked.read(_START_BYTES)
    return Start(path, content, _first_keys(content))


def _first_keys(content: bytes) -> frozenset[str]:
    """Return the keys of the object on the first line; of a long line, those that can be seen."""
    line = content.lstrip().split(b"\n", 1)[0]
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # its source says what is wrong with the line
        return frozenset()
    return frozenset(value) if isinstance(value, dict) else frozenset()


@dataclass(frozen=True, repr=False)
class ImportedRun(Run):
    """A run that was imported, read; see `Run`.

    Attributes:
        remarks: what to know of the log, one sentence each.
    """

    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, run: Run, remarks: tuple[str, ...]) -> ImportedRun:
        """Return a run with remarks on its import."""
        return cls(run.folder, run.provenance, run.predictions, remarks)


def default_folder(path: Path | str, runs: Path | str = RUNS) -> Path:
    """Return the folder of an import that gets none: the name of its log, in a folder of runs.

    Args:
        path: the log.
        runs: the folder of runs.

    Examples:
        >>> default_folder("data/tickets.csv.gz").as_posix()
        'runs/tickets'
    """
    name = Path(str(path).rstrip("/")).name
    return Path(runs) / (name.lstrip("._").split(".")[0] or "imported")


@dataclass(frozen=True)
class ReadLog:
    """A log that was read and is not written yet.

    Attributes:
        rows: its rows, with remarks.
        settings: everything that determines the rows.
        names: everything that names the run: arm, seed, command line, log.
        metadata: further columns of the items, by id; None without any.
        seconds: how long reading took.
    """

    rows: ImportedRows
    settings: Mapping[str, Json]
    names: RunNames
    metadata: pl.DataFrame | None
    seconds: float

    def write(self, out: Path) -> None:
        """Write the run, unless the folder has it already.

        Args:
            out: the run folder.

        Raises:
            RunSettingsError: the folder has a run with other settings.
            RunError: the folder cannot be used.
        """
        names = self.names
        if "references" in names:
            names = {**names, "data_from_run": seen_from(out, Path(str(names["references"])))}
        with RunWriter(out, self.settings, names) as writer:
            if not writer.complete:
                writer.write_part(0, with_metadata(_by_item(self.rows.frame), self.metadata))
                writer.finish(self.seconds, self.rows.facts.to_json())


def read_to_write(path: Path, labels: RunLabels, options: ImportOptions) -> ReadLog:
    """Read a log, to write it as a run.

    Args:
        path: a log, or its URL; see `registry.py`.
        labels: what names the run: arm, seed, command line.
        options: how the log is read.

    Raises:
        InputError: the log cannot be read.
        RecordError: a row is malformed, or the log contradicts itself.
    """
    started = time.monotonic()
    path = log_path(path)
    with naming_urls():
        source = find_source(path, options.source)
        if options.data is not None and not source.joins:
            message = (
                f"--data is for rows of your own, and logs without right answers; {path} is a log "
                f"of {source.title}, which has its references: leave --data out"
            )
            raise InputError(message)
        rows, log = read_log(source, path, options)
    joined = log.references
    settings: dict[str, Json] = {
        "data": Data(_sha256(log.files)).to_json(),
        **({} if source.own else {"log": source.name}),
        **options.settings,
        **({} if joined is None else {"references": joined.to_json()}),
        "k": rows.frame["view"].n_unique(),
        "values": rows.values,
    }
    names: RunNames = {"source": "import", "data": shown(path), **cast("RunNames", labels)}
    if joined is not None:
        names["references"] = str(options.data)
    if rows.model is not None:
        names["base_model"] = rows.model
    metadata = rows.metadata if joined is None else metadata_frame(joined.records)
    return ReadLog(rows, settings, names, metadata, time.monotonic() - started)


def import_run(
    path: Path, out: Path, labels: RunLabels, options: ImportOptions | None = None
) -> ImportedRows:
    """Read a log and write it as a run. Importing the same log again leaves the run as it is.

    Args:
        path: a log, or its URL; see `registry.py`.
        out: the run folder.
        labels: what names the run: arm, seed, command line.
        options: how the log is read; None detects its format.

    Returns:
        What was imported.

    Raises:
        InputError: the log cannot be read.
        RecordError: a row is malformed, or the log contradicts itself; then nothing is written.
        RunError: the folder cannot be used, or has a run with other settings.
    """
    refuse_remote(out)
    log = read_to_write(path, labels, options or ImportOptions())
    log.write(out)
    return log.rows


def _by_item(frame: pl.DataFrame) -> pl.DataFrame:
    """Put the views of each item next to each other, as `score` does; items keep their order.

    Logs list epochs, trials or requests in an order of their own.
    """
    first = pl.col("_row").min().over("id")
    ordered = frame.with_row_index("_row").sort(first, "view", maintain_order=True)
    return ordered.drop("_row")


def _sha256(files: Sequence[Path]) -> str:
    """Return the hash of a file; of several, that of their hashes in order."""
    hashes = [sha256_of_file(file) for file in files]
    if len(hashes) == 1:
        return hashes[0]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()
