"""Published metrics, for experiments whose predictions nobody has any more.

They are tables as CSV or released result folders, which also say how their runs were trained
(`released_training.py`) and compared (`released_folder.py`). Their numbers have no intervals.

A row is of one run, decoding and group, whatever file it comes from. Decodings there are `single`,
`single_calibrated` and `ensemble`. An ensemble row is `ensemble_calibrated` here where its run has
`single_calibrated` rows, else `ensemble`. What rests on the argmax (accuracy, pair accuracy, level
MAE, flips) is changed by no temperature and is under both. A group `noul` is `boolean`. Empty cells
are left out.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeAlias

from pact_eval._files import read_json, read_text
from pact_eval.errors import InputError, Problem, RecordError
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics, MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.arms.published_paths import result_files
from pact_eval.evaluation.arms.released_folder import read_released_folder
from pact_eval.evaluation.arms.released_training import read_released_training
from pact_eval.evaluation.registry import (
    ENSEMBLE,
    ENSEMBLE_CALIBRATED,
    MEAN_CONFIDENCE,
    SINGLE,
    SINGLE_CALIBRATED,
    MetricDecoding,
    find_metric,
    metric_spec,
)
from pact_eval.schema import Section, convert

COLUMNS: Final = {
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
COUNTS: Final = ("count", "correct", "pairs")
LABELS: Final = ("run", "seed", "decoding", "group")
# Shares that were computed in another order.
_ROUNDING: Final = 1e-12
DECODINGS: Final = tuple(map(str, (SINGLE, SINGLE_CALIBRATED, ENSEMBLE)))


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """The metrics of one run under one decoding, in one group of items.

    Attributes:
        source: the place in a file, for messages.
        cells: by column, the text of a cell; numbers as they are written, "" if there is none.
    """

    source: str
    cells: Mapping[str, str]

    @property
    def run(self) -> tuple[str, str]:
        """Arm and seed."""
        return self.cells["run"], self.cells["seed"]

    @property
    def scored(self) -> tuple[str, str, str]:
        """Arm, seed and decoding."""
        return (*self.run, self.cells["decoding"])

    def count(self, column: str) -> int | None:
        """Return the whole number of a cell; None if it has none."""
        text = self.cells.get(column, "")
        return int(text) if text.isdecimal() else None


def metric_table(rows: Sequence[PublishedRow]) -> MetricTable:
    """Return the numbers of rows without problems, under our names."""
    calibrated = {row.run for row in rows if row.cells["decoding"] == str(SINGLE_CALIBRATED)}
    score_items = {row.scored: row.count("count") for row in rows if row.cells["group"] == "score"}
    return MetricTable(
        number
        for row in rows
        for number in _numbers(row, row.run in calibrated, score_items.get(row.scored))
    )


def problems_of(row: PublishedRow) -> Iterator[tuple[str, str]]:
    """Yield the name and the problem of every cell that is wrong."""
    yield from _wrong_labels(row)
    for column, metric in COLUMNS.items():
        text = row.cells.get(column, "")
        value = _number(text)
        if text and value is None:
            yield column, f'expected a number, got "{text}"'
        elif value is not None and metric_spec(metric).unit == "percent" and not 0 <= value <= 1:
            yield column, f"expected a fraction in 0 to 1, got {text}"
    for column in COUNTS:
        text = row.cells.get(column, "")
        if text and row.count(column) is None:
            yield column, f'expected a whole number, got "{text}"'
    contradiction = _contradiction(row)
    if contradiction:
        yield "accuracy", contradiction


def _wrong_labels(row: PublishedRow) -> Iterator[tuple[str, str]]:
    decoding, seed = row.cells["decoding"], row.cells["seed"]
    for name in ("run", "group"):
        if not row.cells[name]:
            yield name, "expected a name, got nothing"
    if decoding not in DECODINGS:
        yield "decoding", f'expected one of {", ".join(DECODINGS)}, got "{decoding}"'
    if seed and not seed.removeprefix("-").isdecimal():
        yield "seed", f'expected an integer or nothing, got "{seed}"'


def _contradiction(row: PublishedRow) -> str | None:
    """Describe a contradiction of accuracy and counts; None without one, or if one is unknown."""
    text = row.cells.get("accuracy", "")
    accuracy, correct, count = _number(text), row.count("correct"), row.count("count")
    if accuracy is None or correct is None or not count:
        return None
    share = correct / count
    # The accuracy may be rounded to the decimals that it has.
    if correct <= count and abs(accuracy - share) <= _half_a_digit(text) + _ROUNDING:
        return None
    return f"{text} contradicts {correct:,} correct of {count:,} items ({share:.4f})"


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


def _numbers(row: PublishedRow, calibrated: bool, score_items: int | None) -> Iterator[MetricRow]:
    cells = row.cells
    seed = int(cells["seed"]) if cells["seed"] else None
    group = "boolean" if cells["group"] == "noul" else cells["group"]
    for column, metric in COLUMNS.items():
        value = _number(cells.get(column, ""))
        if value is None:
            continue
        count = row.count("pairs" if metric == "pair_accuracy" else "count")
        n = score_items if "score items" in find_metric(metric).needs else count
        for decoding in _decodings(MetricDecoding.parse(cells["decoding"]), metric, calibrated):
            cell = MetricCell(metric, cells["run"], decoding, group)
            yield MetricRow(cell, seed, value, n, source=row.source)


def _decodings(
    decoding: MetricDecoding, metric: str, calibrated: bool
) -> tuple[MetricDecoding, ...]:
    if decoding.views == "single" or not calibrated:
        return (decoding,)
    if find_metric(metric).argmax_only:
        return (ENSEMBLE, ENSEMBLE_CALIBRATED)
    return (ENSEMBLE_CALIBRATED,)


def read_csv_rows(path: Path) -> list[PublishedRow]:
    """Read a table of metrics.

    Args:
        path: a CSV file with a header; columns may come in any order, others are left alone.

    Raises:
        InputError: it is missing or cannot be read, or lacks a column.
        RecordError: a row cannot be understood; all such rows with their lines.
    """
    text = read_text(path).removeprefix("\ufeff")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[PublishedRow] = []
    problems: list[Problem] = []
    first: dict[tuple[str, ...], int] = {}
    try:
        header = _header(path, next(reader, []))
        for cells in filter(None, reader):
            line, texts = reader.line_num, dict.fromkeys(header, "")
            texts |= {name: cell.strip() for name, cell in zip(header, cells, strict=False)}
            row = PublishedRow(f"{path}:{line}", texts)
            wrong = [f"column {column}: {message}" for column, message in problems_of(row)]
            if len(cells) != len(header):
                wrong = [f"expected {len(header)} cells, one per column of the header"]
            key = (*row.scored, texts["group"])
            if key in first:
                where = f"the same run, seed, decoding and group as line {first[key]}"
                wrong.append(f"a second row of {where}")
            first.setdefault(key, line)
            problems += (Problem(line, None, message) for message in wrong)
            rows.append(row)
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: not a CSV table ({error})") from None
    if problems:
        raise RecordError(str(path), problems)
    return rows


def _header(path: Path, cells: Sequence[str]) -> list[str]:
    """Return the names of the columns; refuse a missing one, and one that appears twice."""
    header = [name.strip() for name in cells]
    missing = [name for name in LABELS if name not in header]
    if missing:
        raise InputError(
            f"{path}:1: expected a table with the columns {', '.join(LABELS)} and metrics, "
            f"lacks {', '.join(missing)}; predictions are read by `pact-eval report {path}`"
        )
    twice = [name for place, name in enumerate(header) if name in header[:place]]
    if twice:
        raise InputError(f"{path}:1: column {twice[0]} appears twice in the header")
    return header


class _Scored(Section, frozen=True):
    """Metrics under one decoding: by group, and below `by_domain` by domain."""

    summary: dict[str, dict[str, Any]]


_Domains: TypeAlias = dict[str, dict[str, dict[str, Any]]]


class _ResultFile(Section, frozen=True):
    """Metrics of a run on the holdout, by decoding."""

    run: str
    holdout: dict[str, _Scored]
    seed: int | None = None


def read_result_rows(path: Path) -> list[PublishedRow]:
    """Read the results of a file, or of all files below a folder.

    Raises:
        InputError: a file cannot be read.
        RecordError: a key is missing or has a wrong value; all wrong values of one file.
    """
    return [row for file in result_files(path) for row in _read_file(file)]


def _read_file(path: Path) -> list[PublishedRow]:
    try:
        value = read_json(path)
    except InputError as error:
        raise InputError(f"{error}; copy this file again, or give the others alone") from None
    try:
        rows = list(_rows_of_results(path, convert(value, _ResultFile)))
    except ValueError as error:
        raise RecordError(str(path), [Problem(None, None, str(error))]) from None
    problems = [
        Problem(None, None, f"{row.source.removeprefix(f'{path}: ')}.{name}: {text}")
        for row in rows
        for name, text in problems_of(row)
    ]
    if problems:
        raise RecordError(str(path), problems)
    if not rows:
        raise InputError(f"{path}: expected numbers in holdout, got none")
    return rows


def _rows_of_results(path: Path, result: _ResultFile) -> Iterator[PublishedRow]:
    labels = {"run": result.run, "seed": "" if result.seed is None else str(result.seed)}
    for decoding, scored in result.holdout.items():
        if decoding not in DECODINGS:
            raise ValueError(f"holdout: {decoding}: expected one of {', '.join(DECODINGS)}")
        key, groups = f"holdout.{decoding}.summary", dict(scored.summary)
        domains = convert({f"{key}.by_domain": groups.pop("by_domain", {})}, _Domains)
        for place, of_place in {key: groups, **domains}.items():
            for group, numbers in of_place.items():
                # The text of what is no number is none either.
                known = {name: numbers.get(name) for name in (*COLUMNS, *COUNTS)}
                cells = {name: repr(value) for name, value in known.items() if value is not None}
                texts = {**labels, "decoding": decoding, "group": group, **cells}
                yield PublishedRow(f"{path}: {place}.{group}", texts)


def read_published(paths: Sequence[Path]) -> ArmMetrics:
    """Read published metrics as the numbers of arms.

    Args:
        paths: CSV tables and result folders.

    Raises:
        InputError: a file is missing or cannot be read, lacks a column or key, or has no number; or
            two have different numbers for one place.
        RecordError: a row or a value cannot be understood; all of them with their places.
    """
    tables = [read_metric_table(path) for path in paths]
    table = MetricTable(row for table in tables for row in table.rows)
    trainings = {
        (training.arm, training.seed): training
        for path in paths
        for training in read_released_training(path)
    }
    folders = tuple(read_released_folder(path) for path in paths if path.is_dir())
    return ArmMetrics(table, None, (*paths,), tuple(trainings.values()), folders)


def read_metric_table(path: Path) -> MetricTable:
    """Read the published metrics of one path, under our names; raises as `read_published`."""
    rows = read_result_rows(path) if result_files(path) else read_csv_rows(path)
    table = metric_table(rows)
    if not len(table):
        raise InputError(f"{path}: expected metrics of runs, got no number")
    return table
