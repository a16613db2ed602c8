"""Running an experiment: every step after those that it needs, several at a time."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, Final, Protocol

from pact_eval._choices import ExperimentStage
from pact_eval.errors import GateError, InputError, TamperedError, WorkerError, counted, ray_extra
from pact_eval.experiments.plan import Reserved, step_environment
from pact_eval.experiments.steps import ExperimentOutcome, PlannedExperiment, Step, StepOutcome
from pact_eval.scoring.workers.cluster import first_line, import_ray, joined

GRACE_SECONDS: Final = 20.0
"""Time that a command has to save a checkpoint after SIGTERM."""

_MODULES: Final = {"pact-eval": "pact_cli", "pact-audit": "pact_cli.audit"}
_CANNOT_START: Final = 127
_SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")
_SUPERVISED: Final = sys.platform == "linux"
_SUPERVISOR_SECONDS: Final = 10.0  # to kill what is left after the grace
_GONE_SECONDS: Final = 5.0  # for a killed process to disappear
_KILL: Final[int] = getattr(signal, "SIGKILL", signal.SIGTERM)
_TAIL_BYTES: Final = 1 << 16
_TAIL_LINES: Final = 20


@dataclass(frozen=True)
class StepOrder:
    """Order to run a step, which may be sent to another machine.

    Attributes:
        step: the step.
        folder: folder of the plan, where its command runs.
        log: file that its output is added to.
        is_changed: whether the log is of another command, and starts anew.
        timeout_seconds: longest time of the command; None for no limit.
    """

    step: Step
    folder: Path
    log: Path
    is_changed: bool = False
    timeout_seconds: float | None = None


@dataclass(frozen=True)
class Ending:
    """End of the command of a step.

    Attributes:
        why: why the step has failed; "" if the command has written what it must.
        code: exit code of the command; 1 if it was lost.
        seconds: time that it took.
    """

    why: str
    code: int
    seconds: float


class StepProcess:
    """A step that runs on this machine, in a session of its own.

    On Linux, `supervisor.py` starts the command, and ends what it has started, also if this process
    is killed. On other systems, what has left the session of the command is not found.

    Args:
        order: what runs.
        environment: of its process.

    Attributes:
        order: what runs.
        is_over: whether it has ended.
    """

    def __init__(self, order: StepOrder, environment: Mapping[str, str]) -> None:
        self.order, step = order, order.step
        self.is_over = False
        self._started, self._timed_out = time.monotonic(), False
        self._process: subprocess.Popen[bytes] | None = None
        module = _MODULES.get(step.words[0])
        words = [sys.executable, "-P", "-m", module, *step.words[1:]] if module else [*step.words]
        if _SUPERVISED:
            words[:0] = [sys.executable, "-I", "-S", str(_SUPERVISOR), str(GRACE_SECONDS)]
        order.log.parent.mkdir(parents=True, exist_ok=True)
        if step.outputs:
            (order.folder / step.place).parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            log = files.enter_context(order.log.open("ab"))
            self._is_free = _lock(log)
            if not self._is_free:
                return
            if order.is_changed:
                log.truncate(0)
            log.write(f"$ {shlex.join(step.words)}\n".encode())
            log.flush()
            out = files.enter_context(self._part.open("wb")) if step.stdout is not None else log
            try:
                self._process = subprocess.Popen(  # noqa: S603 -- the user's own, without a shell
                    words,
                    cwd=order.folder,
                    env={**environment},
                    stdin=subprocess.PIPE if _SUPERVISED else subprocess.DEVNULL,
                    stdout=out,
                    stderr=log,
                    start_new_session=True,
                )
            except OSError as error:
                log.write(f"{words[0]}: cannot be started: {error.strerror}\n".encode())

    @property
    def _part(self) -> Path:
        return self.order.folder / f"{self.order.step.stdout}.part"

    def poll(self) -> Ending | None:
        """Return how it has ended; None while it runs. A command over its time is ended."""
        limit, seconds = self.order.timeout_seconds, time.monotonic() - self._started
        if limit is not None and seconds > limit and not self._timed_out:
            self._timed_out = True
            self.stop()
            self.join()
        code = _CANNOT_START if self._process is None else self._process.poll()
        if code is None:
            return None
        self._end()
        self.is_over = True
        return Ending(self._failure(code), code, seconds)

    def stop(self) -> None:
        """Ask the command, and all that it started, to end."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()  # which its supervisor waits for
        else:
            self._signal(signal.SIGTERM)

    def join(self) -> None:
        """Wait until a command that was stopped has ended, and kill it after some time."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS + (_SUPERVISOR_SECONDS if _SUPERVISED else 0))
            self._end()
            self._process.wait()

    def _end(self) -> None:
        """End what is left of the session, and close the pipe of the supervisor."""
        self._signal(_KILL)
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def _signal(self, number: int) -> None:
        if self._process is not None and hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
        elif self._process is not None:
            self._process.terminate()

    def _failure(self, code: int) -> str:
        """Return why it has failed; "" if it has not. Its standard output is complete then."""
        if not self._is_free:
            return "another process runs this step, or ends it after a kill; wait, then repeat"
        if self._timed_out:
            return f"ended after {self.order.timeout_seconds:g} s, the timeout of the plan"
        if code:
            return code_in_words(code)
        if self.order.step.stdout is not None:
            self._part.replace(self.order.folder / self.order.step.stdout)
        lacking = [p for p in self.order.step.outputs if not (self.order.folder / p).exists()]
        return f"exit code 0, but no {', '.join(map(str, lacking))}" if lacking else ""


def _lock(log: BinaryIO) -> bool:
    """Lock a log as long as a process of its step has it open; return whether nobody else has.

    Two programs that run one plan would otherwise train into one folder. A process that was killed
    has some time to disappear. Without locks in the system or on the disk, nothing is known of
    others.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    deadline = time.monotonic() + _GONE_SECONDS
    while True:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        except OSError:
            return True
        else:
            return True


