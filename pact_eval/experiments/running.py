"""Running an experiment: every step after those that it needs."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from pact_eval._json import Json
from pact_eval.errors import GateError, InputError, PlanError, RunError, TamperedError
from pact_eval.experiments.acceptance import Acceptance, accept_adapter
from pact_eval.experiments.events import EVENTS, EventLog, Watcher
from pact_eval.experiments.executor import Ending, Execution, Executor, StepOrder
from pact_eval.experiments.outcome import ExperimentOutcome, StepOutcome
from pact_eval.experiments.preparing import PreparedExperiment, is_refused_registration
from pact_eval.experiments.processes import clear_step
from pact_eval.experiments.receipts import Receipt
from pact_eval.experiments.shared_folder import LOCK
from pact_eval.experiments.slots import Slots
from pact_eval.experiments.steps import Step, graph_of

_POLL_SECONDS: Final = 0.05
_OURS: Final = ("pact-eval", "pact-audit")
_GATES: Final = (GateError.exit_code, TamperedError.exit_code)


def run(
    experiment: PreparedExperiment, watcher: Watcher = lambda _event: None
) -> ExperimentOutcome:
    """Run the steps that are missing or changed.

    Ctrl-C and SIGTERM end the processes; what they have written stays.

    Args:
        experiment: the experiment.
        watcher: gets each event.

    Raises:
        PlanError: files are missing.
        RunError: another process works in the folder.
        InputError: a step would write where files are that no step wrote.
        WorkerError: the Ray cluster cannot be reached, has no room, or does not share the folder.
        MissingExtraError: Ray is needed, and is not installed.
        KeyboardInterrupt: it was interrupted.
    """
    if experiment.files.missing:
        raise PlanError(str(experiment.plan.path), experiment.files.missing)
    experiment.folder.mkdir(parents=True, exist_ok=True)
    with locked(experiment.folder), _terminable():
        _refuse_foreign_files(experiment)
        events = EventLog(experiment.folder / EVENTS, watcher)
        names = [step.name for step in experiment.steps]
        with _executor(experiment) as executor:
            events.write("experiment", steps=[*names], slots=executor.parallel)
            outcome = _Run(experiment, events, executor).to_the_end()
        events.write("ended", exit_code=outcome.exit_code)
        return outcome


@contextmanager
def _executor(experiment: PreparedExperiment) -> Iterator[Executor]:
    """Open where the steps run."""
    if experiment.ray is None:
        yield Slots(experiment.slots)
        return
    from pact_eval.experiments.ray_tasks import ray_tasks  # loads Ray

    with ray_tasks(experiment, experiment.ray) as tasks:
        yield tasks


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time work in a folder.

    Raises:
        RunError: another one does.
    """
    from filelock import FileLock, Timeout  # slow to import

    try:
        with FileLock(folder / LOCK, timeout=0):
            yield
    except Timeout:
        message = f"{folder}: another pact-eval experiment works here; wait for it, or end it"
        raise RunError(message) from None


def _refuse_foreign_files(experiment: PreparedExperiment) -> None:
    """Refuse places of steps without a receipt that exist already: they are somebody else's.

    Raises:
        InputError: there are such places.
    """
    receipts = experiment.receipts
    places = [
        receipts.start / path
        for step in experiment.steps
        if receipts.written(step) is None
        for path in step.places
    ]
    foreign = [str(place) for place in places if place.exists() or place.is_symlink()]
    if foreign:
        message = (
            f"{', '.join(foreign)}: not written by this experiment, so not replaced; move it away, "
            "or give another folder with --out"
        )
        raise InputError(message)


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
class _Running:
    """A step that was given to the executor."""

    execution: Execution
    receipt: Receipt
    why: str

    @property
    def step(self) -> Step:
        return self.execution.order.step


