"""Tables of published metrics as CSV: one row per run, decoding and group.

    run, seed, decoding, group, count, pairs, accuracy, nll, brier, ece, mean_confidence, aurc,
    expected_score_mae, level_mae, pair_accuracy, permutation_tv, permutation_flip_rate

What the columns mean is said in `published_rows.py`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pact_eval._files import read_text
from pact_eval.errors import InputError, Problem, RecordError
from pact_eval.evaluation.arms.published_rows import LABELS, PublishedRow, problems_of


@dataclass(frozen=True, slots=True)
class _Line:
    """A row of the file, its line, and whether it has one cell per column."""

    number: int
    row: PublishedRow
    has_every_column: bool


def read_csv_rows(path: Path) -> list[PublishedRow]:
    """Read a table of metrics.

    Args:
        path: a CSV file with a header; columns may come in any order, others are left alone.

    Raises:
        InputError: it is missing or cannot be read, or lacks a column.
        RecordError: a row cannot be understood; all such rows with their lines.
    """
    lines = _lines(path)
    problems = [problem for line in lines for problem in _problems(line)]
    first: dict[tuple[str, ...], int] = {}
    for line in lines:
        key = (*line.row.scored, line.row.cells["group"])
        if key in first:
            where = f"the same run, seed, decoding and group as line {first[key]}"
            problems.append(Problem(line.number, None, f"a second row of {where}"))
        first.setdefault(key, line.number)
    if problems:
        problems.sort(key=lambda problem: problem.line or 0)
        raise RecordError(str(path), problems)
    return [line.row for line in lines]


def _lines(path: Path) -> list[_Line]:
    """Read the rows of a file; a missing column, and one that appears twice, is refused."""
    text = read_text(path).removeprefix("\ufeff")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        missing = [name for name in LABELS if name not in header]
        if missing:
            message = (
                f"{path}:1: expected a table with the columns {', '.join(LABELS)} and metrics, "
                f"lacks {', '.join(missing)}"
            )
            raise InputError(message)
        twice = [name for place, name in enumerate(header) if name in header[:place]]
        if twice:
            message = f"{path}:1: column {twice[0]} appears twice in the header"
            raise InputError(message)
        return [_line(path, reader.line_num, header, cells) for cells in reader if cells]
    except csv.Error as error:
        message = f"{path}:{reader.line_num}: not a CSV table ({error})"
        raise InputError(message) from None


def _line(path: Path, number: int, header: Sequence[str], cells: Sequence[str]) -> _Line:
    texts = dict.fromkeys(header, "") | {
        name: text.strip() for name, text in zip(header, cells, strict=False)
    }
    return _Line(number, PublishedRow(f"{path}:{number}", texts), len(cells) == len(header))


def _problems(line: _Line) -> Iterator[Problem]:
    if not line.has_every_column:
        message = f"expected {len(line.row.cells)} cells, one per column of the header"
        yield Problem(line.number, None, message)
        return
    for column, message in problems_of(line.row):
        yield Problem(line.number, None, f"column {column}: {message}")
