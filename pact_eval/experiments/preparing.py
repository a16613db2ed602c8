"""Preparation of an experiment: checks of the plan and its files, before anything starts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pact_eval._choices import ExperimentStage
from pact_eval._files import sha256_of_file
from pact_eval.errors import InputError, PlanError, Problem, TamperedError
from pact_eval.experiments.base_commit import base_commit
from pact_eval.experiments.costs import MEASURED, estimated_cost, read_measured
from pact_eval.experiments.devices import gpus_here, slot_environments, step_environment
from pact_eval.experiments.outcome import ExperimentOutcome, StepOutcome, StepState
from pact_eval.experiments.plan import Plan, check_plan
from pact_eval.experiments.plan_files import PlanFiles, plan_files
from pact_eval.experiments.receipts import Receipts, Standing
from pact_eval.experiments.recipe_problems import recipe_problems
from pact_eval.experiments.steps import SELECTED, Step, chosen_steps, planned_steps
from pact_eval.experiments.tuning import tuning_of_plan
from pact_eval.preregistration.parsing import read_hypotheses
from pact_eval.preregistration.registration import (
    DataHash,
    canonical_criteria,
    check_lock,
    lock_path,
    read_lock,
)


@dataclass(frozen=True)
class Choice:
    """Choice of the parts of a plan to run, and their options.

    Attributes:
        folder: folder of the experiment; None takes the name of the plan, next to it.
        arm: only this arm, or "base", and what it needs; None for all.
        stage: only the steps of this stage, and what they need; None for all.
        slots: processes at a time on this machine, at least 1.
        ray: address of a Ray cluster instead, as host:port, or "auto"; None for this machine.
    """

    folder: Path | None = None
    arm: str | None = None
    stage: ExperimentStage | None = None
    slots: int = 1
    ray: str | None = None


@dataclass(frozen=True)
class PreparedExperiment:
    """An experiment that is ready to run.

    Attributes:
        plan: the plan.
        files: its files.
        folder: folder of the experiment.
        steps: the chosen steps in order.
        receipts: the receipts.
        slots: the environment of each slot; on a cluster, that of a step here.
        ray: address of the Ray cluster; None for this machine.
        notes: what a user must know before it runs, a sentence each.
    """

    plan: Plan
    files: PlanFiles
    folder: Path
    steps: tuple[Step, ...]
    receipts: Receipts
    slots: tuple[dict[str, str], ...]
    ray: str | None = None
    notes: tuple[str, ...] = ()

    def outcome(self, steps: Sequence[StepOutcome], *, is_dry: bool = False) -> ExperimentOutcome:
        """Return an outcome of this experiment."""
        missing = tuple(map(str, self.files.missing))
        return ExperimentOutcome(
            *(self.plan.path, self.folder, tuple(steps), is_dry, missing, len(self.slots)),
            ray=self.ray,
            notes=self.notes,
            tuning=tuning_of_plan(self.plan, self.folder / SELECTED),
        )


def open_experiment(path: Path, choice: Choice) -> PreparedExperiment:
    """Read a plan and check all of it; nothing is started.

    Args:
        path: the plan.
        choice: what to run of it.

    Raises:
        PlanError: the plan cannot be used, has no such arm or stage, or there are more slots than
            GPUs. Missing files are an error of `run`.
        InputError: the plan cannot be read, or the folder cannot be one.
        TamperedError: the hypotheses or their lock were changed after they were registered.
    """
    plan, problems = check_plan(path)
    files = plan_files(plan)
    problems += [*files.problems, *recipe_problems(plan, files)]
    if problems:
        raise PlanError(str(path), [*problems, *files.missing])
    _check_registered(plan)
    folder = path.with_suffix("") if choice.folder is None else choice.folder
    named = [plan.folder / place for place in (plan.data.folder, plan.model.base)]
    if folder == path or folder.is_file() or _is_any(folder, named):
        message = (
            f"{folder}: expected a folder of its own for the experiment; give another one with "
            "--out"
        )
        raise InputError(message)
    start_folder = plan.folder
    commit, notes = (None, ()) if files.base is not None else base_commit(plan.model.base)
    files = replace(files, base_commit=commit)
    steps = planned_steps(plan, files, Path(os.path.relpath(folder, start_folder)))
    try:
        chosen = chosen_steps(steps, arm=choice.arm, stage=choice.stage)
        environments = (step_environment(),) if choice.ray else _slots(plan, choice.slots)
    except InputError as error:
        raise PlanError(str(path), [Problem(None, None, str(error))]) from None
    receipts = Receipts(start_folder, folder / "receipts")
    return PreparedExperiment(
        plan, files, folder, chosen, receipts, environments, choice.ray, notes
    )


def _slots(plan: Plan, slots: int) -> tuple[dict[str, str], ...]:
    """Return the environments of slots, each with the GPUs of the step that needs most.

    Raises:
        InputError: there are too few GPUs.
    """
    stated = [plan.reserved(stage, has_gpus=True).gpus or 0 for stage in ("train", "score")]
    return slot_environments(slots, gpus_here(), max(1, *stated))


def _is_any(folder: Path, others: Sequence[Path]) -> bool:
    return any(folder.resolve() == other.resolve() for other in others)


def is_refused_registration(lock: Path, hypotheses: Path, *data: Path) -> bool:
    """Return whether a lock is there that has other criteria, or another content of a file.

    A file that was not registered at all is another matter: then the lock does not cover what would
    be judged, and nothing has been changed.

    Args:
        lock: the lock.
        hypotheses: file of the criteria.
        data: the files that they will be judged on.
    """
    try:
        registered, criteria = read_lock(lock), canonical_criteria(read_hypotheses(hypotheses))
        hashes = [DataHash(file.name, sha256_of_file(file)) for file in data]
    except (InputError, OSError):
        return False
    except TamperedError:
        return True
    names = {file.name for file in registered.data}
    sha256 = {file.sha256 for file in registered.data}
    changed = any(file.name in names and file.sha256 not in sha256 for file in hashes)
    return registered.criteria != criteria or changed


def _check_registered(plan: Plan) -> None:
    """Refuse hypotheses that are not those that were registered.

    Raises:
        TamperedError: they were changed, or the lock was.
    """
    if plan.judge.hypotheses is None:
        return
    path = plan.folder / plan.judge.hypotheses
    place = lock_path(path)
    if not path.is_file() or not place.exists():
        return
    registration = check_lock(read_hypotheses(path), read_lock(place), [])
    if registration.status == "TAMPERED":
        changes = "\n".join(f"  {reason}" for reason in registration.reasons)
        message = (
            f"{path}: not the registered hypotheses ({place}); register new ones as a file of "
            f"another name:\n{changes}"
        )
        raise TamperedError(message)


def dry_run(experiment: PreparedExperiment) -> ExperimentOutcome:
    """Return what would run, and why; nothing is started or written.

    Args:
        experiment: the experiment; its files may be missing.

    Raises:
        InputError: the file of measured times is not one.
    """
    outcomes: dict[str, StepOutcome] = {}
    for step in experiment.steps:
        standing = experiment.receipts.standing(step, experiment.receipts.expected(step))
        waits = [name for name in step.needs if outcomes[name].state == "to do"]
        if standing.state == "done" and waits:
            # What it needs may come out as before; then it stays.
            standing = Standing("missing", f"if {waits[-1]} changes what it reads")
        state: StepState = "up to date" if standing.state == "done" else "to do"
        outcomes[step.name] = StepOutcome(step, state, standing.why)
    outcome = experiment.outcome([*outcomes.values()], is_dry=True)
    measured = read_measured(experiment.folder / MEASURED)
    if measured is None:
        return outcome
    left = [step.step for step in outcome.of_state("to do")]
    slots = 0 if experiment.ray else len(experiment.slots)  # how much room a cluster has is unknown
    cost = estimated_cost(experiment.plan, left, slots, measured)
    return replace(outcome, cost=cost)
