"""Entries of a labelled file: the objects of JSON lines, the rows of CSV and Parquet.

    .jsonl, .json    JSON lines; `.gz` after the name or gzip inside is unpacked
    .csv, .tsv       one header, then one row per entry; an empty cell is a missing value
    .parquet         by its first bytes; null is a missing value

Only the container is read here. What an entry means is decided by `shapes.py`.
"""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import gzip
import io
import itertools
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import polars as pl
from polars.exceptions import PanicException, PolarsError

from pact_eval._files import MOST_TEXT_BYTES, decoded, open_regular, read_bytes, reading
from pact_eval._json import Json, describe, loads
from pact_eval.data.panics import without_panics
from pact_eval.errors import InputError, Problem

__all__ = [
    "ENCODING",
    "Container",
    "Entries",
    "Entry",
    "container_of",
    "json_lines",
    "read_entries",
]

Container = Literal["JSON lines", "CSV", "Parquet"]
"""What a file is made of."""

_PARQUET: Final = b"PAR1"
_GZIP: Final = b"\x1f\x8b"
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
        line: 1-based number of its line; of Parquet, of its row.
        value: its values by name; CSV has text only.
    """

    line: int
    value: dict[str, Json]


@dataclass(frozen=True)
class Entries:
    """All entries of a file.

    Attributes:
        container: what the file is made of.
        entries: those that could be read, in file order.
        problems: what could not be read, in file order.
        class_names: by column of Parquet, the names of its integers, as `datasets` writes them.
    """

    container: Container
    entries: Sequence[Entry]
    problems: Sequence[Problem] = ()
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all values, in the order in which they first occur."""
        names: dict[str, None] = {}
        for entry in self.entries:
            names |= dict.fromkeys(entry.value)
        return tuple(names)


def container_of(path: Path) -> Container:
    """Tell what a file is made of, by its first bytes and its name.

    Raises:
        InputError: the file cannot be read.
    """
    with reading(path), open_regular(path) as file:
        start = file.read(len(_PARQUET))
    if start == _PARQUET:
        return "Parquet"
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:] if suffix.lower() != ".gz"]
    return "CSV" if suffixes[-1:] in ([".csv"], [".tsv"]) else "JSON lines"


def read_entries(path: Path) -> Entries:
    """Read every entry of a labelled file.

    Args:
        path: a file of JSON lines, CSV or Parquet.

    Raises:
        InputError: the file cannot be read, or is longer than 1 GiB.
    """
    container = container_of(path)
    if container == "Parquet":
        return _parquet(path)
    if container == "CSV":
        return _csv(path)
    entries: list[Entry] = []
    problems: list[Problem] = []
    for item in json_lines(path):
        if isinstance(item, Problem):
            problems.append(item)
        else:
            entries.append(item)
    return Entries(container, entries, problems)


def json_lines(path: Path) -> Iterator[Entry | Problem]:
    """Yield the objects of a file of JSON lines, packed with gzip or not.

    Args:
        path: the file.

    Raises:
        InputError: it cannot be read, is damaged, or has a line of more than 64 MiB.
    """
    with reading(path), open_regular(path) as file:
        start = file.read(len(_GZIP))
        file.seek(0)
        if start in _UTF_16:
            yield Problem(1, None, _utf_16(path), ENCODING)
            return
        with _unpacking(path):
            opened = gzip.GzipFile(fileobj=file) if start == _GZIP else file
            for number in itertools.count(1):
                line = opened.readline(MOST_TEXT_BYTES + 1)
                if not line:
                    return
                if len(line) > MOST_TEXT_BYTES:
                    message = f"{path}:{number}: expected a line of at most 64 MiB, got more"
                    raise InputError(message)
                if line.strip():
                    yield _object(number, line)


def _object(number: int, line: bytes) -> Entry | Problem:
    try:
        text = decoded(line, number)
    except ValueError as error:
        return Problem(number, None, f"{error}; save the file as UTF-8", ENCODING)
    try:
        value = loads(text)
    except ValueError as error:
        return Problem(number, None, str(error), _SYNTAX)
    if isinstance(value, dict):
        return Entry(number, value)
    remedy = "; write one object per line" if isinstance(value, list) else ""
    message = f"expected an object, got {describe(value)}{remedy}"
    return Problem(number, None, message, _SYNTAX)


def _utf_16(path: Path) -> str:
    return f"expected UTF-8, got UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {path.name}"