def code_in_words(code: int) -> str:
    """Return the exit code of a process in words.

    Examples:
        >>> code_in_words(2), code_in_words(-9)
        ('exit code 2', 'ended by signal 9 (SIGKILL)')
    """
    try:
        return f"ended by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"exit code {code}"


def last_lines(*files: Path) -> tuple[str, ...]:
    """Return the last lines of files, one after the other: at most 20.

    Examples:
        >>> last_lines(Path("no such log"))
        ()
    """
    lines: list[str] = []
    for file in files:
        with suppress(OSError):
            with file.open("rb") as opened:
                opened.seek(max(0, opened.seek(0, os.SEEK_END) - _TAIL_BYTES))
                text = opened.read().decode("utf-8", errors="replace")
            lines += [line.rstrip() for line in text.splitlines() if line.strip()]
    return tuple(lines[-_TAIL_LINES:])


class Execution(Protocol):
    """A step that runs: a process here, or a task of Ray."""

    order: StepOrder

    def poll(self) -> Ending | None:
        """Return how it has ended; None while it runs or waits."""

    def stop(self) -> None:
        """Ask it to end."""

    def join(self) -> None:
        """Wait until it has ended after `stop`."""


Start = Callable[[StepOrder], Execution | None]
"""Starts a step on this machine or a cluster; None if there is no room for one more."""


def start_here(environments: Sequence[Mapping[str, str]]) -> Start:
    """Return what starts steps on this machine.

    Args:
        environments: the environment of each process at a time.
    """
    running: dict[int, StepProcess] = {}

    def start(order: StepOrder) -> StepProcess | None:
        """Start a step with the first environment that no other step uses."""
        for number, environment in enumerate(environments):
            if number not in running or running[number].is_over:
                running[number] = StepProcess(order, environment)
                return running[number]
        return None

    return start


_RAY_POLL_SECONDS: Final = 0.1
_FORCE_SECONDS: Final = GRACE_SECONDS + 15.0


@dataclass
class RayTask:
    """A step as a task: an `Execution` on a cluster.

    Attributes:
        ray: the connected Ray.
        order: what runs.
        call: the reference to its ending.
    """

    ray: Any
    order: StepOrder
    call: Any

    def poll(self) -> Ending | None:
        """Return how it has ended; None while it waits or runs."""
        if not self.ray.wait([self.call], timeout=0)[0]:
            return None
        try:
            ending: Ending = self.ray.get(self.call)
        except self.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            reason = first_line(cause if isinstance(cause, Exception) else error)
            return Ending(f"its Ray task failed: {reason}", InputError.exit_code, 0.0)
        return ending

    def stop(self) -> None:
        """Cancel it: Ray interrupts the task, which ends its command."""
        with suppress(self.ray.exceptions.RayError):
            self.ray.cancel(self.call)

    def join(self) -> None:
        """Wait until it has ended; a worker that does not answer is killed."""
        with suppress(self.ray.exceptions.RayError):
            if not self.ray.wait([self.call], timeout=_FORCE_SECONDS)[0]:
                self.ray.cancel(self.call, force=True)


