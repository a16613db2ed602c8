"""Calibration: every run before and after T(x), with a mark if it got worse."""

from __future__ import annotations

from typing import Final

from pact_eval.calibration import TemperatureSummary
from pact_eval.evaluation import Calibration, metric_spec
from pact_eval.preregistration import (
    CALIBRATED_METRICS,
    CalibratedRun,
    calibrated_runs,
    decoding_name,
    metric_sizes,
)
from pact_eval.runs import Decoding
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import metric_column, text_cell, value_cell
from pact_reports.tables.metric_values import DECODING_WORDS, items_and_pairs
from pact_reports.tables.request import TableRequest

_WHEN: Final[tuple[tuple[Calibration, str], ...]] = (("raw", "before"), ("calibrated", "after"))


def build_calibration(request: TableRequest) -> Table:
    """Make the table of calibration of runs.

    Raises:
        InputError: the runs do not compare, or none has a calibrator.
    """
    known = {
        (run.arm, run.seed): run.temperature
        for run in request.comparable
        if run.temperature is not None
    }
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
    for metric in CALIBRATED_METRICS:
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
