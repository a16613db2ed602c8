"""Tuning of arms side by side: settings, selection split, and number of trainings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pact_eval._json import Json, dumps
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.experiments.candidates import tuned_settings
from pact_eval.experiments.plan import Arm, Plan
from pact_eval.experiments.selection import ArmSelection, read_selection


@dataclass(frozen=True)
class ArmTuning:
    """The tuning of one arm.

    Attributes:
        arm: the arm.
        tuned: the tuned settings, with the values that were tried; empty if it was not tuned.
        trainings: number of its trainings.
        selection: the choice; None if it was not tuned, or nothing is chosen yet.
    """

    arm: str
    tuned: Mapping[str, tuple[Json, ...]]
    trainings: int
    selection: ArmSelection | None = None


def tuning_of_plan(plan: Plan, selected: Path) -> tuple[ArmTuning, ...]:
    """Return the tuning of every arm of a plan.

    Args:
        plan: the plan.
        selected: folder with the choices, `ARM.json`. One that does not fit the plan is left out.
    """
    return tuple(
        ArmTuning(
            arm.name,
            tuned_settings(arm.settings),
            len(plan.trainings_of(arm)),
            _choice(plan, arm, selected / f"{arm.name}.json"),
        )
        for arm in plan.arms
    )


def tuning_of_runs(
    experiment: Experiment, selections: Sequence[ArmSelection]
) -> tuple[ArmTuning, ...]:
    """Return the tuning of every trained arm of some runs.

    Args:
        experiment: the runs. An arm without a selection counts as not tuned.
        selections: the choices.

    Raises:
        InputError: a selection is of an arm that no run has, or two are of one arm.
    """
    by_arm = {selection.arm: selection for selection in selections}
    strangers = [arm for arm in by_arm if arm not in experiment.arms]
    if strangers or len(by_arm) != len(selections):
        arms = ", ".join(strangers) or "one arm"
        message = f"expected one selection for each tuned arm of the runs, got those of {arms}"
        raise InputError(message)
    tunings = []
    for arm, runs in experiment.arms.items():
        selection, seeds = by_arm.get(arm), {run.seed for run in runs if run.seed is not None}
        if selection is not None:
            tuning = ArmTuning(arm, selection.tuned, selection.trainings, selection)
            tunings.append(tuning)
        elif seeds:
            tunings.append(ArmTuning(arm, {}, len(seeds)))
    return tuple(tunings)


def _choice(plan: Plan, arm: Arm, path: Path) -> ArmSelection | None:
    """Return the choice of a file; None without one, or if other trainings were compared."""
    try:
        selection = read_selection(path)
    except InputError:
        return None
    compared = [dumps({**candidate.settings}) for candidate in selection.candidates]
    planned = [dumps({**candidate.settings}) for candidate in arm.candidates]
    is_current = compared == planned and {*selection.seeds} == {*plan.seeds_of(arm)}
    return selection if arm.is_tuned and is_current else None
