"""Tables of published metrics as CSV: one row per run, decoding and group.

    run, seed, decoding, group, count, pairs, accuracy, nll, brier, ece, mean_confidence, aurc,
    expected_score_mae, level_mae, pair_accuracy, permutation_tv, permutation_flip_rate

They are for experiments whose predictions nobody has any more, such as published ones. Their
numbers have no intervals.

Decodings there are `single`, `single_calibrated` and `ensemble`. An ensemble row is
`ensemble_calibrated` here where its run has `single_calibrated` rows, else `ensemble`. What rests
on the argmax (accuracy, pair accuracy, level MAE, flips) is changed by no temperature and is
under both. A group `noul` is `boolean`. Empty cells are left out.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final

from pact_eval._files import read_text
from pact_eval.errors import InputError, Problem, RecordError
from pact_eval.evaluation.arms.cells import MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.arms.source import ArmMetrics
from pact_eval.evaluation.decoding import (
    ENSEMBLE,
    ENSEMBLE_CALIBRATED,
    SINGLE,
    SINGLE_CALIBRATED,
    MetricDecoding,
)
from pact_eval.evaluation.registry import MEAN_CONFIDENCE, find_metric, metric_spec

_COLUMNS: Final = {
    "accuracy": "accuracy",
    "pair_accuracy": "pair_accuracy",
    "nll": "nll_nats",
    "brier": "brier",
    "ece": "ece",
    "aurc": "aurc",
    "mean_confidence": MEAN_CONFIDENCE,
    "expected_score_mae": "score_mae",
    "level_mae": "score_level_mae",
    "permutation_tv": "view_tv",
    "permutation_flip_rate": "flip_rate",
}
_COUNTS: Final = ("count", "correct", "pairs")
_NEEDED: Final = ("run", "seed", "decoding", "group")
# Shares that were computed in another order.
_ROUNDING: Final = 1e-12
_DECODINGS: Final = tuple(map(str, (SINGLE, SINGLE_CALIBRATED, ENSEMBLE)))


@dataclass(frozen=True, slots=True)
class _Line:
    """One row of the file: its line, its cells by column, and how many of those it has."""

    number: int
    cells: Mapping[str, str]
    has_every_column: bool

    @property
    def run(self) -> tuple[str, str]:
        return self.cells["run"], self.cells["seed"]

    @property
    def at(self) -> tuple[str, str, str]:
        return (*self.run, self.cells["decoding"])

    def count(self, column: str) -> int | None:
        text = self.cells.get(column, "")
        return int(text) if text.isdecimal() else None


def read_published(paths: Sequence[Path]) -> ArmMetrics:
    """Read tables of published metrics as the numbers of arms.

    Args:
        paths: CSV files; see `read_metric_table`.

    Raises:
        InputError: as `read_metric_table`, or a table has no number, or two have different ones for
            one place.
        RecordError: as `read_metric_table`.
    """
    tables = [read_metric_table(path) for path in paths]
    for path, table in zip(paths, tables, strict=True):
        if not len(table):
            message = f"{path}: expected metrics of runs, got no number"
            raise InputError(message)
    return ArmMetrics(MetricTable(row for table in tables for row in table.rows), None, (*paths,))


def read_metric_table(path: Path) -> MetricTable:
    """Read a table of metrics.

    Args:
        path: a CSV file with a header; columns may come in any order, others are left alone.

    Returns:
        Its numbers under our names.

    Raises:
        InputError: it is missing or cannot be read, or lacks a column.
        RecordError: a row cannot be understood; all such rows with their lines.
    """
    lines = _lines(path)
    problems = [problem for line in lines for problem in _problems(line)]
    first: dict[tuple[str, ...], int] = {}
    for line in lines:
        key = (*line.at, line.cells["group"])
        if key in first:
            where = f"the same run, seed, decoding and group as line {first[key]}"
            problems.append(Problem(line.number, None, f"a second row of {where}"))
        first.setdefault(key, line.number)
    if problems:
        problems.sort(key=lambda problem: problem.line or 0)
        raise RecordError(str(path), problems)
    calibrated = {line.run for line in lines if line.cells["decoding"] == str(SINGLE_CALIBRATED)}
    score_items = {line.at: line.count("count") for line in lines if line.cells["group"] == "score"}
    return MetricTable(
        row
        for line in lines
        for row in _rows(line, path, line.run in calibrated, score_items.get(line.at))
    )


def _lines(path: Path) -> list[_Line]:
    """Read the rows of a file; a missing column, and one that appears twice, is refused."""
    text = read_text(path).removeprefix("\ufeff")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        missing = [name for name in _NEEDED if name not in header]
        if missing:
            message = (
                f"{path}:1: expected a table with the columns {', '.join(_NEEDED)} and metrics, "
                f"lacks {', '.join(missing)}"
            )
            raise InputError(message)
        twice = [name for place, name in enumerate(header) if name in header[:place]]
        if twice:
            message = f"{path}:1: column {twice[0]} appears twice in the header"
            raise InputError(message)
        return [_line(reader.line_num, header, row) for row in reader if row]
    except csv.Error as error:
        message = f"{path}:{reader.line_num}: not a CSV table ({error})"
        raise InputError(message) from None


def _line(number: int, header: Sequence[str], row: Sequence[str]) -> _Line:
    cells = dict.fromkeys(header, "") | {
        name: text.strip() for name, text in zip(header, row, strict=False)
    }
    return _Line(number, cells, len(row) == len(header))


def _problems(line: _Line) -> Iterator[Problem]:
    if not line.has_every_column:
        message = f"expected {len(line.cells)} cells, one per column of the header"
        yield Problem(line.number, None, message)
        return
    for message in (*_wrong_labels(line), *_wrong_numbers(line)):
        yield Problem(line.number, None, message)


def _wrong_labels(line: _Line) -> Iterator[str]:
    decoding, seed = line.cells["decoding"], line.cells["seed"]
    if not line.cells["run"] or not line.cells["group"]:
        yield "columns run and group: expected a run and a group, got nothing"
    if decoding not in _DECODINGS:
        yield f'column decoding: expected one of {", ".join(_DECODINGS)}, got "{decoding}"'
    if seed and not seed.removeprefix("-").isdecimal():
        yield f'column seed: expected an integer or nothing, got "{seed}"'


def _wrong_numbers(line: _Line) -> Iterator[str]:
    for column, metric in _COLUMNS.items():
        text = line.cells.get(column, "")
        value = _number(text)
        if text and value is None:
            yield f'column {column}: expected a number, got "{text}"'
        elif value is not None and metric_spec(metric).unit == "percent" and not 0 <= value <= 1:
            yield f"column {column}: expected a fraction in 0 to 1, got {text}"
    for column in _COUNTS:
        text = line.cells.get(column, "")
        if text and line.count(column) is None:
            yield f'column {column}: expected a whole number, got "{text}"'
    contradiction = _contradiction(line)
    if contradiction:
        yield contradiction


def _contradiction(line: _Line) -> str | None:
    """Describe a contradiction of accuracy and counts; None without one, or if one is unknown."""
    text = line.cells.get("accuracy", "")
    accuracy, correct, count = _number(text), line.count("correct"), line.count("count")
    if accuracy is None or correct is None or not count:
        return None
    share = correct / count
    # The accuracy may be rounded to the decimals that it has.
    if correct <= count and abs(accuracy - share) <= _half_a_digit(text) + _ROUNDING:
        return None
    return (
        f"column accuracy: {text} contradicts {correct:,} correct of {count:,} items ({share:.4f})"
    )


def _half_a_digit(text: str) -> float:
    """Return half a unit of the last digit of a number; at most half a percent.

    Examples:
        >>> _half_a_digit("0.842"), _half_a_digit("8.4e-1"), _half_a_digit("1.0")
        (0.0005, 0.005, 0.005)
    """
    exponent = Decimal(text).as_tuple().exponent
    return min(0.005, 0.5 * 10.0**exponent) if isinstance(exponent, int) else 0.0


def _number(text: str) -> float | None:
    """Return the number of a cell; None where it is empty or none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def _rows(
    line: _Line, path: Path, calibrated: bool, score_items: int | None
) -> Iterator[MetricRow]:
    cells, source = line.cells, f"{path}:{line.number}"
    seed = int(cells["seed"]) if cells["seed"] else None
    group = "boolean" if cells["group"] == "noul" else cells["group"]
    for column, metric in _COLUMNS.items():
        value = _number(cells.get(column, ""))
        if value is None:
            continue
        count = line.count("pairs" if metric == "pair_accuracy" else "count")
        n = score_items if "score items" in find_metric(metric).needs else count
        for decoding in _decodings(MetricDecoding.parse(cells["decoding"]), metric, calibrated):
            cell = MetricCell(metric, cells["run"], decoding, group)
            yield MetricRow(cell, seed, value, n, source=source)


def _decodings(
    decoding: MetricDecoding, metric: str, calibrated: bool
) -> tuple[MetricDecoding, ...]:
    if decoding.views == "single" or not calibrated:
        return (decoding,)
    if find_metric(metric).of_top_answer:
        return (ENSEMBLE, ENSEMBLE_CALIBRATED)
    return (ENSEMBLE_CALIBRATED,)
