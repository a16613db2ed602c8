"""The interface of an import format: `Source`, and the log that it opens.

A source is one module of `formats`. It translates each entry of a log into a row of our own format
(`row_reader.py`), and says what the log says of the answer: right or wrong. `reading.py` reads the
rows of every source in the same way, and compares its own reading with the log's for every row. No
source checks values, joins views or writes files.

    class Mine(Source):
        title, reads = "My tool", "`results.jsonl`"         # in the docs
        def recognises(self, start: Start) -> bool: ...     # does a file or folder begin like this?
        def open(self, path, options) -> Log: ...           # rows one by one, then facts

    SOURCE = Mine()
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final, get_args

import numpy as np
import polars as pl

from pact_eval._choices import LogMetric, SeveralRight, check_choice
from pact_eval._files import MOST_TEXT_BYTES, open_regular, reading, sha256_of_file
from pact_eval._json import Json, describe, dumps, refuse_deep, sha256_of_json
from pact_eval.data.labelled.reader import LabelledData
from pact_eval.data.labelled.reading import AUTOMATIC, Reading, ReadingOptions, take_reading
from pact_eval.data.opening import local_data, only_file_of, open_dataset
from pact_eval.data.records import Record
from pact_eval.errors import InputError, Problem
from pact_eval.hub import hub_json
from pact_eval.importing.row_reader import Cells, check_mapping
from pact_eval.runs.predictions import SUM_TOLERANCE
from pact_eval.runs.provenance import REPEATS, TRIALS, ImportFacts
from pact_eval.runs.rows import PREFIX

_BLOCK: Final = 20_000
_LONGEST: Final = 80
_HASH: Final = 16


@dataclass(frozen=True)
class Label:
    """One value of an entry that names its family or domain.

    Attributes:
        option: the option that gave it, for messages.
        path: the keys that lead to the value.
        pattern: the part of the value that is used; None uses all of it.
    """

    option: str
    path: tuple[str, ...]
    pattern: re.Pattern[str] | None

    @classmethod
    def of(cls, option: str, text: str) -> Label:
        """Read `PATH` or `PATH~REGEX`.

        Raises:
            InputError: there is no path, or the regular expression is not one.

        Examples:
            >>> Label.of("--family-from", "doc.id~^[a-z]+").of_entry({"doc": {"id": "law-7"}})
            'law'
        """
        name, tilde, expression = text.partition("~")
        if not name:
            raise InputError(f"{option} {text}: expected COLUMN or COLUMN~REGEX")
        try:
            return cls(option, tuple(name.split(".")), re.compile(expression) if tilde else None)
        except re.error as error:
            raise InputError(f"{option} {text}: not a regular expression ({error})") from None

    def of_entry(self, entry: Mapping[str, Json]) -> str:
        """Return the label of an entry of a log.

        Raises:
            ValueError: the entry has no such value, or the expression does not match it.
        """
        value = self._value(entry)
        if self.pattern is None:
            return _as_text(value)
        text = value if isinstance(value, str) else dumps(value)
        match = self.pattern.search(text)
        chosen = None if match is None else (match[1] if match.re.groups else match[0])
        if not chosen:
            raise ValueError(f"{self.option}: {self.pattern.pattern} does not match {text!r:.60}")
        return chosen

    def _value(self, entry: Mapping[str, Json]) -> Json:
        if ".".join(self.path) in entry:  # a name with dots
            return entry[".".join(self.path)]
        value: Json = dict(entry)
        for name in self.path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is None or value == "":
            message = f"{self.option}: no value at {'.'.join(self.path)}"
            if len(self.path) == 1:
                message += f"; there are {', '.join(sorted(entry))[:200]}"
            raise ValueError(message)
        return value


@dataclass(frozen=True)
class Grouping:
    """Sources of the names of families and domains.

    Attributes:
        labels: by column of a run, the value that names it.
    """

    labels: Mapping[str, Label]

    @classmethod
    def of(cls, family_from: str | None, domain_from: str | None) -> Grouping:
        """Read the values of `--family-from` and `--domain-from`.

        Raises:
            InputError: a value is not `COLUMN` or `COLUMN~REGEX`.
        """
        texts = {"family": family_from, "domain": domain_from}
        return cls(
            {
                column: Label.of(f"--{column}-from", text)
                for column, text in texts.items()
                if text is not None
            }
        )

    def of_entry(self, entry: Mapping[str, Json]) -> dict[str, Json]:
        """Return the columns of an entry that this names; none if the source names all of them.

        Raises:
            ValueError: the entry has no such value.

        Examples:
            >>> Grouping.of("doc.article", None).of_entry({"doc": {"article": "a1"}})
            {'family': 'a1'}
        """
        return {column: label.of_entry(entry) for column, label in self.labels.items()}


def _as_text(value: Json) -> str:
    if isinstance(value, str) and len(value) <= _LONGEST:
        return value
    if isinstance(value, bool | int | float):
        return str(value)
    return sha256_of_json(value)[:_HASH]


@dataclass(frozen=True)
class ImportOptions:
    """Options for reading a log.

    Attributes:
        source: name of the format; None detects it from the content.
        mapping: our column -> its name in a file of rows; overrides the defaults.
        family_from: what names the family of an item; None uses the source's.
        domain_from: what names its domain.
        suites: files with the questions and references of a log that has only answers.
        filter: name of the filter of lm-evaluation-harness whose answers are read; of requests and
            replies, the model.
        metric: the metric of lm-evaluation-harness by which answers are read: acc, acc_norm,
            acc_bytes or acc_mutual_info; None uses the first that the log has.
        scorer: name of the Inspect scorer whose scores are read.
        multi: "any" counts an answer that is one of several right ones; None refuses such items.
        data: file with the right answers of rows of your own, or of a log without any, by id.
        reading: how a table of others, or the data if they are labelled, are read.
    """

    source: str | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    family_from: str | None = None
    domain_from: str | None = None
    suites: tuple[Path, ...] = ()
    filter: str | None = None
    metric: LogMetric | None = None
    scorer: str | None = None
    multi: SeveralRight | None = None
    data: Path | None = None
    reading: Reading = AUTOMATIC

    @property
    def grouping(self) -> Grouping:
        """Names of families and domains: where they are read from.

        Raises:
            InputError: it is not a path, or its regular expression is not one.
        """
        return Grouping.of(self.family_from, self.domain_from)

    @property
    def settings(self) -> dict[str, Json]:
        """Settings that determine the rows of a run, as far as given; files by their names."""
        settings: dict[str, Json] = {"mapping": dict(self.mapping)}
        for name in ("family_from", "domain_from", "filter", "metric", "scorer", "multi"):
            if getattr(self, name) is not None:
                settings[name] = getattr(self, name)
        if self.reading.named:
            settings["reading"] = self.reading.to_json()
        return settings


class LogOptions(ReadingOptions, total=False):
    """Fields of `ImportOptions`, which documents them; `source` is `--from`."""

    source: str | None
    map: Mapping[str, str]
    family_from: str | None
    domain_from: str | None
    suite: Sequence[Path | str]
    filter: str | None
    metric: LogMetric | None
    scorer: str | None
    multi: SeveralRight | None
    data: Path | str | None


def import_options(options: LogOptions) -> ImportOptions:
    """Return how a log is read.

    Args:
        options: of the user; those that are left out have the defaults of the command.

    Raises:
        InputError: `map` names a column that a run does not have, or an option has another value.
        TypeError: there is no such option.
    """
    values: dict[str, Any] = dict(options)
    check_choice("--metric", values.get("metric"), get_args(LogMetric))
    check_choice("--multi", values.get("multi"), get_args(SeveralRight))
    mapping = check_mapping(values.pop("map", {}))
    suites = tuple(Path(path) for path in values.pop("suite", ()))
    reading = take_reading(values)
    data = values.pop("data", None)
    return ImportOptions(
        mapping=mapping,
        suites=suites,
        data=None if data is None else only_file_of(local_data(data)),
        reading=reading,
        **values,
    )


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
            raise ValueError(f"expected an id of {self.path}, got {dumps(record_id)}")
        self.met.add(record.id)
        return record

    @property
    def ordered(self) -> bool:
        """Whether the data give the order of the answers, instead of different labels only."""
        columns = None if self.labelled is None else self.labelled.columns
        return columns is None or columns.ordered

    @property
    def lacks_families(self) -> bool:
        """Whether nothing in the data says which records belong together."""
        defaults = None if self.labelled is None else self.labelled.defaults
        return defaults is not None and defaults.families and defaults.source_families

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


@dataclass(frozen=True)
class Start:
    """Path and first content, by which a source is recognised.

    Attributes:
        path: a file or folder.
        content: the first bytes of a file; empty for a folder.
        first: the keys of its first line if that is a JSON object; empty otherwise.
    """

    path: Path
    content: bytes
    first: frozenset[str]


@dataclass(frozen=True)
class LogRow:
    """One entry of a log, in one view.

    Attributes:
        line: 1-based line number; None if the log has no lines.
        record: id of the entry in messages; None if it could not be read.
        row: a row in our format.
        where: the place in messages if the log has several files; then there is no line.
        further: columns that are no part of our format; None takes those of the row.
        question: its question, if the row or the further columns do not have it.
        options: names of the answers in canonical order; empty if they are not known.
        wording: hash of the text of the question; "" if it is not known.
        state: hash of what was asked about, likewise.
    """

    line: int | None
    record: str | None
    row: Mapping[str, Json]
    where: str = ""
    further: Mapping[str, Json] | None = None
    question: str = ""
    options: tuple[str, ...] = ()
    wording: str = ""
    state: str = ""


_OF_ROWS: Final = ("line", "record", "where", "question", "options", "wording", "state")


@dataclass(frozen=True)
class LogRows:
    """Entries of a log by column; cells are None without a value.

    Attributes:
        facts: of every row, by the name that `LogRow` gives them.
        columns: rows in our format; numbers may be (n, C) arrays.
        further: columns that are no part of it; None takes those of the rows.
        problems: what is wrong with entries, each with the number of rows before it.
    """

    facts: Mapping[str, Sequence[Any]]
    columns: Mapping[str, Any]
    further: Mapping[str, Cells] | None = None
    problems: Sequence[tuple[int, Problem]] = ()

    def __len__(self) -> int:
        return len(self.facts["line"])

    @classmethod
    def of(cls, entries: Iterable[LogRow | Problem]) -> LogRows:
        """Return entries by column."""
        rows: list[LogRow] = []
        problems: list[tuple[int, Problem]] = []
        for entry in entries:
            if isinstance(entry, Problem):
                problems.append((len(rows), entry))
            else:
                rows.append(entry)
        own = all(row.further is None for row in rows)
        further = (
            None
            if own
            else by_column([row.row if row.further is None else row.further for row in rows])
        )
        facts = {name: [getattr(row, name) for row in rows] for name in _OF_ROWS}
        return cls(facts, by_column([row.row for row in rows]), further, problems)

    def row(self, at: int) -> LogRow:
        """Return one entry."""
        further = self.further
        return LogRow(
            row={
                name: x[at].tolist() if isinstance(x, np.ndarray) else x[at]
                for name, x in self.columns.items()
            },
            further=None if further is None else {name: x[at] for name, x in further.items()},
            **{name: cells[at] for name, cells in self.facts.items()},
        )

    def blocks(self, size: int) -> Iterator[LogRows]:
        """Yield the entries in blocks; if there are problems, in one."""
        if self.problems or not len(self):
            yield self
            return
        further = self.further
        for start in range(0, len(self), size):
            here = slice(start, start + size)
            yield LogRows(
                {name: cells[here] for name, cells in self.facts.items()},
                {name: cells[here] for name, cells in self.columns.items()},
                None if further is None else {name: x[here] for name, x in further.items()},
            )

    def found(
        self, failures: Mapping[int, ValueError], remedy: str = ""
    ) -> list[tuple[int, Problem]]:
        """Return all that is wrong, in order, each with the number of rows before it.

        Args:
            failures: what is wrong with rows, by number.
            remedy: what to do about them, if the message does not say it.
        """
        found = [*self.problems]
        for number, error in failures.items():
            line, record, where = (self.facts[name][number] for name in _OF_ROWS[:3])
            found.append((number, Problem(line, record, f"{where}{error}", remedy=remedy)))
        return sorted(found, key=lambda each: each[0])


def by_column(rows: Sequence[Mapping[str, Json]]) -> dict[str, list[Json]]:
    """Return the cells of rows by column, in the order in which names first occur.

    Examples:
        >>> by_column([{"a": 1}, {"b": 2, "a": 3}])
        {'a': [1, 3], 'b': [None, 2]}
    """
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


@dataclass(frozen=True)
class LogFacts:
    """Facts that a log states about itself, known once its rows are read.

    Attributes:
        block: provenance, for `run.json`.
        model: name of the model; None if the log does not have it.
        remarks: what a user should know of the log, one sentence each.
        problems: what the log contradicts itself in.
    """

    block: Mapping[str, Json] = field(default_factory=dict)
    model: str | None = None
    remarks: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Log:
    """A log that is open.

    Attributes:
        rows: its entries, one by one or by column; a problem where one cannot be read.
        facts: what it says of itself; called once, after the rows.
        tolerance: how far its probabilities may miss a sum of 1, if not by rounding.
        files: the files that it consists of, for its hash.
        named: the file that messages name; None for the path that the user gave.
        references: records that rows were joined with; None without any.
        mapping: names of our columns in rows that were translated; None takes the user's.
    """

    rows: Iterator[LogRow | Problem] | LogRows
    files: tuple[Path, ...]
    facts: Callable[[], LogFacts] = LogFacts
    tolerance: float = SUM_TOLERANCE
    named: Path | None = None
    references: References | None = None
    mapping: Mapping[str, str] | None = None

    @property
    def blocks(self) -> Iterator[LogRows]:
        """Its entries in blocks, so that memory holds few of them as objects."""
        if isinstance(self.rows, LogRows):
            yield from self.rows.blocks(_BLOCK)
            return
        while block := [*islice(self.rows, _BLOCK)]:
            yield LogRows.of(block)


class Source(ABC):
    """A format of logs.

    Attributes:
        title: what writes such logs, as the docs call it.
        reads: its files, in Markdown.
        own: whether it is our own format: its rows are not translated, and columns may be mapped.
        joins: whether `--data` may give its right answers, and further columns stay with the run.
    """

    title: ClassVar[str]
    reads: ClassVar[str]
    own: ClassVar[bool] = False
    joins: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Its name, for `--from`: that of its module."""
        return type(self).__module__.rpartition(".")[2].replace("_", "-")

    @abstractmethod
    def recognises(self, start: Start) -> bool:
        """Tell whether a file or folder has this format."""

    @abstractmethod
    def open(self, path: Path, options: ImportOptions) -> Log:
        """Open a log.

        Raises:
            InputError: it cannot be read.
        """


