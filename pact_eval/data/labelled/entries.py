"""Entries of a file: the objects of JSON, the rows of CSV and Parquet.

    JSON lines       one object per line
    JSON             an array of objects, or an object with one such array
    CSV              one header, then one row per entry; an empty cell is a missing value. Commas,
                     semicolons, tabs or bars; UTF-8, with a byte order mark or not, or Windows-1252
    Parquet          by its first bytes; null is a missing value. Also a folder of such files

Text may be packed with gzip or zstd. Only the container is read here: `shapes.py` and `columns.py`
decide what an entry means.
"""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import gzip
import importlib
import io
import itertools
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Final, Literal

import polars as pl
from polars.exceptions import PanicException, PolarsError

from pact_eval._files import MOST_TEXT_BYTES, decoded, open_regular, reading
from pact_eval._json import Json, describe, loads
from pact_eval.data.panics import without_panics
from pact_eval.errors import InputError, Problem, ShapeError, missing_extra

Container = Literal["JSON lines", "JSON", "CSV", "Parquet"]
"""What a file is made of."""

_PARQUET: Final = b"PAR1"
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_PACKED: Final = (".gz", ".zst")
_PEEK: Final = 1 << 16
_DELIMITERS: Final = (",", ";", "\t", "|")
ROW_NAMES: Final = "row"
"""What the first column is called if its header is empty: the names of rows."""
_TABLES: Final = frozenset(
    {"data", "rows", "records", "examples", "instances", "items", "results", "predictions"}
    | {"samples", "entries"}
)
_SEPARATOR: Final = re.compile(r"sep=(.)\r?\n")
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_MOST_BYTES: Final = 16 * MOST_TEXT_BYTES
ENCODING: Final = "wrong encodings"
"""Kind of the problems of text that is not UTF-8."""
_SYNTAX: Final = "lines that cannot be parsed"
_CELLS: Final = "values of an unknown type"


@dataclass(frozen=True, slots=True)
class Entry:
    """One object or row.

    Attributes:
        line: 1-based number of its line; of Parquet and JSON arrays, of its row.
        value: its values by name; CSV has text only.
        part: name of its file, if a folder has several.
    """

    line: int
    value: dict[str, Json]
    part: str = ""


class ColumnEntries(Sequence[Entry]):
    """Rows of a table by column; an entry is made when it is asked for.

    Args:
        lines: (n,) the line of every row.
        cells: (n,) cells by column; None without a value.

    Examples:
        >>> ColumnEntries([2, 3], {"a": ["x", None], "b": ["y", "z"]})[1]
        Entry(line=3, value={'b': 'z'}, part='')
    """

    def __init__(self, lines: Sequence[int], cells: Mapping[str, list[Json]]) -> None:
        self.lines = lines
        self.cells = cells

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[each] for each in range(len(self))[at]]
        return self._entry(self.lines[at], [cells[at] for cells in self.cells.values()])

    def __iter__(self) -> Iterator[Entry]:
        return map(self._entry, self.lines, zip(*self.cells.values(), strict=True))

    def _entry(self, line: int, row: Sequence[Json]) -> Entry:
        named = zip(self.cells, row, strict=True)
        return Entry(line, {name: cell for name, cell in named if cell is not None})


