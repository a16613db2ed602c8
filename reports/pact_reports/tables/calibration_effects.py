"""Calibration: every run before and after T(x), marked where it got worse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pact_eval.calibration import TemperatureSummary
from pact_eval.errors import InputError
from pact_eval.evaluation import Calibration, ExperimentRun, metric_spec
from pact_eval.preregistration import Cell as Place
from pact_eval.preregistration import (
    DecodingName,
    MetricRow,
    MetricTable,
    arms_in_order,
    decoding_name,
    metric_row,
    metric_sizes,
    run_seeds,
)
from pact_eval.runs import Decoding
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import metric_column, text_cell, value_cell
from pact_reports.tables.metric_values import DECODING_WORDS, items_and_pairs
from pact_reports.tables.request import TableRequest

__all__ = [
    "CalibratedRun",
    "build_calibration",
    "calibrated_runs",
    "calibration_table",
    "temperatures",
]

_METRICS: Final = ("nll_nats", "ece", "aurc")
_WHEN: Final[tuple[tuple[Calibration, str], ...]] = (("raw", "before"), ("calibrated", "after"))
# Differences below this are rounding.
_ROUNDING: Final = 1e-9

RunKey = tuple[str, int | None]
"""Arm and seed of a run."""


@dataclass(frozen=True)
class CalibratedRun:
    """One run before and after calibration.

    Attributes:
        arm: of the run.
        seed: of the run, or None.
        before: NLL, ECE and AURC, raw.
        after: the same, calibrated.
        temperature: mean and range of T(x) over its items; None where it is not known.
    """

    arm: str
    seed: int | None
    before: tuple[MetricRow, ...]
    after: tuple[MetricRow, ...]
    temperature: TemperatureSummary | None

    @property
    def worse(self) -> tuple[bool, ...]:
        """Whether each of the metrics got worse, by any amount beyond rounding."""
        return tuple(
            after.value > before.value + _ROUNDING
            for before, after in zip(self.before, self.after, strict=True)
        )


def calibrated_runs(
    table: MetricTable,
    decoding: Decoding = "single",
    temperature: Mapping[RunKey, TemperatureSummary] | None = None,
) -> tuple[CalibratedRun, ...]:
    """Gather the runs that have calibrated numbers.

    Args:
        table: the numbers.
        decoding: single or ensemble.
        temperature: of each run, where it is known.

    Raises:
        InputError: no run has raw and calibrated numbers.
    """
    raw, calibrated = decoding_name(decoding, "raw"), decoding_name(decoding, "calibrated")
    found = []
    for arm in arms_in_order(table):
        for seed in run_seeds(table, arm):
            before, after = (_rows(table, arm, seed, name) for name in (raw, calibrated))
            if all(math.isnan(row.value) for row in after):
                continue
            known = (temperature or {}).get((arm, seed))
            found.append(CalibratedRun(arm, seed, before, after, known))
    if not found:
        message = "no run has a calibrator in its folder"
        raise InputError(message)
    return tuple(found)


def temperatures(runs: tuple[ExperimentRun, ...]) -> dict[RunKey, TemperatureSummary]:
    """Return mean and range of T(x) over the items of every run with a calibrator."""
    found = {}
    for run in runs:
        if run.calibrator is not None:
            views = run.predictions
            at = run.calibrator.temperatures(views.kind, views.n_choices, views.prompt_tokens)
            found[run.arm, run.seed] = TemperatureSummary.of(at)
    return found


def build_calibration(request: TableRequest) -> Table:
    """Make the table of calibration of runs.

    Raises:
        InputError: the runs do not compare, or none has a calibrator.
    """
    known = temperatures(request.comparable)
    runs = calibrated_runs(request.metrics, request.decoding, known)
    return calibration_table(runs, request.decoding, items_and_pairs(metric_sizes(request.metrics)))


def calibration_table(runs: tuple[CalibratedRun, ...], decoding: Decoding, scope: str) -> Table:
    """Lay out runs before and after calibration.

    Args:
        runs: what to show.
        decoding: of all numbers.
        scope: items and pairs behind each run, in words.
    """
    with_t = any(run.temperature is not None for run in runs)
    numbers = ("T mean", "T lowest", "T highest")
    columns = [Column("Arm", "left"), Column("Seed")]
    columns += [Column("T(x)", numbers=numbers)] if with_t else []
    for metric in _METRICS:
        spec = metric_spec(metric)
        columns += [
            metric_column(spec, decoding_name(decoding, how), f"{spec.title} {when}")
            for how, when in _WHEN
        ]
    rows, before = [], None
    for run in runs:
        rows.append(Row(tuple(_cells(run, with_t=with_t)), rule=run.arm != before))
        before = run.arm
    shown = "T(x): mean [lowest, highest] over the items. " if with_t else ""
    return Table(
        name="calibration",
        title="Before and after calibration",
        caption=(
            f"Decoding: {DECODING_WORDS[decoding_name(decoding, 'raw')]}, and divided by T(x). "
            f"{shown}Each run: {scope}. ECE and AURC in %, NLL in nats. No temperature changes an "
            "accuracy."
        ),
        columns=tuple(columns),
        rows=tuple(rows),
        legend=(("worse", "T(x) made it worse, by any amount"),),
    )


def _rows(
    table: MetricTable, arm: str, seed: int | None, decoding: DecodingName
) -> tuple[MetricRow, ...]:
    return tuple(
        metric_row(table, Place(metric, arm, decoding, "all"), seed) for metric in _METRICS
    )


def _cells(run: CalibratedRun, *, with_t: bool) -> list[Cell]:
    cells = [text_cell(run.arm), text_cell("–" if run.seed is None else str(run.seed))]
    if with_t:
        cells.append(_temperature(run.temperature))
    for before, after, worse in zip(run.before, run.after, run.worse, strict=True):
        spec = metric_spec(before.cell.metric)
        calibrated = value_cell(after.value, spec, after.reason)
        cells.append(value_cell(before.value, spec, before.reason))
        cells.append(
            Cell(calibrated.text, calibrated.numbers, "worse" if worse else None, calibrated.reason)
        )
    return cells


def _temperature(known: TemperatureSummary | None) -> Cell:
    if known is None:
        return Cell("–", reason="temperatures are not known")
    text = f"{known.mean:.2f} [{known.low:.2f}, {known.high:.2f}]"
    return Cell(text, (known.mean, known.low, known.high))