@dataclass
class _Run:
    """One pass over the steps of an experiment."""

    experiment: PreparedExperiment
    events: EventLog
    executor: Executor
    outcomes: dict[str, StepOutcome] = field(default_factory=dict)
    running: list[_Running] = field(default_factory=list)

    def to_the_end(self) -> ExperimentOutcome:
        """Run every step, or say why it was not run."""
        graph, waiting = graph_of(self.experiment.steps), list[Step]()
        order = {step.name: number for number, step in enumerate(self.experiment.steps)}
        try:
            while graph.is_active():
                for step in self._ended():
                    graph.done(step.name)
                waiting += [self.experiment.steps[order[name]] for name in graph.get_ready()]
                waiting.sort(key=lambda step: order[step.name])
                over = self._start_waiting(waiting)
                if over is not None:
                    graph.done(over.name)
                elif self.running:
                    time.sleep(_POLL_SECONDS)
        except BaseException:  # Ctrl-C too: no process is left behind
            self._interrupt()
            raise
        outcomes = [self.outcomes[step.name] for step in self.experiment.steps]
        return self.experiment.outcome(outcomes)

    def _start_waiting(self, waiting: list[Step]) -> Step | None:
        """Start what can start, until a step is over without a start; return that step.

        What needs it may come before those that wait.
        """
        while waiting and (self._is_blocked(waiting[0]) or self.executor.has_room()):
            step = waiting.pop(0)
            if self._is_blocked(step) or not self._start(step):
                return step
        return None

    def _is_blocked(self, step: Step) -> bool:
        """Return whether a step that it needs has failed or was not run."""
        needed = [self.outcomes[name] for name in step.needs]
        lacking = [outcome for outcome in needed if outcome.state in ("failed", "not run")]
        if lacking and step.name not in self.outcomes:
            first = lacking[0]
            why = first.why if first.state == "not run" else f"needs {first.step.name}"
            self._note(StepOutcome(step, "not run", why))
        return bool(lacking)

    def _start(self, step: Step) -> bool:
        """Start a step, and return whether it runs now; otherwise its outcome is noted."""
        receipts = self.experiment.receipts
        expected = receipts.expected(step)
        standing = receipts.standing(step, expected)
        if standing.state == "done":
            self._note(self._up_to_date(step))
            return False
        timeout = self.experiment.plan.train.timeout_seconds if step.stage == "train" else None
        order = StepOrder(step, receipts.start, self.experiment.folder, timeout)
        begun = receipts.written(step) is not None
        if begun and (standing.state == "changed" or not step.resumes):
            try:
                clear_step(order)
            except RunError as error:
                self._note(StepOutcome(step, "failed", str(error), error.exit_code))
                return False
        receipts.start_step(expected)
        self.running.append(_Running(self.executor.start(order), expected, standing.why))
        return True

    def _up_to_date(self, step: Step) -> StepOutcome:
        """Return the outcome of a step that is done; with other data, its adapter is checked again.

        An adapter that was accepted may have been trained on what is evaluated now.
        """
        receipts = self.experiment.receipts
        if step.adapter is None or receipts.is_judged(step):
            return StepOutcome(step, "up to date")
        acceptance = self._accept(step.adapter)
        if acceptance.verdict != "accepted":
            return StepOutcome(step, "failed", acceptance.why, acceptance.exit_code)
        receipts.judge_again(step)
        return StepOutcome(step, "up to date", notes=acceptance.reasons)

    def _ended(self) -> Iterator[Step]:
        """Yield the steps whose command has ended, with their outcome noted."""
        for running in [*self.running]:
            for facts in running.execution.new_starts():
                self.events.write("started", running.step.name, why=running.why, **facts)
            ending = running.execution.poll()
            if ending is not None:
                self.running.remove(running)
                self._note(self._outcome(running, ending))
                yield running.step

    def _outcome(self, running: _Running, ending: Ending) -> StepOutcome:
        step, log = running.step, running.execution.log
        acceptance = Acceptance("accepted")
        why, exit_code = ending.why, self._exit_code(step, ending.code)
        if not why and step.adapter is not None:
            acceptance = self._accept(step.adapter)
        if acceptance.verdict != "accepted":
            why, exit_code = acceptance.why, acceptance.exit_code
        if why:
            lines = ending.log_lines
            return StepOutcome(step, "failed", why, exit_code, ending.seconds, log, lines)
        self.experiment.receipts.finish_step(step, running.receipt)
        return StepOutcome(step, "done", seconds=ending.seconds, log=log, notes=acceptance.reasons)

    def _exit_code(self, step: Step, code: int) -> int:
        """Return what the experiment exits with because of a command that failed.

        Only our own commands fail gates.
        """
        if step.words[0] not in _OURS:
            return InputError.exit_code
        if step.stage == "register" and code == InputError.exit_code:
            files = [self._place(path) for path in (*step.outputs, *step.inputs)]
            if is_refused_registration(*files):
                return TamperedError.exit_code
        return code if code in _GATES else InputError.exit_code

    def _accept(self, adapter: Path) -> Acceptance:
        base = self.experiment.files.base
        return accept_adapter(
            self._place(adapter),
            base=None if base is None else self._place(base),
            data=self._place(self.experiment.plan.data.folder),
        )

    def _place(self, path: Path) -> Path:
        return self.experiment.receipts.start / path

    def _note(self, outcome: StepOutcome) -> None:
        self.outcomes[outcome.step.name] = outcome
        facts: dict[str, Json] = {
            "why": outcome.why,
            "exit_code": outcome.exit_code,
            "seconds": None if outcome.seconds is None else round(outcome.seconds, 3),
            "notes": [*outcome.notes],
        }
        kept = {name: fact for name, fact in facts.items() if fact not in ("", 0, None, [])}
        self.events.write(outcome.state, outcome.step.name, **kept)

    def _interrupt(self) -> None:
        """End all commands: first ask all of them, then wait for each."""
        for running in self.running:
            running.execution.stop()
        for running in self.running:
            running.execution.join()
            self.events.write("interrupted", running.step.name)
        self.events.write("ended", exit_code=1)
