"""Rows of published metrics: one per run, decoding and group, whatever file they come from.

Decodings there are `single`, `single_calibrated` and `ensemble`. An ensemble row is
`ensemble_calibrated` here where its run has `single_calibrated` rows, else `ensemble`. What rests
on the argmax (accuracy, pair accuracy, level MAE, flips) is changed by no temperature and is
under both. A group `noul` is `boolean`. Empty cells are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from pact_eval.evaluation.arms.cells import MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.metric_specs import (
    ENSEMBLE,
    ENSEMBLE_CALIBRATED,
    SINGLE,
    SINGLE_CALIBRATED,
    MetricDecoding,
)
from pact_eval.evaluation.registry import MEAN_CONFIDENCE, find_metric, metric_spec

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
    yield from _wrong_numbers(row)


def _wrong_labels(row: PublishedRow) -> Iterator[tuple[str, str]]:
    decoding, seed = row.cells["decoding"], row.cells["seed"]
    for name in ("run", "group"):
        if not row.cells[name]:
            yield name, "expected a name, got nothing"
    if decoding not in DECODINGS:
        yield "decoding", f'expected one of {", ".join(DECODINGS)}, got "{decoding}"'
    if seed and not seed.removeprefix("-").isdecimal():
        yield "seed", f'expected an integer or nothing, got "{seed}"'


def _wrong_numbers(row: PublishedRow) -> Iterator[tuple[str, str]]:
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
    if find_metric(metric).of_top_answer:
        return (ENSEMBLE, ENSEMBLE_CALIBRATED)
    return (ENSEMBLE_CALIBRATED,)
