"""The columns and the rows of a file are one table: compared with `csv.DictReader` and polars."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from pact_eval.data.labelled.entries import Entries, read_entries
from pact_eval.importing.table_cells import number_of, numbers_in

CELLS = ("", "a", " b ", 'say "no"', "two\nlines", "x,y", "0.5", "é", "-")


def assert_one_table(read: Entries, rows: list[dict[str, Any]]) -> None:
    """Rows, columns, and the order in which columns first have a value."""
    kept = [{name: cell for name, cell in row.items() if cell is not None} for row in rows]
    assert [entry.value for entry in read.entries] == kept
    assert read.columns == tuple(dict.fromkeys(name for row in kept for name in row))
    for name in (*rows[0], "no column"):
        assert read.column(name) == [row.get(name) for row in rows]
    some = [*range(0, len(rows), 2)]
    assert [entry.value for entry in read.chosen(some).entries] == kept[::2]
    assert list(read.chosen(some).lines) == list(read.lines)[::2]


@pytest.mark.parametrize("seed", range(8))
def test_columns_of_csv_are_those_of_the_dict_reader(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    names = [f"c{n}" for n in range(rng.randint(2, 5))]
    rows = [{name: rng.choice(CELLS) for name in names} for _ in range(rng.randint(1, 12))]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    writer.writerows([*rows, dict.fromkeys(names, "end")])
    path = tmp_path / "table.csv"
    path.write_text(text.getvalue(), "utf-8", newline="")
    expected = [
        {name: cell or None for name, cell in row.items()}
        for row in csv.DictReader(io.StringIO(text.getvalue(), newline=""))
    ]
    assert_one_table(read_entries(path), expected)


def test_columns_of_parquet_are_the_rows_of_polars(tmp_path: Path) -> None:
    """Numbers that are not finite are missing; a column of no JSON type is a problem."""
    rows: list[dict[str, Any]] = [
        {"a": None, "b": 1.5, "c": [0.5, math.nan], "d": {"x": 1}, "e": b"x"},
        {"a": "x", "b": math.inf, "c": None, "d": {"x": None}, "e": None},
        {"a": "y", "b": -0.0, "c": [], "d": None, "e": None},
        {"a": "z", "b": math.nan, "c": [1.0], "d": {"x": 2}, "e": None},
    ]
    path = tmp_path / "table.parquet"
    pl.DataFrame(rows).write_parquet(path)
    read = read_entries(path)
    assert [(problem.line, problem.kind) for problem in read.problems] == [
        (None, "values of an unknown type")
    ]
    assert "e: expected text, numbers, lists or objects, got bytes" in str(read.problems[0])


def said(function: Callable[[list[Any]], object], cells: list[Any]) -> object:
    """What a function returns, or its error says."""
    try:
        return function(cells)
    except ValueError as error:
        return str(error)


def test_numbers_of_columns_are_those_of_their_cells() -> None:
    """Whatever Python reads as a number, and we do not, is refused in columns too."""
    cells = (
        *("1", "-.5", "1.", "+2e-3", "1E5", "1e999", "0,5", "50%", "-inf", "1,000", "nan", "1_0"),
        *("inf", " 1 ", "", "e5", ".", "--1", "0x1", "٣", None, 1, 0.5, True),
    )
    rng = Random(0)
    for _ in range(300):
        column = [rng.choice(cells) for _ in range(rng.randint(1, 3))]
        assert said(numbers_in, column) == said(lambda each: [*map(number_of, each)], column)


def test_an_integer_beyond_all_floats_is_no_number() -> None:
    """Integers of JSON have any length (RFC 8259)."""
    with pytest.raises(ValueError, match="expected a number, got 1000"):
        number_of(10**400)


@pytest.mark.parametrize("seed", range(3))
def test_random_tables_against_the_csv_module(seed: int, tmp_path: Path) -> None:
    """Any signs but quotes: cells, and the lines that they are on, are those of `csv.reader`."""
    rng = Random(seed)
    signs = ["a", "", "", "1", "ü", "\u2028", "\x0b", "'", "#", "null", "😀", " x ", "\ufeff", "\0"]
    for _ in range(150):
        width = rng.randint(2, 4)
        rows = [[f"c{column}" for column in range(width)]]
        rows += [
            ["".join(rng.choices(signs, k=2)) for _ in range(width if rng.random() < 0.9 else 2)]
            for _ in range(rng.randint(1, 8))
        ]
        end = rng.choice(["\n", "\r\n", "\r"])
        text = end.join(map(",".join, rows)) + rng.choice(["", end, end * 2])
        (tmp_path / "a.csv").write_text(text, encoding="utf-8", newline="")
        names, *expected = csv.reader(io.StringIO(text, newline=""), strict=True)
        kept = [
            (line, {name: cell for name, cell in zip(names, cells, strict=True) if cell})
            for line, cells in enumerate(expected, 2)
            if len(cells) == width
        ]
        read = read_entries(tmp_path / "a.csv")
        assert [(entry.line, entry.value) for entry in read.entries] == kept
        short = [cells for cells in expected if any(cells) and len(cells) != width]
        assert len(read.problems) == len(short)