@contextmanager
def _unpacking(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        message = f"{path}: damaged or cut short ({error})"
        raise InputError(message) from None


def _csv(path: Path) -> Entries:
    content = _unpacked(path)
    if content.startswith(_UTF_16):
        return Entries("CSV", (), [Problem(1, None, _utf_16(path), ENCODING)])
    try:
        text = content.removeprefix(_BYTE_ORDER_MARK).decode("utf-8")
    except UnicodeDecodeError:
        return Entries("CSV", (), _undecodable(content))
    names, rows, problems = _rows(text, path)
    problems = _bad_names(names) or problems
    return Entries("CSV", () if _bad_names(names) else rows, problems)


def _unpacked(path: Path) -> bytes:
    content = read_bytes(path)
    if not content.startswith(_GZIP):
        return content
    with _unpacking(path), gzip.open(io.BytesIO(content)) as file:
        unpacked = file.read(_MOST_BYTES + 1)
    if len(unpacked) > _MOST_BYTES:
        message = f"{path}: expected at most 1 GiB of text, got more"
        raise InputError(message)
    return unpacked


def _undecodable(content: bytes) -> list[Problem]:
    """Return every line that is not UTF-8."""
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


def _rows(text: str, path: Path) -> tuple[list[str], list[Entry], list[Problem]]:
    """Return header, rows and problems of a table; a row starts where the one before ends."""
    header = text.split("\n", 1)[0]
    delimiter = "\t" if "\t" in header and "," not in header else ","
    delimiter = ";" if ";" in header and delimiter not in header else delimiter
    delimiter = "\t" if ".tsv" in path.suffixes else delimiter
    entries: list[Entry] = []
    problems: list[Problem] = []
    names: list[str] = []
    csv.field_size_limit(MOST_TEXT_BYTES)
    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        names = [name.strip() for name in next(table, [])]
        end = table.line_num
        for cells in table:
            line, end = end + 1, table.line_num
            if len(cells) == len(names):
                row: dict[str, Json] = dict(zip(names, cells, strict=True))
                entries.append(Entry(line, {name: cell for name, cell in row.items() if cell}))
            elif any(cells):
                message = f"expected {len(names)} cells, got {len(cells)}; quote cells with commas"
                problems.append(Problem(line, None, message, _SYNTAX))
    except csv.Error as error:
        message = f"not valid CSV ({error}); quote cells with commas, quotes or line breaks"
        problems.append(Problem(table.line_num, None, message, _SYNTAX))
    return names, entries, problems


def _bad_names(names: Sequence[str]) -> list[Problem]:
    """Return what is wrong with a header: columns without a name, or two of one name."""
    unnamed = [str(number) for number, name in enumerate(names, 1) if not name]
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    problems = []
    if unnamed:
        message = (
            f"expected a name for every column, got none for column {', '.join(unnamed)}; write "
            "the names on the first line"
        )
        problems.append(Problem(1, None, message, "columns without a name"))
    if twice:
        message = f"expected one column of each name, got two of {', '.join(twice)}; rename one"
        problems.append(Problem(1, None, message, "columns of one name"))
    return problems


def _parquet(path: Path) -> Entries:
    try:
        with reading(path), open_regular(path) as file, without_panics():
            if file.seek(0, io.SEEK_END) > _MOST_BYTES:
                message = f"{path}: expected a file of at most 1 GiB, got more; divide it"
                raise InputError(message)
            file.seek(0)
            frame = pl.read_parquet(file)
            file.seek(0)
            class_names = _class_names(pl.read_parquet_metadata(file))
    except (PolarsError, PanicException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        message = f"{path}: damaged or cut short ({reason})"
        raise InputError(message) from None
    entries: list[Entry] = []
    problems: list[Problem] = []
    for number, row in enumerate(frame.iter_rows(named=True), 1):
        try:
            plain = {name: _plain(name, cell) for name, cell in row.items()}
        except ValueError as error:
            problems.append(Problem(number, None, str(error), _CELLS))
            continue
        entries.append(
            Entry(number, {name: cell for name, cell in plain.items() if cell is not None})
        )
    return Entries("Parquet", entries, problems, class_names)


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
    named = features.items() if isinstance(features, dict) else ()
    lists = {
        column: feature["names"]
        for column, feature in named
        if isinstance(feature, dict) and isinstance(feature.get("names"), list)
    }
    return {
        column: tuple(names)
        for column, names in lists.items()
        if all(isinstance(name, str) for name in names)
    }
