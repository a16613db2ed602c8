"""Imports: a log of a known format, read and written as a run."""

from __future__ import annotations

import gc
import gzip
import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, cast

import polars as pl

from pact_eval._files import open_regular, reading, sha256_of_file
from pact_eval._json import Json
from pact_eval.errors import InputError, Problem, RecordError, ShapeError, counted
from pact_eval.importing.registry import source_names, source_of, sources
from pact_eval.importing.row_reader import (
    FRAME,
    MOST_PROBLEMS,
    OWN_NAMES,
    Cells,
    RowReader,
    SeveralRightError,
    inconsistent_views,
    missing_views,
)
from pact_eval.importing.source import (
    ImportedRows,
    ImportOptions,
    Log,
    LogRows,
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


_View: TypeAlias = tuple[str, int]
"""Id of an item, and number of a view."""


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
        >>> columns.add(["a", "a"], {"region": ["north", "north"], "seconds": [0, 1]})
        >>> columns.values, columns.ignored
        ({'region': ['north']}, ('seconds',))
        >>> columns = FurtherColumns(kept=True)
        >>> prompts = [item + 300 * "x" for item in "abc"]
        >>> columns.add([*"abc"], {"topic": 3 * [300 * "x"], "prompt": prompts})
        >>> len(columns.values["topic"][0]), columns.ignored
        (200, ('prompt',))
    """

    def __init__(self, *, kept: bool) -> None:
        self._kept = kept
        self._places: dict[str, int] = {}
        self._values: dict[str, list[Json | _CutText]] = {}
        self._ignored: dict[str, bool] = {}
        self._cut: dict[str, dict[str, str]] = {}

    @property
    def ids(self) -> list[str]:
        """The items."""
        return [*self._places]

    def add(self, items: Sequence[str], columns: Mapping[str, Cells]) -> None:
        """Add columns of rows.

        Args:
            items: (n,) ids of their items.
            columns: (n,) cells by name.
        """
        before = len(self._places)
        places = [self._places.setdefault(item, len(self._places)) for item in items]
        for name in {**self._values, **columns}:
            if self._ignored.setdefault(name, not self._kept):
                continue
            values = self._values.setdefault(name, [None] * before)
            cells = columns.get(name) or [None] * len(items)
            if not self._extend(values, name, places, cells):
                self._ignored[name] = True
                del self._values[name]
                self._cut.pop(name, None)

    def _extend(
        self, values: list[Json | _CutText], name: str, places: Sequence[int], cells: Cells
    ) -> bool:
        """Add the cells of a column, and return whether it may still be one of items."""
        kinds = {*map(type, cells)}
        if kinds & {dict, list}:
            return False
        short: Sequence[Json | _CutText] = cells
        if any(isinstance(x, str) and len(x) > _LONGEST_TEXT for x in cells):
            short = [self._shortened(name, x) if isinstance(x, str) else x for x in cells]
        if places[-1] - len(values) == len(places) - 1:  # no row is a further view of an item
            values += short
        else:
            for place, value in zip(places, short, strict=True):
                if place == len(values):
                    values.append(value)
                elif values[place] != value:
                    return False
        return not self._too_many(name)

    def _shortened(self, name: str, value: str) -> str | _CutText:
        """Return a value; of a long text, its beginning, which the items that have it share."""
        if len(value) <= _LONGEST_TEXT:
            return value
        text = f"{value[: _LONGEST_TEXT - 1]}…"
        return _CutText(self._cut.setdefault(name, {}).setdefault(text, text), hash(value))

    def _too_many(self, name: str, most: float = _MOST_LONG) -> bool:
        return len(self._cut.get(name, ())) > most

    @property
    def values(self) -> dict[str, list[Json]]:
        """By column that is kept and has values, those of all items; in the order of the items."""
        ignored = {*self.ignored}
        first: dict[str, int] = {}
        for name, values in self._values.items():
            at = next((at for at, value in enumerate(values) if value is not None), None)
            if at is not None and name not in ignored:
                first[name] = at
        return {
            name: [
                value.text if isinstance(value, _CutText) else value for value in self._values[name]
            ]
            for name in sorted(first, key=first.__getitem__)
        }

    @property
    def ignored(self) -> tuple[str, ...]:
        """Names of the columns that are not kept."""
        half = len(self._places) / 2
        return tuple(
            name for name, ignored in self._ignored.items() if ignored or self._too_many(name, half)
        )


_OWN_REMEDY: Final = "Columns and their values: pact-eval import --help"


@contextmanager
def _collecting_later() -> Iterator[None]:
    """Pause the search for cycles: it would look at all rows again and again, which have none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_collecting_later()
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
    rows, problems = _read(log, reader, further if source.joins else None, named, remedy)
    totals = reader.totals
    if not problems and own and log.mapping is None:
        problems += reader.unmet_mapping()
    if not problems:
        answered, unanswered = _by_status(rows)
        problems += _missing(answered, unanswered) or _several_views(answered, totals.values)
    if problems:
        raise RecordError(named, problems)
    facts = log.facts()
    if facts.problems:
        raise RecordError(named, facts.problems)
    frame, rounding = _frame(answered, unanswered, totals.values)
    block = dict(facts.block)
    if _are_repeats(answered):
        block.setdefault("views", REPEATS)
    if totals.compared:
        block["recomputed"] = {"answers": totals.compared, "correct": totals.correct}
    remarks = [*facts.remarks]
    if totals.not_most_probable:
        remarks.append(
            f"{totals.not_most_probable:,} answers of the log are not the most probable ones, as "
            "sampled answers need not be; every number here is of the most probable answers."
        )
    imported = ImportedRows(
        frame=frame,
        values=totals.values or "",
        facts=ImportFacts(
            ignored_columns=further.ignored,
            renormalised=totals.renormalised,
            zero_on_reference=totals.zero_on_reference
            if known_by_values(totals.values) == "probabilities"
            else 0,
            rounding=rounding,
            censored=_count_censored(answered),
            several_right=answered.filter(pl.col("accepted").is_not_null())["id"].n_unique(),
            log={"format": source.name, **block} if block else {},
        ),
        model=facts.model,
        log_remarks=tuple(remarks),
        labelled=None if log.references is None else log.references.labelled,
        metadata=frame_of_metadata(further.ids, further.values),
    )
    return imported, log


def _read(
    log: Log, reader: RowReader, further: FurtherColumns | None, named: str, remedy: str
) -> tuple[pl.DataFrame, list[Problem]]:
    """Check rows block by block, and return them with the columns of `FRAME`, and all problems.

    Raises:
        ShapeError: questions have several right answers, and nothing else is wrong.
    """
    frames = [pl.DataFrame(schema=FRAME)]
    places = {name: list[Any]() for name in ("line", "record", "where")}
    found: list[tuple[int, Problem]] = []
    several: list[int] = []
    for rows in log.blocks:
        start = len(places["line"])
        frame, failures = reader.read(rows.columns, len(rows))
        right = [at for at, error in failures.items() if isinstance(error, SeveralRightError)]
        several += [start + at for at in right]
        failures = {at: error for at, error in failures.items() if at not in right}
        found += [(start + before, each) for before, each in rows.found(failures, remedy)]
        frames.append(frame.with_columns(pl.col("at") + start))
        for name, cells in places.items():
            cells += rows.facts[name]
        if further is not None and not (found or several):
            others = {name: x for name, x in rows.columns.items() if name not in reader.used}
            further.add(frame["id"].to_list(), others if rows.further is None else rows.further)
        if len(found) >= MOST_PROBLEMS:
            break
    whole = pl.concat(frames)
    found += LogRows(places, {}).found(_repeats(whole, places["line"]), remedy)
    found = sorted(found, key=lambda each: each[0])[:MOST_PROBLEMS]
    last = found[-1][0] if len(found) == MOST_PROBLEMS else len(places["line"])
    problems = [problem for _, problem in found]
    several = [number for number in several if number < last]
    if several and not problems:  # an option decides
        raise ShapeError(f"{named}: {_several_right(several, places).message}")
    problems = [_several_right(several, places), *problems] if several else problems
    if not problems and whole.is_empty():
        problems.append(Problem(None, None, "expected at least one row, got an empty file"))
    return whole, problems


def _repeats(rows: pl.DataFrame, lines: Sequence[int | None]) -> dict[int, ValueError]:
    """Return by number what is wrong with rows whose id and view an earlier row has."""
    keys = rows.select("id", "view", "at")
    first: dict[_View, int] = {}
    failures: dict[int, ValueError] = {}
    for record_id, view, number in keys.filter(keys.select("id", "view").is_duplicated()).rows():
        line = lines[first.setdefault((record_id, view), number)]
        if first[record_id, view] != number:
            earlier = "earlier" if line is None else f"on line {line}"
            failures[number] = ValueError(f"the same id and view already occur {earlier}")
    return failures


def _several_right(several: Sequence[int], places: Mapping[str, Sequence[Any]]) -> Problem:
    """Return the problem of questions with several right answers, with the remedy first."""
    line, record, where = (cells[several[0]] for cells in places.values())
    first = record or (f"line {line}" if line else where.rstrip(": "))
    message = (
        f"give --multi any, which counts an answer that is one of several right ones: expected one "
        f"right answer, got several in {counted(len(several), 'row')} (the first: {first})"
    )
    return Problem(None, None, message)


def _are_repeats(rows: pl.DataFrame) -> bool:
    """Return whether items have several views, and those of an item show one known order."""
    if not _has_views(rows) or (rows["code_order"].list.len() == 0).any():
        return False
    orders: dict[str, Json] = {}
    pairs = rows.select("id", "code_order").iter_rows()
    return all(orders.setdefault(item, order) == order for item, order in pairs)


def _by_status(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows of answered items, and one row for each item that lacks an answer.

    An item has an answer in all of its views, or a status and no numbers.
    """
    without = rows.filter(pl.col("status").is_not_null())
    if without.is_empty():
        return rows, without
    without = without.unique("id", keep="first", maintain_order=True)
    of_items = rows.group_by("id").agg(
        pl.len().alias("views"), pl.col("scored").sum().alias("asked"), pl.col("right").sum()
    )
    without = without.drop("right").join(of_items, on="id", how="left", maintain_order="left")
    reason = pl.when(pl.col("reason") == "").then("status").otherwise("reason")
    named = pl.format("view {}: {}", "view", reason)
    without = without.with_columns(
        pl.when(pl.col("views") > 1).then(named).otherwise("reason").alias("reason"),
        pl.lit(0).alias("view"),
    )
    return rows.filter(~pl.col("id").is_in(without["id"].implode())), without


def _missing(rows: pl.DataFrame, unanswered: pl.DataFrame) -> list[Problem]:
    if rows.is_empty():
        message = f"no entry has an answer ({len(unanswered):,} have a status)"
        return [Problem(None, None, message)]
    return missing_views(rows) + inconsistent_views(rows) if _has_views(rows) else []


def _has_views(rows: pl.DataFrame) -> bool:
    """Return whether a row is another view than the first; without, items have a row each."""
    return bool((rows["view"] > 0).any())


def _several_views(rows: pl.DataFrame, values: str | None) -> list[Problem]:
    """Refuse several right answers under several views: the reference would depend on K."""
    if known_by_values(values) == "answers" or not _has_views(rows):
        return []
    several = rows.filter(pl.col("accepted").is_not_null())
    if several.is_empty():
        return []
    message = "several right answers: expected one view per item"
    return [Problem(None, several["id"][0], message)]


def _count_censored(rows: pl.DataFrame) -> Censored | None:
    """Return how many views do not list every answer, and how many of them lack the reference."""
    listed = rows.filter(pl.col("censored").is_not_null())
    if listed.is_empty():
        return None
    lacking = listed.filter(pl.col("censored").list.contains(pl.col("reference")))
    return Censored(len(listed), len(lacking))


def _frame(
    rows: pl.DataFrame, unanswered: pl.DataFrame, values: str | None
) -> tuple[pl.DataFrame, Rounding | None]:
    """Return the rows of a run, and how its probabilities are rounded."""
    of_logs = [name for name in OF_LOGS if rows[name].null_count() < len(rows)]
    frame = rows.select(*SCHEMA, *of_logs)
    rounding = None
    if values == "probabilities":
        frame, rounding = with_rounding(frame)
    if not unanswered.is_empty():
        without = {**UNANSWERED, **COUNTED}
        statuses = [pl.lit(None, dtype).alias(name) for name, dtype in without.items()]
        both = frame.with_columns(statuses)
        frame = pl.concat([both, unanswered.select(both.columns).cast(both.schema)])
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
            raise InputError(f"{path}: not a log of a known format ({', '.join(source_names())})")
    named = source_of(name)
    if recognising is not None and not recognising.own and not named.recognises(start):
        raise InputError(
            f"{path}: --from {name}, but its content is that of {recognising.name}; use "
            f"--from {recognising.name}, or leave --from out"
        )
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
                # Of more than 100,000 rows, the bytes of a file depend on the parts in memory.
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
            raise InputError(
                f"--data is for rows of your own, and logs without right answers; {path} is a log "
                f"of {source.title}, which has its references: leave --data out"
            )
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
    if not _has_views(frame):
        return frame
    first = pl.col("_row").min().over("id")
    ordered = frame.with_row_index("_row").sort(first, "view", maintain_order=True)
    return ordered.drop("_row")


def _sha256(files: Sequence[Path]) -> str:
    """Return the hash of a file; of several, that of their hashes in order."""
    hashes = [sha256_of_file(file) for file in files]
    if len(hashes) == 1:
        return hashes[0]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()