def run_step(order: StepOrder, reserved: Reserved) -> Ending:
    """Run the command of a step in a Ray task, and return how it has ended.

    Args:
        order: what runs, with absolute paths.
        reserved: what Ray has reserved for it; without GPUs, it sees none.
    """
    gpus = None if reserved.gpus else ""
    process = StepProcess(order, step_environment(threads=reserved.cpus, gpus=gpus))
    try:
        while (ending := process.poll()) is None:
            time.sleep(_RAY_POLL_SECONDS)
    except BaseException:  # Ray cancels a task with KeyboardInterrupt
        process.stop()
        process.join()
        raise
    return ending


@contextmanager
def ray_tasks(experiment: PlannedExperiment, address: str) -> Iterator[Start]:
    """Connect to a cluster for the duration of the block, which gets what starts steps on it.

    Args:
        experiment: the experiment.
        address: a node of the cluster, as host:port, or "auto".

    Raises:
        WorkerError: the cluster cannot be reached, or has no room for a step.
        MissingExtraError: Ray is not installed.
    """
    with ray_extra():
        import_ray()
    with joined(address) as ray:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        has_gpus = any(node.get("GPU", 0) >= 1 for node in nodes)
        reserved: dict[ExperimentStage, Reserved] = {}
        for stage in {step.stage for step in experiment.steps}:
            reserved[stage] = experiment.plan.reserved(stage, has_gpus=has_gpus)
            _refuse_too_small(nodes, stage, reserved[stage], address)

        def start(order: StepOrder) -> RayTask:
            """Give a step to Ray, which lets it wait for room."""
            room = reserved[order.step.stage]
            task = ray.remote(run_step).options(
                name=order.step.name,
                num_cpus=room.cpus,
                num_gpus=room.gpus,
                max_retries=0,  # what a lost process has started may still run
                scheduling_strategy="SPREAD",
            )
            return RayTask(ray, order, task.remote(order, room))

        yield start


def _refuse_too_small(
    nodes: Sequence[Mapping[str, float]], stage: str, needed: Reserved, address: str
) -> None:
    """Refuse a cluster on which Ray would wait forever.

    Raises:
        WorkerError: no node has as much as a step needs.
    """
    sizes = [(int(node.get("CPU", 0)), int(node.get("GPU", 0))) for node in nodes]
    if not any(cpus >= needed.cpus and gpus >= (needed.gpus or 0) for cpus, gpus in sizes):
        cluster = "; ".join(f"{counted(c, 'CPU')} and {counted(g, 'GPU')}" for c, g in sizes)
        raise WorkerError(
            f"--ray {address}: {stage} needs {counted(needed.cpus, 'CPU')} and "
            f"{counted(needed.gpus or 0, 'GPU')} on one node; the nodes have {cluster}"
        )


_POLL_SECONDS: Final = 0.05
_OURS: Final = ("pact-eval", "pact-audit")
_GATES: Final = (GateError.exit_code, TamperedError.exit_code)


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
    here: AbstractContextManager[Start] = nullcontext(start_here(experiment.environments))
    place = here if experiment.ray is None else ray_tasks(experiment, experiment.ray)
    with _terminable(), place as start:
        return _Run(experiment, start, watcher).to_the_end()


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
    start: Start
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
                over = [*self._start_ready(ready), *self._collect_ended()]
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

    def _start_ready(self, ready: set[str]) -> Iterator[str]:
        """Start the steps that are ready, in order, and yield those that are over without a start.

        Args:
            ready: names of steps whose needs are over; those that were settled are removed.
        """
        for step in [step for step in self.experiment.steps if step.name in ready]:
            outcome = self._why_blocked(step) or self.experiment.standing(step)
            if outcome.state == "to do":
                full = len(self.running) == self.experiment.most
                execution = None if full else self.start(self._order(step))
                if execution is None:
                    return
                self.running.append(execution)
            else:
                self._note(outcome)
                yield step.name
            ready.remove(step.name)

    def _why_blocked(self, step: Step) -> StepOutcome | None:
        """Return the outcome of a step if one that it needs has failed or was not run."""
        for needed in (self.outcomes[name] for name in step.needs):
            if needed.state in ("failed", "not run"):
                why = needed.why if needed.state == "not run" else f"needs {needed.step.name}"
                return StepOutcome(step, "not run", why)
        return None

    def _order(self, step: Step) -> StepOrder:
        plan, log = self.experiment.plan, self.experiment.running_log(step)
        timeout = plan.train.timeout_seconds if step.stage == "train" else None
        changed = self.experiment.is_other_command(step)
        return StepOrder(step, plan.folder.absolute(), log.absolute(), changed, timeout)

    def _collect_ended(self) -> Iterator[str]:
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