@dataclass(frozen=True)
class Entries:
    """All entries of a file.

    Attributes:
        container: what the file is made of.
        entries: those that could be read, in file order.
        problems: what could not be read, in file order.
        class_names: by column of Parquet, the names of its integers, as `datasets` writes them.
        remarks: what to know of the file, one sentence each.
    """

    container: Container
    entries: Sequence[Entry]
    problems: Sequence[Problem] = ()
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    _cells: dict[str, list[Json]] = field(default_factory=dict, init=False, compare=False)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of all values that are not null, in the order in which they first occur."""
        if isinstance(self.entries, ColumnEntries):
            first = {
                name: next((at for at, cell in enumerate(cells) if cell is not None), None)
                for name, cells in self.entries.cells.items()
            }
            found = {name: at for name, at in first.items() if at is not None}
            return tuple(sorted(found, key=found.__getitem__))
        names: dict[str, None] = {}
        for entry in self.entries:
            names |= {name: None for name, value in entry.value.items() if value is not None}
        return tuple(names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all values, null or not, in the order in which they first occur."""
        if isinstance(self.entries, ColumnEntries):
            return self.columns
        return tuple(dict.fromkeys(name for entry in self.entries for name in entry.value))

    @cached_property
    def lines(self) -> Sequence[int]:
        """The lines of the entries."""
        if isinstance(self.entries, ColumnEntries):
            return self.entries.lines
        return [entry.line for entry in self.entries]

    def chosen(self, places: Sequence[int]) -> Entries:
        """Return some of the entries."""
        if len(places) == len(self.entries):
            return self
        entries: Sequence[Entry] = [self.entries[at] for at in places]
        if isinstance(self.entries, ColumnEntries):
            cells = {name: [each[at] for at in places] for name, each in self.entries.cells.items()}
            entries = ColumnEntries([self.lines[at] for at in places], cells)
        return replace(self, entries=entries)

    def column(self, name: str | None) -> list[Json]:
        """Return (n,) the cells of a column; None without a value."""
        if name is None:
            return [None] * len(self.entries)
        if isinstance(self.entries, ColumnEntries):
            return self.entries.cells.get(name) or [None] * len(self.entries)
        if name not in self._cells:
            self._cells[name] = [entry.value.get(name) for entry in self.entries]
        return self._cells[name]


def container_of(path: Path) -> Container:
    """Tell what a file is made of, by its first bytes and its name.

    Raises:
        InputError: the file cannot be read.
    """
    if path.is_dir():
        return "Parquet"
    with _open_unpacked(path) as file:
        start = file.read(_PEEK)
    if start.startswith(_PARQUET):
        return "Parquet"
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _PACKED]
    if suffixes[-1:] in ([".csv"], [".tsv"]):
        return "CSV"
    text = start.removeprefix(_BYTE_ORDER_MARK).lstrip()
    first = text.split(b"\n", 1)[0].strip()
    if text.startswith(b"["):
        return "JSON"
    if text.startswith(b"{"):
        spread = len(first) < len(text) and not first.endswith(b"}")
        return "JSON" if spread and _parses(path) else "JSON lines"
    is_json = suffixes[-1:] in ([".json"], [".jsonl"], [".ndjson"])
    has_cells = any(delimiter.encode() in first for delimiter in _DELIMITERS)
    is_table = has_cells and not is_json and not start.startswith(_UTF_16)
    return "CSV" if is_table else "JSON lines"


def read_entries(path: Path) -> Entries:
    """Read every entry of a file, whatever it is made of.

    Args:
        path: a file of JSON lines, JSON, CSV or Parquet, or a folder of Parquet files.

    Raises:
        InputError: the file cannot be read, or is longer than 1 GiB.
        ShapeError: two delimiters fit a table.
    """
    container = container_of(path)
    if container == "Parquet":
        return _parquet(path)
    if container == "CSV":
        return _csv(path)
    entries: list[Entry] = []
    problems: list[Problem] = []
    for item in json_lines(path) if container == "JSON lines" else _json(path):
        if isinstance(item, Problem):
            problems.append(item)
        else:
            entries.append(item)
    inner = _inner_table(entries[0].value) if len(entries) == 1 and not problems else None
    if isinstance(inner, list):
        entries = [Entry(n, row) for n, row in enumerate(inner, 1) if isinstance(row, dict)]
    return Entries(container, entries, problems)


