"""Outcome of an experiment: the end of each step, and the plan of the next command."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pact_eval._choices import ExperimentStage
from pact_eval.experiments.costs import Cost
from pact_eval.experiments.steps import Step
from pact_eval.experiments.tuning import ArmTuning
from pact_eval.results import Result

StepState = Literal["to do", "up to date", "done", "failed", "not run"]
"""Outcome of a step. To do: of a dry run."""


@dataclass(frozen=True)
class StepOutcome:
    """Outcome of a step.

    Attributes:
        step: the step.
        state: what became of it.
        why: why it runs, has failed or was not run; "" if there is nothing to say.
        exit_code: what the experiment exits with because of it; 0 if it did not fail.
        seconds: time that it took; None if it did not run.
        log: file of its log; None if it has none.
        log_lines: the last lines of its log, if it failed.
        notes: what else is worth knowing, such as "training data not stated".
    """

    step: Step
    state: StepState
    why: str = ""
    exit_code: int = 0
    seconds: float | None = None
    log: Path | None = None
    log_lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class ExperimentOutcome(Result):
    """Outcome of an experiment.

    Attributes:
        plan: file of the plan.
        folder: folder of the experiment.
        steps: its steps in order.
        is_dry: whether nothing was started.
        missing: files of the plan that do not exist; only a dry run goes on without them.
        slots: number of slots; 1 on a cluster.
        ray: address of the Ray cluster; None for this machine.
        notes: what else a user must know before it runs, a sentence each.
        tuning: what was tuned of every arm.
        cost: what the steps to do would take; None if it was not measured, or of a real run.
    """

    plan: Path
    folder: Path
    steps: tuple[StepOutcome, ...]
    is_dry: bool
    missing: tuple[str, ...] = ()
    slots: int = 1
    ray: str | None = None
    notes: tuple[str, ...] = ()
    tuning: tuple[ArmTuning, ...] = ()
    cost: Cost | None = None

    @property
    def exit_code(self) -> int:
        """The gravest exit code of its steps: 5 before 3, 3 before 1, 0 if none failed."""
        return max((outcome.exit_code for outcome in self.steps), default=0)

    def of_state(self, *states: StepState) -> tuple[StepOutcome, ...]:
        """Return the steps with one of these states."""
        return tuple(outcome for outcome in self.steps if outcome.state in states)

    def count(self, stages: Iterable[ExperimentStage]) -> int:
        """Return the number of steps of some stages, whatever became of them."""
        names = set(stages)
        return sum(outcome.step.stage in names for outcome in self.steps)

    def repeat_command(self, step: Step) -> str:
        """Return the line for a shell that repeats the command of one step.

        Examples:
            >>> step = Step("audit", "audit", ("pact-audit", "data", "my data"), (), (), ())
            >>> outcome = ExperimentOutcome(Path("exp/plan.toml"), Path("exp/plan"), (), False)
            >>> outcome.repeat_command(step)
            "cd exp && pact-audit data 'my data'"
        """
        return self._from_plan(shlex.join(step.words))

    @property
    def report_command(self) -> str | None:
        """The line for a shell that reports the runs that are scored; None if there is none."""
        runs = [
            str(outcome.step.outputs[0].parent)
            for outcome in self.of_state("done", "up to date")
            if outcome.step.part == "holdout"
        ]
        if not runs:
            return None
        return self._from_plan(shlex.join(["pact-eval", "report", *runs, "--html", "so-far.html"]))

    def _from_plan(self, line: str) -> str:
        """Return a line that runs in the folder of the plan."""
        folder = self.plan.parent
        return line if folder == Path() else f"cd {shlex.quote(str(folder))} && {line}"
