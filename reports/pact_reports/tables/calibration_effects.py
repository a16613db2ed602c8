"""Calibration of every run before and after T(x), with a mark on scores that got worse."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pact_eval._choices import Decoding
from pact_eval.calibration.temperatures import TemperatureSummary
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.arms.released_training import ReleasedCalibration
from pact_eval.evaluation.arms.single_runs import (
    CALIBRATED_METRICS,
    CalibratedRun,
    calibrated_runs,
)
from pact_eval.evaluation.calibration_error import ChanceError
from pact_eval.evaluation.metric_specs import MetricDecoding
from pact_eval.evaluation.registry import find_metric, metric_spec
from pact_eval.evaluation.report import Calibration
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import (
    NOISE,
    arm_cell,
    chance_cell,
    chance_column,
    decoding_words,
    items_and_pairs,
    metric_column,
    text_cell,
    unit_of,
    value_cell,
)
from pact_reports.tables.request import TableRequest

_FIT_COLUMNS: Final = (
    Column("log C", numbers=("slope on log C",)),
    Column("log L", numbers=("slope on log(L / 1000)",)),
    *(Column(f"Fit ECE {when}", numbers=(f"ECE of the fit {when} (fraction)",), better=-1)
      for when in ("before", "after")),
)  # fmt: skip
_OF_FIT: Final = (
    "Of the calibration split: T(x) as mean [lowest, highest], the slopes of T(x) on log C and "
    "log(L / 1000), and ECE before and after. "
)

_WHEN: Final[tuple[tuple[Calibration, str], ...]] = (("raw", "before"), ("calibrated", "after"))


def build_calibration(request: TableRequest) -> Table:
    """Make the table of calibration of runs.

    Raises:
        InputError: the runs do not compare, or none has a calibrator.
    """
    runs = calibrated_runs(request.metrics, request.decoding)
    scope = items_and_pairs(request.metrics.sizes)
    return calibration_table(runs, request.decoding, scope, request.names)


def calibration_table(
    runs: tuple[CalibratedRun, ...],
    decoding: Decoding,
    scope: str,
    names: ArmNames = KEYS,
) -> Table:
    """Lay out runs before and after calibration.

    Args:
        runs: what to show.
        decoding: of all numbers.
        scope: items and pairs behind each run, in words.
        names: display names of arms.
    """
    with_t = any(run.temperature is not None for run in runs)
    fitted = any(run.fitted is not None for run in runs)
    published = any(run.shown_worse is None for run in runs)
    numbers = ("T mean", "T lowest", "T highest")
    columns = [Column("Arm", "left"), Column("Seed")]
    columns += [Column("T(x)", numbers=numbers)] if with_t or fitted else []
    columns += _FIT_COLUMNS if fitted else ()
    for metric in CALIBRATED_METRICS:
        spec = metric_spec(metric)
        for how, when in _WHEN:
            name = MetricDecoding(decoding, how == "calibrated")
            column = metric_column(spec, name, f"{spec.title} {when}")
            with_chance = not published and find_metric(metric).noise_floor
            columns.append(chance_column(column, unit_of(spec, name)) if with_chance else column)
    rows, before = [], None
    for run in runs:
        cells = _cells(run, names, with_t=with_t, fitted=fitted)
        rows.append(Row(tuple(cells), rule=run.arm != before))
        before = run.arm
    worse = "is shown to make it worse: the 95% interval of the paired change excludes 0"
    if published:
        worse = "made it worse, by any amount: published numbers have no intervals"
    shown = "T(x): mean [lowest, highest] over the items. " if with_t else ""
    shown = _OF_FIT if fitted else shown
    return Table(
        name="calibration",
        title="Before and after calibration",
        caption=(
            f"Decoding: {decoding_words(MetricDecoding(decoding))}, and divided by T(x). "
            f"{shown}Each run: {scope}. ECE and AURC in %, NLL in nats. No temperature changes an "
            "accuracy."
        ),
        columns=tuple(columns),
        rows=tuple(rows),
        legend=(("worse", f"T(x) {worse}"),),
        notes=() if published else (NOISE,),
    )


def _cells(run: CalibratedRun, names: ArmNames, *, with_t: bool, fitted: bool) -> list[Cell]:
    cells = [arm_cell(run.arm, names), text_cell("–" if run.seed is None else str(run.seed))]
    if fitted:
        cells += _of_fit(run.fitted)
    elif with_t:
        cells.append(_temperature(run.temperature))
    for before, after, worse in zip(run.before, run.after, run.worse, strict=True):
        spec = metric_spec(before.cell.metric)
        pair = [value_cell(row.value, spec, row.reason) for row in (before, after)]
        if run.shown_worse is not None and find_metric(spec.name).noise_floor:
            pair = [
                chance_cell(cell, ChanceError.of([row.calibration]))
                for cell, row in zip(pair, (before, after), strict=True)
            ]
        cells += [pair[0], replace(pair[1], mark="worse" if worse else None)]
    return cells


def _of_fit(fitted: ReleasedCalibration | None) -> list[Cell]:
    """Return T(x), its slopes, and ECE before and after on the split of the fit."""
    if fitted is None:
        return [_temperature(None), *(Cell("–") for _ in _FIT_COLUMNS)]
    weights, ece = fitted.calibrator.weights, metric_spec("ece")
    before, after = (value_cell(value, ece) for value in (fitted.ece_before, fitted.ece_after))
    worse = fitted.ece_after > fitted.ece_before
    return [
        _temperature(fitted.temperature),
        *(Cell(f"{slope:+.2f}", (slope,)) for slope in (weights.log_choices, weights.log_tokens)),
        before,
        replace(after, mark="worse" if worse else None),
    ]


def _temperature(temperature: TemperatureSummary | None) -> Cell:
    if temperature is None:
        return Cell("–", reason="temperatures are not known")
    text = f"{temperature.mean:.2f} [{temperature.low:.2f}, {temperature.high:.2f}]"
    return Cell(text, (temperature.mean, temperature.low, temperature.high))
