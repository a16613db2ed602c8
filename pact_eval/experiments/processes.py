"""Processes of steps: started under a supervisor, timed, ended with all that they started."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pact_eval._json import Json
from pact_eval.errors import RunError
from pact_eval.experiments import supervise
from pact_eval.experiments.executor import Ending, StepOrder, code_in_words
from pact_eval.experiments.steps import Step

GRACE_SECONDS: Final = 20.0
"""Time that a command has to save a checkpoint after SIGTERM."""

LOG_LINES: Final = 20
"""Lines of the log of a failed step that the summary has."""

_MODULES: Final = {"pact-eval": "pact_cli", "pact-audit": "pact_cli.audit"}
_LATE_SECONDS: Final = 5.0
_TAIL_BYTES: Final = 1 << 16


@dataclass
class StepProcess:
    """The process of a step: an `Execution` on this machine.

    Attributes:
        order: what runs.
        log: its log.
        started: when it started, in seconds of a monotonic clock.
        process: leader of the group of all that it starts, with its supervisor.
        stdout: (temporary file, file) of an output that is the standard output.
        offset: size of the log before the start, in bytes.
        starts: facts of its start that nobody has asked for yet.
        timed_out: whether it was asked to end because of its time.
        is_over: whether it has ended.
    """

    order: StepOrder
    log: Path
    started: float
    process: subprocess.Popen[bytes]
    stdout: tuple[Path, Path] | None
    offset: int
    starts: list[Mapping[str, Json]]
    timed_out: bool = field(default=False)
    is_over: bool = field(default=False)

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self.started

    def new_starts(self) -> Iterator[Mapping[str, Json]]:
        """Yield the facts of its start once."""
        while self.starts:
            yield self.starts.pop()

    def poll(self) -> Ending | None:
        """Return how it has ended; None while it runs. A command over its time is ended."""
        limit = self.order.timeout_seconds
        over = limit is not None and self.seconds > limit
        if over and not self.timed_out and self.process.poll() is None:
            self.timed_out = True
            self.stop()
        if self.timed_out and self.seconds > (limit or 0) + GRACE_SECONDS + _LATE_SECONDS:
            self._end_group()  # the supervisor itself does not answer
        code = self.process.poll()
        if code is None:
            return None
        self.stop()
        self._end_group()
        self.is_over = True
        return self._ending(code)

    def stop(self) -> None:
        """Ask the supervisor to end the command: SIGTERM, some time, SIGKILL."""
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()

    def join(self) -> None:
        """Wait until a command that was stopped has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_SECONDS + _LATE_SECONDS)
        self._end_group()
        self.process.wait()

    def _ending(self, code: int) -> Ending:
        why = "" if code == 0 else code_in_words(code)
        if self.timed_out:
            why = f"ended after {self.order.timeout_seconds:g} s, the timeout of the plan"
        if not why:
            if self.stdout is not None:
                self.stdout[0].replace(self.stdout[1])
            lacking = self.order.lacking()
            why = f"exit code 0, but no {', '.join(map(str, lacking))}" if lacking else ""
        return Ending(why, code, self.seconds, self._tail())

    def _tail(self) -> tuple[str, ...]:
        """Return the last lines of its standard output, which an audit writes to, and its log."""
        shown = () if self.stdout is None else log_tail(self.stdout[0])
        return (*shown, *log_tail(self.log, self.offset))[-LOG_LINES:]

    def _end_group(self) -> None:
        """Kill what the command has left behind, also if its supervisor was killed."""
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()


def log_tail(log: Path, offset: int = 0) -> tuple[str, ...]:
    """Return the last lines of a log, at most 20.

    Args:
        log: the log.
        offset: where to begin, in bytes.

    Examples:
        >>> log_tail(Path("no such log"))
        ()
    """
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(offset, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ()
    kept = [line.rstrip() for line in text.splitlines() if line.strip()]
    return tuple(kept[-LOG_LINES:])


def log_path(places: Path, step: Step) -> Path:
    """Return the log of a step in the folder of an experiment."""
    return places / "logs" / f"{step.name}.txt"


def start(
    order: StepOrder, environment: Mapping[str, str], facts: Mapping[str, Json]
) -> StepProcess:
    """Start the command of a step.

    Args:
        order: what runs.
        environment: of the process.
        facts: of the start: where it runs.
    """
    step, folder = order.step, order.folder
    log, lock = log_path(order.places, step), _lock_path(order.places, step)
    log.parent.mkdir(parents=True, exist_ok=True)
    if step.adapter is not None:  # the trainer makes the folder itself
        (folder / step.adapter).parent.mkdir(parents=True, exist_ok=True)
    supervisor = [sys.executable, "-P", supervise.__file__, str(lock.absolute())]
    command = [*supervisor, str(GRACE_SECONDS), *_program(step.words)]
    stdout: tuple[Path, Path] | None = None
    with ExitStack() as opened:
        written = opened.enter_context(log.open("ab"))
        written.write(f"$ {shlex.join(step.words)}\n".encode())
        written.flush()
        offset, target = written.tell(), written
        if step.stdout is not None:
            path = folder / step.stdout
            stdout = (path.with_name(f".{path.name}.part"), path)
            target = opened.enter_context(stdout[0].open("wb"))
        process = subprocess.Popen(  # noqa: S603 -- the user's own command, without a shell
            command,
            cwd=folder,
            env={**environment},
            stdin=subprocess.PIPE,
            stdout=target,
            stderr=written,
            start_new_session=True,
        )
    return StepProcess(order, log, time.monotonic(), process, stdout, offset, [facts])


def clear_step(order: StepOrder) -> None:
    """Remove what an earlier start of a step left behind, once none of its processes is left.

    The supervisor of such a process holds the lock of the step until the process has ended.

    Args:
        order: the step.

    Raises:
        RunError: a process still works on it after 180 s; the message names it.
    """
    from filelock import FileLock, Timeout  # slow to import

    lock = _lock_path(order.places, order.step)
    try:
        with FileLock(lock, timeout=supervise.LOCK_SECONDS):
            for path in order.step.places:
                _remove(order.folder / path)
    except Timeout:
        raise RunError(supervise.still_held(str(lock))) from None


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _lock_path(places: Path, step: Step) -> Path:
    """Return the lock of a step; its folder exists."""
    folder = places / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{step.name}.lock"


def _program(words: tuple[str, ...]) -> list[str]:
    """Return the words with our own programs as modules of this Python.

    Examples:
        >>> _program(("pact-audit", "data"))[1:]
        ['-P', '-m', 'pact_cli.audit', 'data']
    """
    module = _MODULES.get(words[0])
    return [*words] if module is None else [sys.executable, "-P", "-m", module, *words[1:]]
