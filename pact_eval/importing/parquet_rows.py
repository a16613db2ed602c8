"""Rows in our own format as Parquet: one file, or a folder of part files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl

from pact_eval._files import open_regular, reading
from pact_eval._json import Json
from pact_eval.errors import InputError, Problem, RunError
from pact_eval.importing.grouping import Grouping
from pact_eval.importing.row_reader import RowReader, as_object
from pact_eval.importing.source import LogRow
from pact_eval.runs.rows import collected

PARQUET: Final = b"PAR1"
"""The first bytes of a Parquet file."""

_SUFFIX: Final = ".parquet"
_RUN: Final = "run.json"
_PLAIN: Final = (str, int, float, bool, type(None))


def parquet_files(path: Path) -> tuple[Path, ...]:
    """Return the Parquet files of a log, by name.

    Args:
        path: a file, or a folder of files that end in `.parquet`.

    Returns:
        The files; none if the path is something else.

    Raises:
        InputError: the path cannot be read, or is a run folder, which needs no import.
    """
    if not path.is_dir():
        with reading(path), open_regular(path) as file:
            return (path,) if file.read(len(PARQUET)) == PARQUET else ()
    parts = tuple(sorted(path.glob(f"*{_SUFFIX}")))
    if parts and (path / _RUN).exists():
        message = f"{path}: a run folder; `report` and `compare` read it as it is"
        raise InputError(message)
    return parts


def parquet_rows(
    files: tuple[Path, ...], names: RowReader, grouping: Grouping
) -> Iterator[LogRow | Problem]:
    """Yield the rows of Parquet files, file by file; null is a value that is not there.

    Args:
        files: the files.
        names: our columns, by their names in the files.
        grouping: what names families and domains.

    Raises:
        InputError: a file is damaged, or is not Parquet.
    """
    for file in files:
        for number, value in enumerate(_values(file), 1):
            where = f"{file.name}, row {number:,}: " if len(files) > 1 else f"row {number:,}: "
            record_id: str | None = None
            try:
                plain = {name: _plain(name, cell) for name, cell in value.items()}
                row = as_object({name: cell for name, cell in plain.items() if cell is not None})
                record_id = names.id_if_readable(row)
                yield LogRow(None, record_id, row | grouping.of_entry(row), where)
            except ValueError as error:
                yield Problem(None, record_id, f"{where}{error}")


def _values(file: Path) -> Iterator[dict[str, Any]]:
    try:
        frame = collected(file, pl.scan_parquet(file, glob=False))
    except RunError as error:
        raise InputError(str(error)) from None
    yield from frame.iter_rows(named=True)


def _plain(name: str, value: Any) -> Json:
    """Return a value as JSON has it.

    Raises:
        ValueError: JSON has no such value.
    """
    if isinstance(value, list):
        return [_plain(name, item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(name, item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        message = f"{name}: expected finite numbers, got {value}"
        raise ValueError(message)
    if isinstance(value, _PLAIN):
        return value
    message = f"{name}: expected text, numbers, lists or objects, got {type(value).__name__}"
    raise ValueError(message)