def json_lines(path: Path) -> Iterator[Entry | Problem]:
    """Yield the objects of a file of JSON lines, packed or not.

    Args:
        path: the file.

    Raises:
        InputError: it cannot be read, is damaged, or has a line of more than 64 MiB.
    """
    with _open_unpacked(path) as file:
        for number in itertools.count(1):
            line = file.readline(MOST_TEXT_BYTES + 1)
            if not line:
                return
            if number == 1 and line.startswith(_UTF_16):
                yield Problem(1, None, _utf_16(path), ENCODING)
                return
            if len(line) > MOST_TEXT_BYTES:
                raise InputError(f"{path}:{number}: expected a line of at most 64 MiB, got more")
            if line.strip():
                yield _object(number, line)


def _json(path: Path) -> Iterator[Entry | Problem]:
    """Yield the objects of a JSON array, or of the only array in a JSON object.

    Raises:
        InputError: the file is not JSON, or is longer than 1 GiB.
    """
    content = _content(path)
    try:
        value = loads(decoded(content.removeprefix(_BYTE_ORDER_MARK), 1))
    except ValueError as error:
        yield Problem(None, None, f"{error}; write one object per line", _SYNTAX)
        return
    value = _inner_table(value)
    items = value if isinstance(value, list) else [value]
    yield from (_entry(number, item) for number, item in enumerate(items, 1))


def _inner_table(value: Json) -> Json:
    """Return the rows that an object has under a usual name; anything else as it is."""
    lists = [
        item
        for name, item in (value.items() if isinstance(value, dict) else ())
        if name in _TABLES and isinstance(item, list) and item
        if all(isinstance(row, dict) for row in item)
    ]
    return lists[0] if len(lists) == 1 else value


def _parses(path: Path) -> bool:
    """Return whether a file is one JSON document: an object over several lines."""
    try:
        json.loads(_content(path))
    except (ValueError, RecursionError):
        return False
    return True


def _object(number: int, line: bytes) -> Entry | Problem:
    try:
        text = decoded(line, number)
    except ValueError as error:
        return Problem(number, None, f"{error}; save the file as UTF-8", ENCODING)
    try:
        value = loads(text)
    except ValueError as error:
        return Problem(number, None, str(error), _SYNTAX)
    return _entry(number, value)


def _entry(number: int, value: Json) -> Entry | Problem:
    if isinstance(value, dict):
        return Entry(number, value)
    remedy = "; write one object per line" if isinstance(value, list) else ""
    message = f"expected an object, got {describe(value)}{remedy}"
    return Problem(number, None, message, _SYNTAX)


def _utf_16(path: Path) -> str:
    return f"expected UTF-8, got UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {path.name}"


