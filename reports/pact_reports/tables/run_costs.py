"""Costs of scoring each run and of training its adapter; costs of training released arms."""

from __future__ import annotations

import math
from typing import Final

from pact_eval.custody.training_record import TRAINING_RECORD
from pact_eval.errors import InputError
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.decoding import SINGLE
from pact_eval.evaluation.registry import metric_spec
from pact_eval.evaluation.run_costs import TRAINING_NAME, ArmCost, RunCost, arm_costs, run_costs
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.arm_cells import mean_cell, mean_column
from pact_reports.tables.cells import arm_cell, count_cell, count_column, text_cell
from pact_reports.tables.request import TableRequest

_GIB: Final = 1024**3


def build_cost(request: TableRequest) -> Table:
    """Make the table of costs.

    Raises:
        InputError: there is no run on full contexts, or published metrics say nothing of training.
    """
    if request.published is not None:
        return arm_cost_table(arm_costs(request.published), request.names)
    costs = run_costs(request.experiment)
    if not costs:
        message = "no run on full contexts"
        raise InputError(message)
    return cost_table(costs, request.names)


def cost_table(costs: tuple[RunCost, ...], names: ArmNames = KEYS) -> Table:
    """Lay out costs: one row per run."""
    rows, before = [], None
    for cost in costs:
        rows.append(Row(_cells(cost, names), rule=cost.arm != before))
        before = cost.arm
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
            Column("Arm", "left"),
            Column("Seed"),
            count_column("Views"),
            count_column("K"),
            Column("Seconds", numbers=("scoring (s)",)),
            Column("Longest prompt", numbers=("longest prompt (tokens)",)),
            Column("Device", "left"),
            Column("Type", "left"),
            Column("Train. steps", numbers=("training steps",)),
            Column("Views per pair", numbers=("training views per pair",)),
            Column("Train. min", numbers=("training (min)",)),
            Column("Train. GiB", numbers=("training, peak memory (GiB)",)),
        ),
        rows=tuple(rows),
    )


def _cells(cost: RunCost, names: ArmNames) -> tuple[Cell, ...]:
    untrained = f"not recorded in {TRAINING_NAME}" if cost.has_adapter else "no adapter"
    peak = cost.training_peak_bytes
    return (
        arm_cell(cost.arm, names),
        text_cell("–" if cost.seed is None else str(cost.seed)),
        count_cell(cost.views),
        count_cell(cost.k),
        _measured(cost.wall_seconds, 1, "not recorded by the run"),
        _measured(cost.longest_prompt_tokens, 0, "not recorded by the run"),
        text_cell(cost.device or "–"),
        text_cell(cost.dtype or "–"),
        _measured(cost.training_steps, 0, untrained),
        _measured(cost.training_views_per_pair, 1, untrained),
        _measured(cost.training_minutes, 1, untrained),
        _measured(peak and peak / _GIB, 1, untrained),
    )


def arm_cost_table(costs: tuple[ArmCost, ...], names: ArmNames = KEYS) -> Table:
    """Lay out costs of training: one row per arm."""
    accuracy = metric_spec("accuracy")
    return Table(
        name="cost",
        title="Cost of training",
        caption=(
            "Each arm: optimiser steps, training views per pair, hours of wall time (mean ± "
            "deviation over seeds), highest peak of GPU memory of a run, and accuracy of view 0."
        ),
        columns=(
            Column("Arm", "left"),
            count_column("Runs"),
            Column("Steps", numbers=("training steps, lowest", "training steps, highest")),
            Column("Views/pair", numbers=("training views per pair",)),
            Column("Hours", numbers=("hours mean", "hours deviation")),
            Column("Peak GiB", numbers=("peak GPU memory (GiB)",)),
            mean_column(accuracy, SINGLE),
        ),
        rows=tuple(
            Row(
                (
                    arm_cell(cost.arm, names),
                    count_cell(len(cost.steps)),
                    _steps(cost.steps),
                    _measured(cost.views_per_pair, 1, ""),
                    _hours(cost),
                    _measured(cost.peak_gib, 1, "not measured in every run"),
                    mean_cell(cost.accuracy, accuracy),
                )
            )
            for cost in costs
        ),
    )


def _steps(steps: tuple[int, ...]) -> Cell:
    low, high = min(steps), max(steps)
    return Cell(f"{low:,}" if low == high else f"{low:,} to {high:,}", (low, high))


def _hours(cost: ArmCost) -> Cell:
    mean, deviation = cost.hours.mean, cost.hours.deviation
    text = f"{mean:.2f}" if math.isnan(deviation) else f"{mean:.2f} ± {deviation:.2f}"
    return Cell(text, (mean, deviation))


def _measured(value: float | None, decimals: int, reason: str) -> Cell:
    if value is None:
        return Cell("–", reason=reason)
    return Cell(f"{value:,.{decimals}f}", (value,))
