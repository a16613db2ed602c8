"""Runs whose items are right or wrong as a test wants it, and cells by row and column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from run_frames import write_run

from pact_eval.runs.rows import SCHEMA
from pact_reports.table import Cell, Table

KINDS = ("choice", "boolean", "score")
DOMAINS = ("commerce", "housing")


def frame_of(correct: Sequence[bool], *, k: int = 1, sure: float = 1.0) -> pl.DataFrame:
    """Returns a run of two answers an item, right where it is told to be; pairs are families."""
    made = [
        {
            "id": f"i{item}",
            "family": f"f{item // 2}",
            "source_family": f"s{item % 6 // 2}",
            "domain": DOMAINS[item // 2 % 2],
            "kind": KINDS[item // 2 % 3],
            "variant": ("base", "counterfactual")[item % 2],
            "reference": item % 2,
            "n_choices": 2,
            "view": view,
            "code_order": [0, 1] if view % 2 == 0 else [1, 0],
            "logits": [sure, 0.0] if right == (item % 2 == 0) else [0.0, sure],
            "prompt_tokens": 300 + item,
            "answer_mass": 0.9,
        }
        for item, right in enumerate(correct)
        for view in range(k)
    ]
    return pl.DataFrame(made, schema=SCHEMA)


def run_of(
    folder: Path,
    correct: Sequence[bool],
    *,
    arm: str,
    seed: int | None,
    k: int = 1,
    sure: float = 1.0,
) -> Path:
    """Writes such a run."""
    return write_run(folder, frame_of(correct, k=k, sure=sure), arm=arm, seed=seed)


def share(right: int, of: int) -> list[bool]:
    """Returns outcomes of which the first so many are right."""
    return [item < right for item in range(of)]


def texts(table: Table, *titles: str) -> list[list[str]]:
    """Returns the cells of some columns as text, row by row; of all columns without titles."""
    return [[cell.text for cell in row] for row in cells(table, *titles)]


def cells(table: Table, *titles: str) -> list[list[Cell]]:
    """Returns the cells of some columns, row by row."""
    heads = [column.title for column in table.columns]
    at = [heads.index(title) for title in titles] or list(range(len(heads)))
    return [[row.cells[place] for place in at] for row in table.rows]


def marked(table: Table, title: str, mark: str) -> list[str]:
    """Returns the first cells of the rows whose cell in a column has a mark."""
    at = [column.title for column in table.columns].index(title)
    return [row.cells[0].text for row in table.rows if row.cells[at].mark == mark]
