"""The records of the published experiment, made or real, and the numbers that the paper prints.

The published files have no licence, so they stay outside the project: in the folder $PACT_SHARED,
or else `shared` beside the repository. Tests of what they say take the fixture `experiment_files`.
It gives them made files with known numbers, and also the published ones where they are.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from needs import needs

from pact_fixtures.paper import NUMBERS

_REPOSITORY = Path(__file__).resolve().parents[1]
SHARED: Final = Path(os.environ.get("PACT_SHARED") or _REPOSITORY.parent / "shared")

needs_published = needs(
    f"the published records (in {SHARED}, or set PACT_SHARED)",
    present=(SHARED / "published").is_dir() and (SHARED / "contract").is_dir(),
)
SOURCES: Final = ("made", pytest.param("published", marks=needs_published))
"""Parameters of a fixture that gives made files and the published ones."""


def shared_path(name: str) -> Path:
    """Return the path of a file in the shared folder, which must have it."""
    path = SHARED / name
    if not path.exists():
        raise FileNotFoundError(f"{path}: the folder of published records lacks this file")
    return path


@cache
def printed_cells(table: str) -> list[dict[str, str]]:
    """Return the rows of a table of the paper, with their cells by column, as printed."""
    return table_rows(tomllib.loads(NUMBERS.read_text(encoding="utf-8"))[table])


def table_rows(content: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the rows of a table of a TOML file, with their cells by column."""
    columns, *rows = (
        [cell.strip() for cell in line.split("|")]
        for line in (content["columns"], *content["rows"].strip().splitlines())
    )
    return [dict(zip(columns, row, strict=True)) for row in rows]


def printed(table: str, *columns: str) -> list[list[str]]:
    """Return a table of the paper, or some of its columns, sorted by its rows."""
    rows = printed_cells(table)
    return sorted([row[name] for name in columns or row] for row in rows)
