"""Cells of numbers: rounded in text, exact in CSV, and marked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, Protocol

from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.arms.arm_differences import ArmSummary
from pact_eval.evaluation.calibration_error import ChanceError
from pact_eval.evaluation.conclusions.data import DataLeak
from pact_eval.evaluation.registry import (
    MINUS,
    MetricDecoding,
    MetricSpec,
    find_metric,
    metric_spec,
)
from pact_eval.numbers import UNDEFINED, Unit, ends_text, estimate_parts, has_width, value_text
from pact_eval.plain_text import upper_first
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_reports.table import Cell, Column, ColumnOf, Line, Mark


class OfRun(Protocol):
    """What is known of a run in a table: its arm and its seed."""

    @property
    def arm(self) -> str:
        """Its arm."""

    @property
    def seed(self) -> int | None:
        """Its seed, if it has one."""


def run_columns(names: ArmNames) -> tuple[ColumnOf[OfRun], ColumnOf[OfRun]]:
    """Return the columns that name a run: the display name of its arm, and its seed."""
    return (
        (Column("Arm", "left"), lambda run: arm_cell(run.arm, names)),
        ("Seed", lambda run: seed_text(run.seed)),
    )


def seed_text(seed: int | None) -> str:
    """Return the seed of a run, which it may not have."""
    return UNDEFINED if seed is None else str(seed)


CALIBRATION_ERROR: Final = (
    "For ECE, brackets hold the true calibration error. The ECE of a sample is biased upwards and "
    "can lie above them: a calibrated model also shows its noise floor."
)
"""Shown wherever ECE has an interval."""

NOISE: Final = (
    "ECE, noise: the mean ECE of a calibrated model with these confidences; p: of calibration. Of "
    "an arm, the mean over its runs, and the lowest to the highest p."
)
"""Shown wherever ECE has its noise floor next to it."""

_UNITS: Final[dict[Unit, str]] = {
    "percent": "fraction",
    "points": "fraction",
    "nats": "nats",
    "levels": "levels",
    "score": "score",
}

_FEW_PAIRS: Final = 100


def _ends_in_print(estimate: Estimate, spec: MetricSpec) -> str:
    """Write an interval as papers print it."""
    more = 1 if spec.name == "aurc" else 0
    return ends_text(estimate.low, estimate.high, spec.unit, decimals=more).replace("-", MINUS)


def arm_cell(arm: str, names: ArmNames) -> Cell:
    """Return the display name of an arm; CSV has its key.

    Example:
        >>> from pact_eval.evaluation.arm_names import ArmNames
        >>> cell = arm_cell("pact", ArmNames({"pact": "PACT (ours)"}))
        >>> cell.text, cell.data
        ('PACT (ours)', 'pact')
    """
    return Cell(names.arm(arm), data=arm)


def count_column(title: str) -> Column:
    """Return a column of counts."""
    return Column(title, numbers=(title.lower(),))


def count_cell(count: float | None, reason: str | None = None) -> Cell:
    """Return a count with thousands separators; None is undefined, for the reason.

    Example:
        >>> count_cell(2334).text, count_cell(None, "no counts").text
        ('2,334', '–')
    """
    if count is None:
        return Cell(UNDEFINED, reason=reason)
    return Cell(f"{count:,}", (count,))


def metric_column(spec: MetricSpec, decoding: MetricDecoding, title: str | None = None) -> Column:
    """Return a column of one metric of one run.

    Example:
        >>> from pact_eval.evaluation.registry import metric_spec
        >>> metric_column(metric_spec("ece"), MetricDecoding("single")).numbers
        ('ECE (fraction, single)',)
    """
    title = title or spec.title
    return Column(title, numbers=(f"{title} ({unit_of(spec, decoding)})",), better=spec.better)


def unit_of(spec: MetricSpec, decoding: MetricDecoding) -> str:
    """Return the unit in which numbers are kept and their decoding, for the heads of CSV files."""
    return f"{_UNITS[spec.unit]}, {decoding}"


def value_cell(value: float, spec: MetricSpec, reason: str | None = None) -> Cell:
    """Return one number of one run; with a reason if it is undefined or infinite."""
    why = None if math.isfinite(value) else reason
    return Cell(spec.shown(value), (value,), reason=why)


def chance_column(column: Column, unit: str) -> Column:
    """Return a column of ECE with the numbers that `chance_cell` adds."""
    return replace(column, numbers=(*column.numbers, *_chance_numbers(column.title, unit)))


def _chance_numbers(title: str, unit: str) -> tuple[str, ...]:
    return (
        f"{title} noise floor ({unit})",
        f"{title} lowest p if calibrated",
        f"{title} highest p if calibrated",
    )


def chance_cell(cell: Cell, chance: ChanceError | None) -> Cell:
    """Add the ECE expected by chance to a mean ECE.

    Example:
        >>> cell = chance_cell(Cell("7.2", (0.072,)), ChanceError(0.062, 0.291, 0.291))
        >>> cell.below, cell.numbers
        ('noise 6.2, p=0.291', (0.072, 0.062, 0.291, 0.291))
    """
    if chance is None:
        return replace(cell, numbers=(*cell.numbers, None, None, None))
    numbers = (chance.floor, chance.lowest_p, chance.highest_p)
    return replace(cell, numbers=(*cell.numbers, *numbers), below=chance_text(chance))


def chance_text(chance: ChanceError) -> str:
    """Write the noise floor of ECE, and the p-value of calibration or their range over seeds.

    Example:
        >>> chance_text(ChanceError(0.055, 0.0004, 0.3))
        'noise 5.5, p<0.001–0.300'
    """
    p_values = dict.fromkeys(map(_p_value, (chance.lowest_p, chance.highest_p)))
    p_range = "–".join(p_values)
    # Without blanks, so that a narrow terminal does not wrap it.
    p_text = f"p{p_range}" if p_range.startswith("<") else f"p={p_range}"
    return f"{_noise_text(chance)}, {p_text}"


def _noise_text(chance: ChanceError) -> str:
    return f"noise {value_text(chance.floor, 'percent')}"


def marked_best(
    cells: Sequence[Cell], printed: Sequence[str], better: Literal[-1, 0, 1]
) -> list[Cell]:
    """Mark the best of a column by value, and every cell that prints the same.

    For tables of published numbers, whose differences cannot be tested.

    Args:
        cells: those of the column; the first number of each counts, NaN and absent ones do not.
        printed: those numbers as the cells print them.
        better: 1 higher, -1 lower, 0 marks nothing.

    Returns:
        The cells; none is marked if fewer than two have a number.

    Example:
        >>> cells = [Cell("9.5", (0.0949,)), Cell("9.5", (0.0951,)), Cell("–", (float("nan"),))]
        >>> [cell.mark for cell in marked_best(cells, ["9.5", "9.5", "–"], -1)]
        ['best', 'best', None]
    """
    values = {
        at: _first(cell)
        for at, cell in enumerate(cells)
        if cell.numbers and not math.isnan(_first(cell))
    }
    if better == 0 or len(values) < 2:
        return list(cells)
    best = max(values, key=lambda at: better * values[at])
    if math.isinf(values[best]):
        return list(cells)
    return [
        replace(cell, mark="best") if at in values and printed[at] == printed[best] else cell
        for at, cell in enumerate(cells)
    ]


def estimate_cell(
    estimate: Estimate, unit: Unit, *, below: str = "", reasons: bool = True, test: bool = True
) -> Cell:
    """Return an estimate with its interval.

    Args:
        estimate: what to write.
        unit: of it.
        below: the second line, such as what it rests on; for ECE, its noise floor precedes it.
        reasons: whether its reason becomes a footnote.
        test: whether the p-value of calibration is next to the noise floor.

    Example:
        >>> cell = estimate_cell(Estimate(0.821, 0.778, 0.861, 324, 162), "percent")
        >>> cell.text, cell.interval
        ('82.1', '[77.8, 86.1]')
    """
    value, interval = estimate_parts(estimate, unit)
    chance = ChanceError.of([estimate])
    if chance is not None:
        noise = chance_text(chance) if test else _noise_text(chance)
        below = f"{noise}, {below}" if below else noise
    return Cell(
        text=value,
        interval=interval,
        below=below,
        reason=estimate.reason if reasons else None,
    )


def interval_column(title: str, unit: str) -> Column:
    """Return a column of intervals: low, high, items and clusters behind them."""
    names = (f"{title} low ({unit})", f"{title} high ({unit})", f"{title} n", f"{title} clusters")
    return Column(title, numbers=names)


def interval_cell(estimate: Estimate, spec: MetricSpec) -> Cell:
    """Return the interval of a difference, both ends signed.

    Example:
        >>> from pact_eval.evaluation.registry import metric_spec
        >>> estimate = Estimate(0.065, 0.019, 0.111, 324, 162)
        >>> interval_cell(estimate, metric_spec("ensemble_gain")).text
        '[+1.9, +11.1]'
    """
    numbers = (estimate.low, estimate.high, estimate.n, estimate.clusters)
    if math.isnan(estimate.low):
        return Cell(UNDEFINED, numbers, reason=estimate.reason)
    text = _ends_in_print(estimate, spec)
    return Cell(text, numbers, reason=estimate.reason)


def with_interval(cell: Cell, estimate: Estimate, spec: MetricSpec, *, few: str = "") -> Cell:
    """Show the interval of a value next to it, or the reason for its absence.

    Args:
        cell: the value.
        estimate: of the same value.
        spec: its metric.
        few: what the estimate rests on, in words, if that is little.

    Returns:
        The cell; a zero-width interval is left out, since it does not mean certainty.

    Example:
        >>> from pact_eval.evaluation.registry import metric_spec
        >>> accuracy = metric_spec("accuracy")
        >>> estimate = Estimate(0.821, 0.778, 0.861, 324, 162)
        >>> with_interval(Cell("82.1"), estimate, accuracy).interval
        '[77.8, 86.1]'
        >>> sure = Estimate(1.0, 1.0, 1.0, 6, 3, None, "all resamples agree")
        >>> cell = with_interval(Cell("100.0"), sure, accuracy, few="of 3 pairs")
        >>> cell.interval, cell.reason
        ('of 3 pairs', 'all resamples agree')
    """
    if math.isnan(estimate.value):
        return replace(cell, reason=cell.reason or estimate.reason)
    ends = _ends_in_print(estimate, spec) if has_width(estimate) else ""
    text = " ".join(part for part in (ends, few) if part)
    chance = ChanceError.of([estimate])
    below = cell.below if chance is None else chance_text(chance)
    return replace(cell, reason=cell.reason or estimate.reason, interval=text, below=below)


def few_pairs(estimate: Estimate) -> str:
    """Write the number of pairs behind a pair accuracy if it is small.

    Example:
        >>> few_pairs(Estimate(0.5, 0.1, 0.9, 12, 12))
        'of 12 pairs'
    """
    return f"of {estimate.n:,} pairs" if 0 < estimate.n < _FEW_PAIRS else ""


def p_value_cell(p_value: float, reason: str | None = None) -> Cell:
    """Return a p-value with three decimals, never as 0; below 0.05 it is marked.

    Example:
        >>> p_value_cell(0.0349).text, p_value_cell(0.0349).mark, p_value_cell(1e-9).text
        ('0.035', 'significant', '<0.001')
    """
    if math.isnan(p_value):
        return Cell(UNDEFINED, (p_value,), reason=reason)
    mark: Mark | None = "significant" if p_value < LEVEL else None
    return Cell(_p_value(p_value), (p_value,), mark, reason)


def _p_value(p_value: float) -> str:
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _first(cell: Cell) -> float:
    number = cell.numbers[0]
    return math.nan if number is None else number


def decoding_words(decoding: MetricDecoding) -> str:
    """Return the name of a decoding in captions.

    Example:
        >>> decoding_words(MetricDecoding("ensemble", calibrated=True))
        'K views together, calibrated'
    """
    views = "single pass (view 0)" if decoding.views == "single" else "K views together"
    return f"{views}, {'calibrated' if decoding.calibrated else 'raw'}"


def leak_lines(leak: DataLeak | None) -> tuple[Line, ...]:
    """Return the first line of an output on runs whose data leaks, or leaked."""
    if leak is None:
        return ()
    text = str(leak)
    if leak.left_out:
        return (Line(upper_first(f"{text}."), "caution"),)
    return (Line(f"Leak: {text}.", "bad"),)


STANDING_LEGEND: Final[tuple[tuple[Mark, str], ...]] = (
    ("best", "best arm: its difference from every other arm is shown at the 5% level"),
    ("tied", "best mean, or not shown to be worse than it"),
)
"""What the marks of arms mean, wherever their differences are tested."""


def mean_column(spec: MetricSpec, decoding: MetricDecoding, title: str | None = None) -> Column:
    """Return a column of means and deviations over seeds."""
    title = title or spec.title
    unit = unit_of(spec, decoding)
    names = (f"{title} mean ({unit})", f"{title} deviation ({unit})", f"{title} runs")
    return Column(title, numbers=names, better=spec.better)


def noise_column(title: str, decoding: MetricDecoding) -> Column:
    """Return the column that follows a column of ECE: its noise floor, and p of calibration."""
    numbers = _chance_numbers(title, unit_of(metric_spec("ece"), decoding))
    return Column(f"{title} noise", numbers=numbers)


def noise_cell(chance: ChanceError | None) -> Cell:
    """Return the ECE of calibrated runs by chance, and below it p of calibration.

    Example:
        >>> noise_cell(ChanceError(0.062, 0.291, 0.291)).text
        '6.2 (p=0.291)'
    """
    if chance is None:
        return Cell("", (None, None, None))
    numbers = (chance.floor, chance.lowest_p, chance.highest_p)
    floor, p_values = chance_text(chance).removeprefix("noise ").split(", ")
    return Cell(f"{floor} ({p_values})", numbers)


def mean_cell(summary: ArmSummary, spec: MetricSpec) -> Cell:
    """Return mean ± sample deviation over seeds; one run has no deviation.

    Example:
        >>> from pact_eval.evaluation.registry import metric_spec
        >>> from pact_eval.stats.estimate import Estimate
        >>> runs = {seed: Estimate(value, math.nan, math.nan, 324, 162)
        ...         for seed, value in {17: 0.840, 18: 0.821, 19: 0.877}.items()}
        >>> mean_cell(ArmSummary.of("pact", runs), metric_spec("accuracy")).text
        '84.6 ± 2.8'
        >>> mean_cell(ArmSummary.of("pact", {17: runs[17]}), metric_spec("accuracy")).text
        '84.0'
    """
    text = spec.shown(summary.mean)
    if math.isfinite(summary.deviation):
        text += f" ± {spec.shown(summary.deviation).lstrip('+')}"
    why = None if math.isfinite(summary.mean) else summary.reason
    return Cell(text, (summary.mean, summary.deviation, len(summary.runs)), reason=why)


def items_and_pairs(sizes: Mapping[str, tuple[int, int]]) -> str:
    """Say what the numbers rest on.

    Args:
        sizes: by metric, the lowest and the highest number, of `metric_sizes`.

    Example:
        >>> items_and_pairs({"accuracy": (324, 324), "pair_accuracy": (160, 162)})
        '324 items, 160 to 162 pairs'
    """
    counts = []
    words = {"accuracy": "items", "pair_accuracy": "pairs", "score_mae": "Score items"}
    for metric, word in words.items():
        low, high = sizes.get(metric, (0, 0))
        if high:
            counts.append(f"{low:,} {word}" if low == high else f"{low:,} to {high:,} {word}")
    return ", ".join(counts) or "unknown numbers of items"


def counted(n: int, metric: str) -> str:
    """Write the sample size of a metric: items, pairs, Score items or errors.

    Example:
        >>> counted(324, "accuracy"), counted(162, "pair_accuracy"), counted(64, "score_mae")
        ('324 items', '162 pairs', '64 Score items')
    """
    entry = find_metric(metric)
    return f"{n:,} {'Score item' if 'score items' in entry.needs else entry.counts}s"
