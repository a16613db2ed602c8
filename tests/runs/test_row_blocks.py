"""Rows that are read together are read as each alone: what is right, what is wrong, and all counts.

The rows are those of random tables, whole and with cells that do not belong there.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, Final, cast

import polars as pl
import pytest
from foreign_tables import write_table
from polars.testing import assert_frame_equal
from random_tables import random_table

from pact_eval.errors import Problem, ShapeError
from pact_eval.importing.import_run import find_source
from pact_eval.importing.row_reader import OWN_NAMES, RowReader, Totals
from pact_eval.importing.source import LogOptions, LogRow, LogRows, import_options

_STRANGE: Final[tuple[Any, ...]] = (
    *(None, "", " ", "x", True, 0, 7, -1, 0.5, [], [0, 1], [0.5, 0.5], [None, 0.2], {}),
    *("boolean", "ok", "missing", "counterfactual"),
)
_COLUMNS: Final = (
    *("id", "kind", "variant", "reference", "view", "code_order", "answer", "n_choices", "status"),
    *("correct", "answer_mass", "prompt_tokens", "ceiling", "probabilities"),
)


def rows_of_table(folder: Path, seed: int) -> list[LogRow]:
    """Rows of a random table in our format; none if the import asks."""
    table = random_table(seed)
    path = write_table(folder, table.rows, table.dialect)
    options = import_options(cast("LogOptions", table.statement or table.options))
    try:
        blocks = [*find_source(path).open(path, options).blocks]
    except ShapeError:
        return []
    return [LogRow(None, None, block.row(at).row) for block in blocks for at in range(len(block))]


def spoiled(rows: list[LogRow], rng: Random) -> list[LogRow]:
    """Rows, with strange cells in some of them."""
    made: list[LogRow] = []
    for row in rows:
        strange: dict[str, Any] = {}
        while rng.random() < 0.2:
            strange[rng.choice(_COLUMNS)] = rng.choice(_STRANGE)
        made.append(LogRow(None, None, {**row.row, **strange}))
    return made


def read_in_blocks(
    rows: list[LogRow], size: int, *, mixed: bool
) -> tuple[pl.DataFrame, list[Problem], Totals]:
    """Rows that are read so many at a time, what is wrong with others, and all counts."""
    reader = RowReader(OWN_NAMES, several_right=True, mixed=mixed)
    frames, problems = [], []
    for start in range(0, len(rows), size):
        block = LogRows.of(rows[start : start + size])
        frame, failures = reader.read(block.columns, len(block))
        frames.append(frame.with_columns(pl.col("at") + start))
        problems += [problem for _, problem in block.found(failures)]
    return pl.concat(frames), problems, reader.totals


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))]
)
def test_blocks_are_read_as_rows_alone(tmp_path: Path, first: int) -> None:
    """The largest number of rows, a random one and single rows give one result."""
    refused = read = 0
    for seed in range(first * 4, first * 4 + 4):
        rng = Random(seed)
        rows = rows_of_table(tmp_path, seed)
        for made in (rows, spoiled(rows, rng)):
            for mixed in (False, True) if made else ():
                frame, problems, totals = read_in_blocks(made, 1, mixed=mixed)
                for size in (rng.randint(2, 9), len(made)):
                    of_blocks = read_in_blocks(made, size, mixed=mixed)
                    assert_frame_equal(of_blocks[0], frame, check_exact=True)
                    assert of_blocks[1] == problems
                    assert problems or of_blocks[2] == totals
                refused += len(problems)
                read += len(frame)
    assert refused > 10
    assert read > 150