@contextmanager
def _open_unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file; gzip and zstd are unpacked.

    Raises:
        InputError: it cannot be read, or is damaged.
        MissingExtraError: it is packed with zstd, and nothing here can read that.
    """
    with reading(path), open_regular(path) as file:
        start = file.read(len(_ZSTD))
        file.seek(0)
        damage: tuple[type[Exception], ...] = (EOFError, gzip.BadGzipFile, zlib.error)
        if start.startswith(_GZIP):
            opened: Any = gzip.GzipFile(fileobj=file)
        elif start == _ZSTD:
            try:
                zstd = importlib.import_module("zstandard")
            except ImportError:
                raise missing_extra("reading .zst files", "zstandard", "inspect") from None
            reader = zstd.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            opened, damage = io.BufferedReader(reader), (*damage, zstd.ZstdError)
        else:
            yield file
            return
        try:
            yield opened
        except damage as error:
            raise InputError(f"{path}: damaged or cut short ({error})") from None


def _content(path: Path) -> bytes:
    with _open_unpacked(path) as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise InputError(f"{path}: expected at most 1 GiB of text, got more")
    return content


def _csv(path: Path) -> Entries:
    content = _content(path)
    if content.startswith(_UTF_16):
        return Entries("CSV", (), [Problem(1, None, _utf_16(path), ENCODING)])
    remarks: tuple[str, ...] = ()
    try:
        text = content.removeprefix(_BYTE_ORDER_MARK).decode("utf-8")
    except UnicodeDecodeError:
        try:
            text = content.decode("cp1252")
        except UnicodeDecodeError:
            return Entries("CSV", (), _undecodable(content))
        remarks = ("The file is not UTF-8; it was read as Windows-1252 (cp1252).",)
    names, rows, problems = _rows(text, path)
    bad_names = _bad_names(names)
    return Entries("CSV", () if bad_names else rows, bad_names or problems, remarks=remarks)


def _undecodable(content: bytes) -> list[Problem]:
    """Return every line that is neither UTF-8 nor Windows-1252."""
    problems = []
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            message = (
                f"expected UTF-8, got byte 0x{line[error.start]:02x} (byte {error.start + 1} of "
                "the line); save the file as UTF-8"
            )
            problems.append(Problem(number, None, message, ENCODING))
    return problems


def _table(text: str, delimiter: str) -> Any:
    csv.field_size_limit(MOST_TEXT_BYTES)
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)


def _delimiter(text: str, path: Path) -> str:
    """Return what divides the cells of a table: the one under which its first rows are equal.

    Raises:
        ShapeError: two of them fit.
    """
    if ".tsv" in path.suffixes:
        return "\t"
    stated = _SEPARATOR.match(text)  # as Excel writes it
    if stated:
        return stated[1]
    widths = {}
    for delimiter in _DELIMITERS:
        try:
            rows = [cells for cells in itertools.islice(_table(text, delimiter), 200) if any(cells)]
        except csv.Error:
            continue
        if rows and len(rows[0]) > 1:
            widths[delimiter] = {len(cells) for cells in rows}
    even = [delimiter for delimiter, width in widths.items() if len(width) == 1]
    if len(even) > 1:
        both = " and ".join(repr(delimiter) for delimiter in even)
        raise ShapeError(
            f"{path}: {both} both divide every row into cells; quote the cells, or save a .tsv"
        )
    header = text.split("\n", 1)[0]
    return even[0] if even else max(_DELIMITERS, key=header.count)


def _rows(text: str, path: Path) -> tuple[list[str], ColumnEntries, list[Problem]]:
    """Return header, rows and problems of a table; a row starts where the one before ends."""
    lines: list[int] = []
    rows: list[list[str]] = []
    problems: list[Problem] = []
    names: list[str] = []
    delimiter = _delimiter(text, path)
    table = _table(text, delimiter)
    try:
        if _SEPARATOR.match(text):
            next(table)
        names = [name.strip() for name in next(table, [])]
        if names and not names[0] and ROW_NAMES not in names:
            names[0] = ROW_NAMES  # pandas and R write the names of rows without a header
        end = table.line_num
        plain = _plain_columns(text, delimiter, len(names)) if end == 1 else None
        if plain:
            count = len(plain[0])
            columns = dict(zip(names, plain, strict=True))
            return names, ColumnEntries(range(2, count + 2), columns), []
        for cells in table:
            line, end = end + 1, table.line_num
            if len(cells) == len(names):
                lines.append(line)
                rows.append(cells)
            elif any(cells):
                message = f"expected {len(names)} cells, got {len(cells)}; quote cells with commas"
                problems.append(Problem(line, None, message, _SYNTAX))
    except csv.Error as error:
        message = f"not valid CSV ({error}); quote cells with commas, quotes or line breaks"
        problems.append(Problem(table.line_num, None, message, _SYNTAX))
    read = dict(zip(names, zip(*rows, strict=True), strict=False))
    kept: dict[str, list[Json]] = {name: [cell or None for cell in read[name]] for name in read}
    return names, ColumnEntries(lines, kept), problems


def _plain_columns(text: str, delimiter: str, width: int) -> list[list[Json]] | None:
    """Return the columns below a header of one line, if there is nothing to decide about rows.

    So of tables without quotes in which every line is a row with all cells. polars reads them in a
    tenth of the time; what it would repair in silence is left to `csv`.
    """
    text = text.replace("\r\n", "\n")
    body = text.partition("\n")[2].removesuffix("\n")
    rows = body.count("\n") + 1
    even = body.count(delimiter) == (width - 1) * rows and width > 1
    if not even or any(sign in text for sign in ('"', "\r", "\0", "\ufeff")):
        return None
    schema = {str(column): pl.String for column in range(width)}
    try:
        table = pl.read_csv(
            body.encode(), has_header=False, separator=delimiter, quote_char=None, schema=schema
        )
    except PolarsError:
        return None
    return [column.to_list() for column in table] if table.shape == (rows, width) else None


def _bad_names(names: Sequence[str]) -> list[Problem]:
    """Return what is wrong with a header: columns without a name, or two of one name."""
    unnamed = [str(number) for number, name in enumerate(names, 1) if not name]
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    messages = {
        "columns without a name": "expected a name for every column, got none for column "
        f"{', '.join(unnamed)}; write the names on the first line",
        "columns of one name": f"expected one column of each name, got two of {', '.join(twice)}; "
        "rename one",
    }
    found = zip(messages.items(), (unnamed, twice), strict=True)
    return [Problem(1, None, message, kind) for (kind, message), wrong in found if wrong]


def _parquet(path: Path) -> Entries:
    """Read a Parquet file, or the files of a folder by their names."""
    if not path.is_dir():
        return _parquet_file(path)
    read = {part.name: _parquet_file(part) for part in sorted(path.glob("*.parquet"))}
    rows = [
        replace(entry, part=name if len(read) > 1 else "")
        for name, entries in read.items()
        for entry in entries.entries
    ]
    problems = [
        replace(problem, message=f"{name}: {problem.message}")
        for name, entries in read.items()
        for problem in entries.problems
    ]
    names = {name: classes for each in read.values() for name, classes in each.class_names.items()}
    return Entries("Parquet", rows, problems, names)


def _parquet_file(path: Path) -> Entries:
    try:
        with reading(path), open_regular(path) as file, without_panics():
            if file.seek(0, io.SEEK_END) > _MOST_BYTES:
                raise InputError(f"{path}: expected a file of at most 1 GiB, got more; divide it")
            file.seek(0)
            source = io.BytesIO(_content(path)) if path.suffix.lower() in _PACKED else file
            frame = pl.read_parquet(source)
            source.seek(0)
            class_names = _class_names(pl.read_parquet_metadata(source))
    except (PolarsError, PanicException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: damaged or cut short ({reason})") from None
    cells: dict[str, list[Json]] = {}
    problems: list[Problem] = []
    for column in frame:
        kind = column.dtype
        if kind.is_float():
            column = column.set(~column.is_finite(), None)
        cells[column.name] = column.to_list()
        if not (kind in (pl.String, pl.Boolean) or kind.is_numeric()):
            try:
                cells[column.name] = [_plain(column.name, cell) for cell in cells[column.name]]
            except ValueError as error:
                problems.append(Problem(None, None, str(error), _CELLS))
    return Entries("Parquet", ColumnEntries(range(1, len(frame) + 1), cells), problems, class_names)


def _plain(name: str, value: Any) -> Json:
    """Return a cell as JSON has it; numbers that are not finite are missing values.

    Raises:
        ValueError: JSON has no such value.
    """
    if isinstance(value, list):
        return [_plain(name, item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(name, item) for key, item in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, dt.date | dt.time | dt.timedelta | decimal.Decimal):
        return str(value)
    message = f"{name}: expected text, numbers, lists or objects, got {type(value).__name__}"
    raise ValueError(message)


def _class_names(metadata: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the names of integer labels that the library `datasets` keeps in its files."""
    try:
        features = json.loads(metadata.get("huggingface", "{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    names = {
        column: feature.get("names")
        for column, feature in (features.items() if isinstance(features, dict) else ())
        if isinstance(feature, dict)
    }
    return {
        column: tuple(listed)
        for column, listed in names.items()
        if isinstance(listed, list) and all(isinstance(name, str) for name in listed)
    }
