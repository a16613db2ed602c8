"""Processes of steps: started under a supervisor, timed, ended with all that they started."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pact_eval.errors import RunError
from pact_eval.experiments import supervise
from pact_eval.experiments.steps import Step

GRACE_SECONDS: Final = 20.0
"""Time that a command has to save a checkpoint after SIGTERM."""

_MODULES: Final = {"pact-eval": "pact_cli", "pact-audit": "pact_cli.audit"}
_LATE_SECONDS: Final = 5.0
_TAIL_BYTES: Final = 1 << 16


@dataclass
class StepProcess:
    """The process of a step.

    Attributes:
        step: the step.
        log: its log.
        started: when it started, in seconds of a monotonic clock.
        timeout_seconds: its longest time; None for no limit.
        process: its supervisor, which leads the group of all that it starts.
        stdout: (temporary file, file) of an output that is the standard output.
        offset: size of the log before the start, in bytes.
    """

    step: Step
    log: Path
    started: float
    timeout_seconds: float | None
    process: subprocess.Popen[bytes]
    stdout: tuple[Path, Path] | None
    offset: int
    timed_out: bool = field(default=False)

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self.started

    def poll(self) -> int | None:
        """Return the exit code; None while it runs. A command over its time is ended."""
        over = self.timeout_seconds is not None and self.seconds > self.timeout_seconds
        if over and not self.timed_out and self.process.poll() is None:
            self.timed_out = True
            self.stop()
        late = GRACE_SECONDS + _LATE_SECONDS
        if self.timed_out and self.seconds > (self.timeout_seconds or 0) + late:
            self._end_group()  # the supervisor itself does not answer
        code = self.process.poll()
        if code is not None:
            self.stop()
            self._end_group()
        return code

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

    def keep_stdout(self) -> None:
        """Give an output that was the standard output its name."""
        if self.stdout is not None:
            self.stdout[0].replace(self.stdout[1])

    def tail(self, lines: int) -> tuple[str, ...]:
        """Return the last lines of its standard output and its log, at most `lines`."""
        texts = [_end_of(self.log, self.offset)]
        if self.stdout is not None:  # what an audit finds is there
            texts.insert(0, _end_of(self.stdout[0], 0))
        kept = [line.rstrip() for text in texts for line in text.splitlines() if line.strip()]
        return tuple(kept[-lines:])

    def _end_group(self) -> None:
        """Kill what the command has left behind, also if its supervisor was killed."""
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()


def _end_of(file: Path, offset: int) -> str:
    """Return the end of a file from an offset on, at most 64 KiB."""
    with file.open("rb") as opened:
        opened.seek(max(offset, opened.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return opened.read().decode("utf-8", errors="replace")


def start(
    step: Step,
    *,
    folder: Path,
    places: Path,
    environment: Mapping[str, str],
    timeout_seconds: float | None,
) -> StepProcess:
    """Start the command of a step.

    Args:
        step: the step.
        folder: the folder where it runs: that of the plan.
        places: folder of the experiment, with the folders of logs and locks.
        environment: of the process.
        timeout_seconds: its longest time; None for no limit.
    """
    logs, lock = places / "logs", _lock_path(places, step)
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{step.name}.txt"
    if step.adapter is not None:  # the trainer makes the folder itself
        (folder / step.adapter).parent.mkdir(parents=True, exist_ok=True)
    supervisor = [sys.executable, "-P", supervise.__file__, str(lock)]
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
    return StepProcess(step, log, time.monotonic(), timeout_seconds, process, stdout, offset)


@contextmanager
def step_lock(places: Path, step: Step) -> Iterator[None]:
    """Wait until no process of an earlier experiment works on a step, and keep others away.

    The supervisor of such a process holds the same lock until the process has ended.

    Args:
        places: folder of the experiment.
        step: the step.

    Raises:
        RunError: the process does not end.
    """
    from filelock import FileLock, Timeout  # slow to import

    path = _lock_path(places, step)
    try:
        with FileLock(path, timeout=GRACE_SECONDS + _LATE_SECONDS):
            yield
    except Timeout:
        message = f"{path}: another process still works on {step.name}; end it, or wait for it"
        raise RunError(message) from None


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
