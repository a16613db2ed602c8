"""An experiment: a checked plan, what of it is done, and what became of its steps."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pact_eval._choices import ExperimentStage
from pact_eval.errors import InputError, PlanError, Problem
from pact_eval.experiments.plan import Plan, check_files, check_plan, gpus_here, job_environments
from pact_eval.experiments.steps import Step, chosen_steps, planned_steps
from pact_eval.results import Result

StepState = Literal["to do", "up to date", "done", "failed", "not run"]
"""What becomes of a step. To do: of a dry run."""


@dataclass(frozen=True)
class StepOutcome:
    """Outcome of a step.

    Attributes:
        step: the step.
        state: what became of it.
        why: why it runs, has failed or was not run, or what to know; "" if nothing.
        exit_code: what the experiment exits with because of it; 0 if it did not fail.
        seconds: time that it took; None if it did not run.
        log: file of its log, if it failed.
        log_lines: the last lines of its log, if it failed.
    """

    step: Step
    state: StepState
    why: str = ""
    exit_code: int = 0
    seconds: float | None = None
    log: Path | None = None
    log_lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedExperiment:
    """An experiment that is ready to run.

    Attributes:
        plan: the plan.
        folder: folder of the experiment.
        steps: the chosen steps in order.
        environments: the environment of each process at a time; on a cluster, that of a step here.
        ray: address of the Ray cluster; None for this machine.
        most: tasks at a time on the cluster; None for as many as have room.
    """

    plan: Plan
    folder: Path
    steps: tuple[Step, ...]
    environments: tuple[Mapping[str, str], ...]
    ray: str | None = None
    most: int | None = None

    def log(self, step: Step) -> Path:
        """Return the log of a step that is done; until then, it has the ending `.part`."""
        return self.folder / "logs" / f"{step.name}.txt"

    def running_log(self, step: Step) -> Path:
        """Return the log of a step that has begun and is not done."""
        return self.log(step).with_suffix(".part")

    def standing(self, step: Step) -> StepOutcome:
        """Return whether a step is to do, and why.

        A step is done if its outputs are there. If they may be incomplete, its log must not end in
        `.part` either. What a step keeps is never removed or replaced: if another command made it,
        the step has failed.
        """
        outputs = [self.plan.folder / path for path in step.outputs]
        has_begun, is_other = self.running_log(step).exists(), self.is_other_command(step)
        is_there = bool(outputs) and all(path.exists() for path in outputs)
        if is_other and not step.is_repeated and outputs and self._place(step).exists():
            why = f"{self._place(step)}: made by another command; remove it, or give another --out"
            return StepOutcome(step, "failed", why, InputError.exit_code)
        if not is_there or (has_begun and not step.is_sealed):
            return StepOutcome(step, "to do", "not finished" if has_begun else "new")
        newer = [path for path in step.inputs if self._is_newer(path, outputs)]
        changed = ["its command changed"] * is_other + [f"older than {path}" for path in newer]
        state: StepState = "to do" if step.is_repeated and changed else "up to date"
        return StepOutcome(step, state, "; ".join(changed[:1]))

    def is_other_command(self, step: Step) -> bool:
        """Return whether the log of a step is there and begins with another command."""
        has_begun = self.running_log(step).exists()
        log = self.running_log(step) if has_begun else self.log(step)
        if not step.outputs or not log.exists():
            return False
        command = f"$ {shlex.join(step.words)}\n".encode()  # a word may have several lines
        with log.open("rb") as file:
            return file.read(len(command)) != command

    def _place(self, step: Step) -> Path:
        return self.plan.folder / step.place

    def _is_newer(self, path: Path, outputs: Iterable[Path]) -> bool:
        file, oldest = self.plan.folder / path, min(out.stat().st_mtime_ns for out in outputs)
        return file.exists() and file.stat().st_mtime_ns > oldest

    def outcome(self, steps: Iterable[StepOutcome], *, is_dry: bool = False) -> ExperimentOutcome:
        """Return an outcome of this experiment."""
        return ExperimentOutcome(
            *(self.plan.path, self.folder, tuple(steps), is_dry, len(self.environments), self.ray)
        )

    def dry_run(self) -> ExperimentOutcome:
        """Return what would run, and why; nothing is started or written."""
        return self.outcome(map(self.standing, self.steps), is_dry=True)

    def shell_script(self) -> Iterator[str]:
        """Yield the lines of a shell script that runs the steps to do, one after the other."""
        yield "#!/bin/sh -e"
        yield f"cd {shlex.quote(str(self.plan.folder.absolute()))}"
        yield "export PACT_EVAL_CONFIG="  # the plan has all settings
        steps = [step for step in self.steps if self.standing(step).state == "to do"]
        makers = [step for step in steps if step.stage == "train" or step.stdout is not None]
        folders = dict.fromkeys(str(step.place.parent) for step in makers)
        if folders:
            yield f"mkdir -p {shlex.join(folders)}"
        for step in steps:
            yield f"# {step.name}{', after ' if step.needs else ''}{', '.join(step.needs)}"
            yield from step.shell_lines()


@dataclass(frozen=True, repr=False)
class ExperimentOutcome(Result):
    """Outcome of an experiment.

    Attributes:
        plan: file of the plan.
        folder: folder of the experiment.
        steps: its steps in order.
        is_dry: whether nothing was started.
        jobs: processes at a time; 1 on a cluster.
        ray: address of the Ray cluster; None for this machine.
    """

    plan: Path
    folder: Path
    steps: tuple[StepOutcome, ...]
    is_dry: bool
    jobs: int = 1
    ray: str | None = None

    @property
    def exit_code(self) -> int:
        """The gravest exit code of its steps: 5 before 3, 3 before 1, 0 if none failed."""
        return max((outcome.exit_code for outcome in self.steps), default=0)

    def of_state(self, *states: StepState) -> tuple[StepOutcome, ...]:
        """Return the steps with one of these states."""
        return tuple(outcome for outcome in self.steps if outcome.state in states)

    def count(self, *stages: ExperimentStage) -> int:
        """Return the number of steps of some stages, whatever became of them."""
        return sum(outcome.step.stage in stages for outcome in self.steps)

    def repeat_command(self, step: Step) -> str:
        """Return the line for a shell that repeats the command of one step.

        Examples:
            >>> step = Step("audit", "audit", ("pact-audit", "data", "my data"))
            >>> outcome = ExperimentOutcome(Path("exp/plan.toml"), Path("exp/plan"), (), False)
            >>> outcome.repeat_command(step)
            "cd exp && pact-audit data 'my data'"
        """
        line, folder = shlex.join(step.words), self.plan.parent
        return line if folder == Path() else f"cd {shlex.quote(str(folder))} && {line}"


def open_experiment(
    path: Path,
    *,
    folder: Path | None = None,
    arm: str | None = None,
    stage: ExperimentStage | None = None,
    jobs: int | None = None,
    ray: str | None = None,
) -> PlannedExperiment:
    """Read a plan and check all of it; nothing is started.

    Args:
        path: the plan.
        folder: folder of the experiment; None takes the name of the plan, next to it.
        arm: only the steps of this arm, or of "base", and what they need; None for all.
        stage: only the steps of this stage, and what they need; None for all.
        jobs: processes at a time, at least 1; None for 1, or on a cluster as many as have room.
        ray: address of a Ray cluster instead, as host:port, or "auto"; None for this machine.

    Raises:
        PlanError: the plan cannot be used, has no such arm or stage, or there are more jobs than
            GPUs.
        InputError: the plan cannot be read, or the folder cannot be one.
        TamperedError: the hypotheses, their lock or the holdout were changed after they were
            registered.
    """
    plan, problems = check_plan(path)
    files = check_files(plan, problems)
    folder = path.with_suffix("") if folder is None else folder
    taken = [plan.folder / place for place in (plan.data.folder, plan.model.base)]
    if folder.is_file() or folder.resolve() in [place.resolve() for place in taken]:
        raise InputError(f"{folder}: expected a folder of its own; give another one with --out")
    steps = planned_steps(plan, files, Path(os.path.relpath(folder, plan.folder)))
    stated = [plan.reserved(stage, has_gpus=True).gpus or 0 for stage in ("train", "score")]
    try:
        chosen = chosen_steps(steps, arm=arm, stage=stage)
        here = job_environments(1 if ray else jobs or 1, gpus_here(), max(1, *stated))
    except InputError as error:
        raise PlanError(str(path), [Problem(None, None, str(error))]) from None
    return PlannedExperiment(plan, folder, chosen, here, ray, jobs if ray else None)
