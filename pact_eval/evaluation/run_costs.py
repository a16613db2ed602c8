"""Cost: time and size of scoring each run and of training its adapter, and of released arms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pact_eval._files import read_json
from pact_eval._json import Json, finite_number
from pact_eval.custody.training_record import TRAINING_RECORD
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics
from pact_eval.evaluation.arms.cells import ArmSummary
from pact_eval.evaluation.arms.released_training import ReleasedTraining
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.metric_specs import SINGLE
from pact_eval.runs.folder import RunFolder
from pact_eval.stats.estimate import Estimate

TRAINING_NAME: Final = "training.json"
"""A file that a trainer may write into the adapter folder, with `wall_minutes`, `steps`,
`views_per_pair` and `peak_memory_bytes`. What it lacks is taken from the training record."""


@dataclass(frozen=True)
class RunCost:
    """Cost of one run; values that are not recorded are None.

    Attributes:
        arm: arm of the run.
        seed: seed of the run, or None.
        views: number of scored views over all items.
        k: number of views per item.
        wall_seconds: time of scoring, summed over the processes that scored the run.
        longest_prompt_tokens: longest prompt of all views.
        device: device on which it was scored.
        dtype: dtype of the model on that device, and its quantisation.
        has_adapter: whether an adapter was used.
        training_minutes: time of training the adapter.
        training_steps: steps of the optimiser.
        training_views_per_pair: views of a pair in training: primary, permuted, ablated.
        training_peak_bytes: most memory that the training held: of the GPU, or of the process.
    """

    arm: str
    seed: int | None
    views: int
    k: int
    wall_seconds: float | None
    longest_prompt_tokens: int | None
    device: str | None
    dtype: str | None
    has_adapter: bool
    training_minutes: float | None
    training_steps: float | None
    training_views_per_pair: float | None
    training_peak_bytes: float | None


def run_costs(experiment: Experiment) -> tuple[RunCost, ...]:
    """Read the costs of the runs from `run.json` and from the files in the adapter folder."""
    return tuple(_cost(run) for runs in experiment.arms.values() for run in runs)


def _cost(run: ExperimentRun) -> RunCost:
    recorded, training = run.provenance, _training(run.run)
    return RunCost(
        arm=run.arm,
        seed=run.seed,
        views=len(run.predictions) * run.predictions.k,
        k=run.predictions.k,
        wall_seconds=recorded.wall_seconds,
        longest_prompt_tokens=recorded.longest_prompt_tokens,
        device=recorded.settings.device,
        dtype=recorded.precision,
        has_adapter=recorded.adapter is not None,
        training_minutes=_number(training.get("wall_minutes")),
        training_steps=_number(training.get("steps")),
        training_views_per_pair=_number(training.get("views_per_pair")),
        training_peak_bytes=_number(training.get("peak_memory_bytes")),
    )


def _training(run: RunFolder) -> Mapping[str, Json]:
    """Return what the files of the adapter of a run say of its training; empty without them."""
    named = run.provenance.adapter_folder
    if named is None:
        return {}
    for above in (Path(), *run.folder.resolve().parents):
        facts = _recorded(above / named) | _read(above / named / TRAINING_NAME)
        if facts:
            return facts
    return {}


def _recorded(adapter: Path) -> dict[str, Json]:
    """Return the facts of a training record, with its wall time in minutes."""
    facts = _read(adapter / TRAINING_RECORD).get("training")
    if not isinstance(facts, dict):
        return {}
    seconds = _number(facts.get("wall_seconds"))
    return facts if seconds is None else facts | {"wall_minutes": seconds / 60}


def _read(path: Path) -> dict[str, Json]:
    try:
        value = read_json(path)
    except InputError:
        return {}
    return value if isinstance(value, dict) else {}


def _number(value: Json) -> float | None:
    if isinstance(value, int | float) and finite_number(value) is not None:
        return value
    return None


@dataclass(frozen=True)
class ArmCost:
    """Cost of training one released arm.

    Attributes:
        arm: its name.
        steps: optimiser steps of each run, by seed.
        views_per_pair: training views of a pair, the largest of its runs.
        hours: time of training over seeds.
        peak_gib: peak GPU memory, the largest of its runs; None if one does not record it.
        accuracy: of view 0 over seeds, uncalibrated.
    """

    arm: str
    steps: tuple[int, ...]
    views_per_pair: float
    hours: ArmSummary
    peak_gib: float | None
    accuracy: ArmSummary


def arm_costs(metrics: ArmMetrics) -> tuple[ArmCost, ...]:
    """Gather the cost of training every arm of released runs.

    Raises:
        InputError: the metrics are not from released result folders.
    """
    if not metrics.trainings:
        message = "no cost of training is known: expected a folder with train_report.json files"
        raise InputError(message)
    by_arm: dict[str, list[ReleasedTraining]] = {}
    for run in metrics.trainings:
        by_arm.setdefault(run.arm, []).append(run)
    accuracy = metrics.summaries([*by_arm], "accuracy", SINGLE)
    return tuple(_arm_cost(runs, accuracy[arm]) for arm, runs in by_arm.items())


def _arm_cost(runs: list[ReleasedTraining], accuracy: ArmSummary) -> ArmCost:
    arm = runs[0].arm
    hours = {run.seed: Estimate(run.wall_seconds / 3600, math.nan, math.nan, 0, 0) for run in runs}
    peaks = [run.peak_gib for run in runs if run.peak_gib is not None]
    return ArmCost(
        arm=arm,
        steps=tuple(run.steps for run in runs),
        views_per_pair=max(run.views_per_pair for run in runs),
        hours=ArmSummary.of(arm, hours),
        peak_gib=max(peaks) if len(peaks) == len(runs) else None,
        accuracy=accuracy,
    )
