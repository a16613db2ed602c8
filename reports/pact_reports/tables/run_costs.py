"""Costs of scoring each run and of training its adapter; costs of training released arms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pact_eval._choices import ClusterUnit
from pact_eval.custody import TRAINING_RECORD
from pact_eval.errors import InputError
from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.arms.table_results import (
    TRAINING_NAME,
    ArmCost,
    RunCost,
    arm_costs,
    run_costs,
)
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.registry import SINGLE, MetricDecoding, MetricSpec, metric_spec
from pact_eval.evaluation.report import Group
from pact_eval.numbers import reason_text, short_clusters
from pact_eval.plain_text import one_line
from pact_reports.request import Request
from pact_reports.table import (
    Cell,
    Column,
    Row,
    Table,
    columns_and_rows,
    left_columns,
    right_columns,
)
from pact_reports.tables.cells import (
    RUN_COLUMNS,
    arm_cell,
    count_cell,
    count_column,
    decoding_words,
    estimate_cell,
    mean_cell,
    mean_column,
    run_rows,
    unit_of,
)

_GIB: Final = 1024**3


def build_cost(request: Request) -> Table:
    """Make the table of costs: one row per run, or per arm of published metrics.

    Raises:
        InputError: there is no run on full contexts, or published metrics say nothing of training.
    """
    if request.published is not None:
        return _arm_cost_table(arm_costs(request.published), request.names)
    costs = run_costs(request.experiment)
    if not costs:
        raise InputError("no run on full contexts")
    return Table(
        name="cost",
        title="Cost",
        caption=(
            "Scoring: views of all items, K of each item, seconds of wall time on the device and "
            "in the type named, longest prompt in tokens. Training: optimiser steps, views of a "
            "pair, minutes of wall time and peak memory of the GPU (or else of the process), if "
            f"{TRAINING_NAME} or {TRAINING_RECORD} next to the adapter records it."
        ),
        columns=(
            *RUN_COLUMNS,
            count_column("Views"),
            count_column("K"),
            Column("Seconds", numbers=("scoring (s)",)),
            Column("Longest prompt", numbers=("longest prompt (tokens)",)),
            *left_columns("Device", "Type"),
            Column("Train. steps", numbers=("training steps",)),
            Column("Views per pair", numbers=("training views per pair",)),
            Column("Train. min", numbers=("training (min)",)),
            Column("Train. GiB", numbers=("training, peak memory (GiB)",)),
        ),
        rows=run_rows(((cost.arm, cost.seed, _cells(cost)) for cost in costs), request.names),
    )


def _cells(cost: RunCost) -> tuple[Cell, ...]:
    untrained = f"not recorded in {TRAINING_NAME}" if cost.has_adapter else "no adapter"
    peak = cost.training_peak_bytes
    return (
        count_cell(cost.views),
        count_cell(cost.k),
        _measure_cell(cost.wall_seconds, 1, "not recorded by the run"),
        _measure_cell(cost.longest_prompt_tokens, 0, "not recorded by the run"),
        Cell(cost.device or "–"),
        Cell(cost.dtype or "–"),
        _measure_cell(cost.training_steps, 0, untrained),
        _measure_cell(cost.training_views_per_pair, 1, untrained),
        _measure_cell(cost.training_minutes, 1, untrained),
        _measure_cell(peak and peak / _GIB, 1, untrained),
    )


def _arm_cost_table(costs: tuple[ArmCost, ...], names: ArmNames) -> Table:
    """Lay out costs of training: one row per arm."""
    accuracy, steps = metric_spec("accuracy"), ("training steps, lowest", "training steps, highest")
    unmeasured = "not measured in every run"
    layout = columns_and_rows(
        costs,
        (Column("Arm", "left"), lambda cost: arm_cell(cost.arm, names)),
        (count_column("Runs"), lambda cost: count_cell(len(cost.steps))),
        (Column("Steps", numbers=steps), lambda cost: _steps(cost.steps)),
        (_VIEWS_PER_PAIR, lambda cost: _measure_cell(cost.views_per_pair, 1, "")),
        (Column("Hours", numbers=("hours mean", "hours deviation")), _hours),
        (_PEAK, lambda cost: _measure_cell(cost.peak_gib, 1, unmeasured)),
        (mean_column(accuracy, SINGLE), lambda cost: mean_cell(cost.accuracy, accuracy)),
    )
    caption = (
        "Each arm: optimiser steps, training views per pair, hours of wall time (mean ± "
        "deviation over seeds), highest peak of GPU memory of a run, and accuracy of view 0."
    )
    return Table("cost", "Cost of training", caption, *layout)


_VIEWS_PER_PAIR: Final = Column("Views/pair", numbers=("training views per pair",))


_PEAK: Final = Column("Peak GiB", numbers=("peak GPU memory (GiB)",))


def _steps(steps: tuple[int, ...]) -> Cell:
    low, high = min(steps), max(steps)
    return Cell(f"{low:,}" if low == high else f"{low:,} to {high:,}", (low, high))


def _hours(cost: ArmCost) -> Cell:
    mean, deviation = cost.hours.mean, cost.hours.deviation
    text = f"{mean:.2f}" if math.isnan(deviation) else f"{mean:.2f} ± {deviation:.2f}"
    return Cell(text, (mean, deviation))


def _measure_cell(value: float | None, decimals: int, reason: str) -> Cell:
    if value is None:
        return Cell("–", reason=reason)
    return Cell(f"{value:,.{decimals}f}", (value,))


_METRICS: Final = tuple(map(metric_spec, ("accuracy", "nll_nats", "ece", "flip_rate")))
_NOTE: Final = (
    "Of many groups, some stand out by chance; the line `where` of pact-eval report RUN names "
    "those that also differ in other families."
)


def run_groups_table(experiment: Experiment, names: ArmNames) -> Table:
    """Lay out the metrics of every run by group; the first row of a run has all items.

    Args:
        experiment: the runs; its settings name the column, and bins of its numbers.
        names: display names of arms.

    Raises:
        InputError: a run lacks the column, or its numbers need bins.
    """
    settings = experiment.settings
    rows: list[Row] = []
    several = len(experiment.runs) > 1
    for run in experiment.runs:
        named = [Cell(one_line(names.run(run.label)))] if several else []
        for at, group in enumerate(experiment.evaluation(run).groups):
            cells = (*named, *_run_groups_cells(group, settings.unit))
            rows.append(Row(cells, rule=at == 0 and bool(rows)))
    decoding = MetricDecoding(settings.decoding, calibrated=settings.calibrated)
    by = one_line(settings.by.replace("_", " "))
    return Table(
        name="groups",
        title=f"Metrics by {by}",
        caption=(
            f"Decoding: {decoding_words(decoding)}; flips are between the K views. NLL in nats, "
            "the rest in %."
        ),
        columns=(
            *([Column("Run", "left")] if several else []),
            Column(by, "left"),
            *right_columns("items", short_clusters(settings.unit)),
            *(_column(spec, decoding) for spec in _METRICS),
        ),
        rows=tuple(rows),
        notes=(_NOTE,),
        brackets="In brackets: 95% interval over families.",
    )


def _run_groups_cells(group: Group, unit: ClusterUnit) -> Iterator[Cell]:
    yield Cell(one_line(group.name) or "(none)")
    yield Cell(f"{group.items:,}")
    yield Cell(f"{group.clusters:,}")
    for spec in _METRICS:
        estimate = group.estimates[spec.name]
        cell = estimate_cell(estimate, spec.unit, test=False)
        numbers = (estimate.value, estimate.low, estimate.high)
        yield replace(cell, numbers=numbers, reason=reason_text(estimate.reason, unit))


def _column(spec: MetricSpec, decoding: MetricDecoding) -> Column:
    unit = unit_of(spec, decoding)
    ends = (f"{spec.title} {end} ({unit})" for end in ("low", "high"))
    return Column(spec.title, numbers=(f"{spec.title} ({unit})", *ends), better=spec.better)