COLUMNS_REMARK: Final = "Columns: "
FURTHER_REMARK: Final = "Further columns, for --by: "
"""How remarks begin that name columns."""


@dataclass(frozen=True)
class ImportedRows:
    """The rows of an import, with remarks.

    Attributes:
        frame: the rows of a run, logits as float64; unanswered items have a status and no numbers.
        values: the column that the predictions came from; "answers" if there are no probabilities.
        facts: what `run.json` keeps of the import.
        model: name of the model; None if it is not known.
        log_remarks: remarks of the source.
        labelled: how the labelled data with the references were read; None for other data.
        metadata: further columns of the items, by id; None without any.
    """

    frame: pl.DataFrame
    values: str
    facts: ImportFacts
    model: str | None = None
    log_remarks: tuple[str, ...] = ()
    labelled: LabelledData | None = None
    metadata: pl.DataFrame | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks about the import for the user, one sentence each."""
        remarks, facts = [*self.log_remarks], self.facts
        unknown = self.frame.filter(pl.col("code_order").list.len() == 0, pl.col("view") > 0)
        if len(unknown) and facts.log.get("views") not in (REPEATS, TRIALS):
            remarks.append("No code_order: the effect of letters in those views is unknown.")
        if self.metadata is not None:
            names = ", ".join(name.removeprefix(PREFIX) for name in self.metadata.columns[1:])
            remarks.append(f"{FURTHER_REMARK}{names}.")
        if facts.ignored_columns:
            remarks.append(f"Ignored columns: {', '.join(facts.ignored_columns)}.")
        if facts.renormalised and not facts.rounding:
            remarks.append(
                f"{facts.renormalised:,} rows summed to 1 only roughly; they were renormalised."
            )
        if facts.zero_on_reference and not facts.rounding:
            remarks.append(
                f"{facts.zero_on_reference:,} rows give the right answer a probability of 0, so "
                "NLL is infinite."
            )
        return tuple(remarks)


_MOST_BYTES = 16 * MOST_TEXT_BYTES


def read_large_json(path: Path, kind: type = dict, too_long: str = "") -> Any:
    """Read a JSON file of at most 1 GiB, whose constants NaN and Infinity become null.

    Args:
        path: the file.
        kind: dict or list, which its value must be.
        too_long: what to do about a longer file, for the message.

    Raises:
        InputError: it cannot be read, is too long, is not JSON, or has another kind of value.
    """
    with reading(path), open_regular(path) as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise InputError(f"{path}: longer than 1 GiB{too_long}")
    value = loads_with_constants(content, str(path))
    if not isinstance(value, kind):
        raise InputError(f"{path}: expected a JSON {'object' if kind is dict else 'array'}")
    return value


def loads_with_constants(content: bytes, where: str) -> Any:
    """Parse JSON that may have NaN and infinities, as Python tools write it; they become null.

    Raises:
        InputError: it is not JSON.
    """
    nothing: Callable[[str], None] = lambda _constant: None  # noqa: E731
    try:
        text = content.decode("utf-8")
        value = json.loads(text, parse_constant=nothing)
        refuse_deep(text, value)
        return value
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not valid JSON ({error})") from None


@contextmanager
def unpacking(path: Path) -> Iterator[None]:
    """Raise what is wrong with a gzip file that the block reads.

    Raises:
        InputError: the file is damaged or cut short.
    """
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: damaged or cut short ({error})") from None


def as_list(value: Any, name: str) -> list[Any]:
    """Return a JSON array; an empty one for nothing.

    Raises:
        ValueError: it is something else; the message has its name.

    Examples:
        >>> as_list(None, "tags"), as_list(["correct"], "tags")
        ([], ['correct'])
    """
    if value is not None and not isinstance(value, list):
        raise ValueError(f"{name}: expected a list, got {describe(value)}")
    return value or []


def as_dict(value: Any) -> dict[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def by_text(choices: Sequence[str]) -> tuple[int, ...]:
    """Return the canonical index of every choice: its rank by text, or its place if two are equal.

    Examples:
        >>> by_text(["no", "maybe", "yes"]), by_text(["b", "a", "a"])
        ((1, 0, 2), (0, 1, 2))
    """
    if len(set(choices)) < len(choices):
        return tuple(range(len(choices)))
    ranks = {text: rank for rank, text in enumerate(sorted(choices))}
    return tuple(ranks[text] for text in choices)
