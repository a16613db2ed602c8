"""Cost: what scoring each run took, and what training its adapter did."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pact_eval._json import Json, loads
from pact_eval.errors import InputError
from pact_eval.evaluation import Experiment, ExperimentRun
from pact_eval.runs import RunFolder
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import count_cell, count_column, text_cell
from pact_reports.tables.request import TableRequest

__all__ = ["TRAINING_NAME", "RunCost", "build_cost", "cost_table", "run_costs"]

TRAINING_NAME: Final = "training.json"
"""What a trainer may leave in an adapter folder: `wall_minutes` and `steps` are read from it."""


@dataclass(frozen=True)
class RunCost:
    """What one run took; None where nobody says.

    Attributes:
        arm: of the run.
        seed: of the run, or None.
        views: of all items.
        k: views of each item.
        wall_seconds: of scoring, over all processes that took part.
        longest_prompt_tokens: of all views.
        device: that it was scored on.
        dtype: of the model there.
        has_adapter: whether an adapter was on.
        training_minutes: of its adapter.
        training_steps: of the optimiser.
    """

    arm: str
    seed: int | None
    views: int
    k: int
    wall_seconds: float | None
    longest_prompt_tokens: float | None
    device: str | None
    dtype: str | None
    has_adapter: bool
    training_minutes: float | None
    training_steps: float | None


def run_costs(collection: Experiment) -> tuple[RunCost, ...]:
    """Gather what the runs took, from `run.json` and from `training.json` beside their adapters."""
    return tuple(_cost(run) for runs in collection.arms.values() for run in runs)


def build_cost(request: TableRequest) -> Table:
    """Make the table of costs.

    Raises:
        InputError: there is no run on whole contexts.
    """
    costs = run_costs(request.collection)
    if not costs:
        message = "no run on whole contexts"
        raise InputError(message)
    return cost_table(costs)


def cost_table(costs: tuple[RunCost, ...]) -> Table:
    """Lay out costs: a row a run."""
    rows, before = [], None
    for cost in costs:
        rows.append(Row(_cells(cost), rule=cost.arm != before))
        before = cost.arm
    return Table(
        name="cost",
        title="Cost",
        caption=(
            "Scoring: views of all items, K of each item, seconds of wall time on the device and "
            "in the type named, longest prompt in tokens. Training: optimiser steps and minutes of "
            f"wall time, where {TRAINING_NAME} beside the adapter says so."
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
            Column("Train. min", numbers=("training (min)",)),
        ),
        rows=tuple(rows),
    )


def _cost(run: ExperimentRun) -> RunCost:
    provenance, settings = run.run.provenance, run.run.settings
    training = _training(run.run)
    return RunCost(
        arm=run.arm,
        seed=run.seed,
        views=len(run.predictions) * run.predictions.k,
        k=run.predictions.k,
        wall_seconds=_number(provenance.get("wall_seconds")),
        longest_prompt_tokens=_number(provenance.get("longest_prompt_tokens")),
        device=_text(settings.get("device")),
        dtype=_text(settings.get("dtype")),
        has_adapter=settings.get("adapter") is not None,
        training_minutes=_number(training.get("wall_minutes")),
        training_steps=_number(training.get("steps")),
    )


def _training(run: RunFolder) -> Mapping[str, Json]:
    """Return what training left beside the adapter that a run names, as far as it can be read."""
    named = run.provenance.get("adapter")
    if not isinstance(named, str) or not named:
        return {}
    for above in (Path(), *run.folder.resolve().parents):
        try:
            value = loads((above / named / TRAINING_NAME).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        return value if isinstance(value, dict) else {}
    return {}


def _cells(cost: RunCost) -> tuple[Cell, ...]:
    untrained = f"no {TRAINING_NAME} says so" if cost.has_adapter else "no adapter"
    return (
        text_cell(cost.arm),
        text_cell("–" if cost.seed is None else str(cost.seed)),
        count_cell(cost.views),
        count_cell(cost.k),
        _measured(cost.wall_seconds, 1, "the run does not say"),
        _measured(cost.longest_prompt_tokens, 0, "the run does not say"),
        text_cell(cost.device or "–"),
        text_cell(cost.dtype or "–"),
        _measured(cost.training_steps, 0, untrained),
        _measured(cost.training_minutes, 1, untrained),
    )


def _measured(value: float | None, decimals: int, reason: str) -> Cell:
    if value is None:
        return Cell("–", reason=reason)
    return Cell(f"{value:,.{decimals}f}", (value,))


def _number(value: Json) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None
