"""Running an experiment: steps in slots, each when those that it needs are done."""

from __future__ import annotations

import shutil
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
from pact_eval.experiments.outcome import ExperimentOutcome, StepOutcome
from pact_eval.experiments.preparing import PreparedExperiment, is_refused_registration
from pact_eval.experiments.processes import StepProcess, start, step_lock
from pact_eval.experiments.receipts import Receipt
from pact_eval.experiments.steps import Step, graph_of

LOG_LINES: Final = 20
"""Lines of the log of a failed step that the summary has."""

_POLL_SECONDS: Final = 0.05
_LOCK: Final = "experiment.lock"
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
        KeyboardInterrupt: it was interrupted.
    """
    if experiment.files.missing:
        raise PlanError(str(experiment.plan.path), experiment.files.missing)
    experiment.folder.mkdir(parents=True, exist_ok=True)
    with _locked(experiment.folder), _terminable():
        _refuse_foreign_files(experiment)
        events = EventLog(experiment.folder / EVENTS, watcher)
        names = [step.name for step in experiment.steps]
        events.write("experiment", steps=[*names], slots=len(experiment.slots))
        outcome = _Run(experiment, events).to_the_end()
        events.write("ended", exit_code=outcome.exit_code)
        return outcome


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time work in a folder.

    Raises:
        RunError: another one does.
    """
    from filelock import FileLock, Timeout  # slow to import

    try:
        with FileLock(folder / _LOCK, timeout=0):
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
class _Run:
    """One pass over the steps of an experiment."""

    experiment: PreparedExperiment
    events: EventLog
    outcomes: dict[str, StepOutcome] = field(default_factory=dict)
    running: dict[int, tuple[StepProcess, Receipt]] = field(default_factory=dict)

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

    def _has_room(self) -> bool:
        return len(self.running) < len(self.experiment.slots)

    def _start_waiting(self, waiting: list[Step]) -> Step | None:
        """Start what can start, until a step is over without a start; return that step.

        What needs it may come before those that wait.
        """
        while waiting and (self._is_blocked(waiting[0]) or self._has_room()):
            step = waiting.pop(0)
            if self._is_blocked(step) or not self._start(step):
                return step
        return None

    def _is_blocked(self, step: Step) -> bool:
        """Whether a step that it needs has failed or was not run; then it is not run either."""
        needed = [self.outcomes[name] for name in step.needs]
        lacking = [outcome for outcome in needed if outcome.state in ("failed", "not run")]
        if lacking and step.name not in self.outcomes:
            first = lacking[0]
            why = first.why if first.state == "not run" else f"needs {first.step.name}"
            self._note(StepOutcome(step, "not run", why))
        return bool(lacking)

    def _start(self, step: Step) -> bool:
        """Start a step, and return whether it runs now; otherwise it is up to date."""
        receipts = self.experiment.receipts
        expected = receipts.expected(step)
        standing = receipts.standing(step, expected)
        if standing.state == "done":
            self._note(StepOutcome(step, "up to date"))
            return False
        begun = receipts.written(step) is not None
        if begun and (standing.state == "changed" or not step.resumes):
            with step_lock(self.experiment.folder, step):  # an earlier process may still end
                for path in step.removes:
                    _remove(receipts.start / path)
        receipts.start_step(expected)
        slot = min({*range(len(self.experiment.slots))} - {*self.running})
        timeout = self.experiment.plan.train.timeout_seconds if step.stage == "train" else None
        process = start(
            step,
            folder=receipts.start,
            places=self.experiment.folder,
            environment=self.experiment.slots[slot],
            timeout_seconds=timeout,
        )
        self.running[slot] = process, expected
        self.events.write("started", step.name, why=standing.why, slot=slot)
        return True

    def _ended(self) -> Iterator[Step]:
        """Yield the steps whose process has ended, with their outcome noted."""
        for slot, (process, expected) in [*self.running.items()]:
            code = process.poll()
            if code is not None:
                del self.running[slot]
                self._note(self._outcome(process, expected, code))
                yield process.step

    def _outcome(self, process: StepProcess, expected: Receipt, code: int) -> StepOutcome:
        step = process.step
        if process.timed_out:
            why = f"ended after {process.timeout_seconds:g} s, the timeout of the plan"
            return self._failure(process, why, InputError.exit_code)
        if code != 0:
            return self._failure(process, _why(code), self._exit_code(step, code))
        process.keep_stdout()
        acceptance = Acceptance("accepted")
        lacking = [path for path in step.outputs if not (self._place(path)).exists()]
        if lacking:
            why = f"exit code 0, but no {', '.join(map(str, lacking))}"
            return self._failure(process, why, InputError.exit_code)
        if step.adapter is not None:
            acceptance = self._accept(step.adapter)
        if acceptance.verdict != "accepted":
            why = f"adapter not accepted: {'; '.join(acceptance.reasons)}"
            return self._failure(process, why, acceptance.exit_code)
        self.experiment.receipts.finish_step(step, expected)
        return StepOutcome(
            step, "done", seconds=process.seconds, log=process.log, notes=acceptance.reasons
        )

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

    def _failure(self, process: StepProcess, why: str, exit_code: int) -> StepOutcome:
        return StepOutcome(
            process.step,
            "failed",
            why,
            exit_code,
            process.seconds,
            process.log,
            process.tail(LOG_LINES),
        )

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
        """End all processes: first ask all of them, then wait for each."""
        for process, _ in self.running.values():
            process.stop()
        for process, _ in self.running.values():
            process.join()
            self.events.write("interrupted", process.step.name)
        self.events.write("ended", exit_code=1)


def _remove(path: Path) -> None:
    """Remove what an earlier start of a step left behind."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _why(code: int) -> str:
    """Return the exit code of a supervised command in words.

    Examples:
        >>> _why(2), _why(137)
        ('exit code 2', 'ended by signal 9 (SIGKILL)')
    """
    number = -code if code < 0 else code - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"exit code {code}"
    return f"ended by signal {number} ({name})"
