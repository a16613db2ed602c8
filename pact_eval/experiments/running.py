"""Running an experiment: every step after those that it needs, several at a time."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from types import FrameType
from typing import Final, Protocol

from pact_eval.errors import GateError, InputError, TamperedError
from pact_eval.experiments.experiment import ExperimentOutcome, PlannedExperiment, StepOutcome
from pact_eval.experiments.processes import Ending, StepOrder, StepProcess, last_lines
from pact_eval.experiments.ray_tasks import ray_tasks
from pact_eval.experiments.steps import Step

_POLL_SECONDS: Final = 0.05
_OURS: Final = ("pact-eval", "pact-audit")
_GATES: Final = (GateError.exit_code, TamperedError.exit_code)


class Execution(Protocol):
    """A step that runs: a process here, or a task of Ray."""

    order: StepOrder

    def poll(self) -> Ending | None:
        """Return how it has ended; None while it runs or waits."""

    def stop(self) -> None:
        """Ask it to end."""

    def join(self) -> None:
        """Wait until it has ended after `stop`."""


class Executor(Protocol):
    """A place where steps run: this machine, or a cluster of Ray."""

    def start(self, order: StepOrder) -> Execution | None:
        """Start a step; None if there is no room for one more."""


@dataclass
class LocalProcesses:
    """Runs steps on this machine: an `Executor`.

    Attributes:
        environments: the environment of each process at a time.
    """

    environments: Sequence[Mapping[str, str]]
    _running: dict[int, StepProcess] = field(default_factory=dict)

    def start(self, order: StepOrder) -> StepProcess | None:
        """Start a step with the first environment that no other step uses."""
        for number, environment in enumerate(self.environments):
            if number not in self._running or self._running[number].is_over:
                self._running[number] = StepProcess(order, environment)
                return self._running[number]
        return None


def run(
    experiment: PlannedExperiment, watcher: Callable[[StepOutcome], None] = lambda _outcome: None
) -> ExperimentOutcome:
    """Run the steps that are not done.

    Ctrl-C and SIGTERM end the processes; what they have written stays.

    Args:
        experiment: the experiment.
        watcher: gets the outcome of each step.

    Raises:
        WorkerError: the Ray cluster cannot be reached, or has no room for a step.
        MissingExtraError: Ray is needed, and is not installed.
        KeyboardInterrupt: it was interrupted.
    """
    (experiment.folder / "logs").mkdir(parents=True, exist_ok=True)
    with _terminable(), _executor(experiment) as executor:
        return _Run(experiment, executor, watcher).to_the_end()


@contextmanager
def _executor(experiment: PlannedExperiment) -> Iterator[Executor]:
    """Open where the steps run."""
    if experiment.ray is None:
        yield LocalProcesses(experiment.environments)
        return

    with ray_tasks(experiment, experiment.ray) as tasks:
        yield tasks


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM interrupt the block as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass
class _Run:
    """One pass over the steps of an experiment."""

    experiment: PlannedExperiment
    executor: Executor
    watcher: Callable[[StepOutcome], None]
    outcomes: dict[str, StepOutcome] = field(default_factory=dict)
    running: list[Execution] = field(default_factory=list)

    def to_the_end(self) -> ExperimentOutcome:
        """Run every step, or say why it was not run."""
        graph = TopologicalSorter({step.name: step.needs for step in self.experiment.steps})
        graph.prepare()
        ready: set[str] = set()
        try:
            while graph.is_active():
                ready.update(graph.get_ready())
                over = [*self._settled(ready), *self._ended()]
                graph.done(*over)
                if not over:
                    time.sleep(_POLL_SECONDS)
        except BaseException:  # Ctrl-C too: no process is left behind
            for execution in self.running:
                execution.stop()
            for execution in self.running:
                execution.join()
            raise
        return self.experiment.outcome(self.outcomes[step.name] for step in self.experiment.steps)

    def _settled(self, ready: set[str]) -> Iterator[str]:
        """Start the steps that are ready, in order, and yield those that are over without a start.

        Args:
            ready: names of steps whose needs are over; those that were settled are removed.
        """
        for step in [step for step in self.experiment.steps if step.name in ready]:
            outcome = self._blocked(step) or self.experiment.standing(step)
            if outcome.state == "to do":
                execution = self.executor.start(self._order(step))
                if execution is None:
                    return
                self.running.append(execution)
            else:
                self._note(outcome)
                yield step.name
            ready.remove(step.name)

    def _blocked(self, step: Step) -> StepOutcome | None:
        """Return the outcome of a step if one that it needs has failed or was not run."""
        for needed in (self.outcomes[name] for name in step.needs):
            if needed.state in ("failed", "not run"):
                why = needed.why if needed.state == "not run" else f"needs {needed.step.name}"
                return StepOutcome(step, "not run", why)
        return None

    def _order(self, step: Step) -> StepOrder:
        plan, log = self.experiment.plan, self.experiment.running_log(step)
        if self.experiment.is_other_command(step):
            log.unlink(missing_ok=True)
        timeout = plan.train.timeout_seconds if step.stage == "train" else None
        return StepOrder(step, plan.folder.absolute(), log.absolute(), timeout)

    def _ended(self) -> Iterator[str]:
        """Yield the steps whose command has ended, with their outcome noted."""
        for execution in [*self.running]:
            ending = execution.poll()
            if ending is not None:
                self.running.remove(execution)
                self._note(self._outcome(execution.order.step, ending))
                yield execution.order.step.name

    def _outcome(self, step: Step, ending: Ending) -> StepOutcome:
        log = self.experiment.running_log(step)
        if not ending.why:
            log.replace(self.experiment.log(step))
            return StepOutcome(step, "done", seconds=ending.seconds)
        is_gate = step.words[0] in _OURS and ending.code in _GATES  # only our commands have gates
        code = ending.code if is_gate else InputError.exit_code
        # An audit writes to its standard output.
        shown = [self.experiment.plan.folder / f"{step.stdout}.part"] if step.stdout else []
        lines = last_lines(*shown, log)
        return StepOutcome(step, "failed", ending.why, code, ending.seconds, log, lines)

    def _note(self, outcome: StepOutcome) -> None:
        self.outcomes[outcome.step.name] = outcome
        self.watcher(outcome)
