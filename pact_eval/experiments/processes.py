"""Processes of steps: started, timed, and ended with all that they started."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pact_eval.experiments.steps import Step

GRACE_SECONDS: Final = 20.0
"""Time that a command has to save a checkpoint after SIGTERM."""

_MODULES: Final = {"pact-eval": "pact_cli", "pact-audit": "pact_cli.audit"}
_CANNOT_START: Final = 127
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
        timeout_seconds: longest time of the command; None for no limit.
    """

    step: Step
    folder: Path
    log: Path
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
        module = _MODULES.get(step.words[0])
        words = [sys.executable, "-P", "-m", module, *step.words[1:]] if module else [*step.words]
        order.log.parent.mkdir(parents=True, exist_ok=True)
        if step.outputs:
            (order.folder / step.place).parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            log = files.enter_context(order.log.open("ab"))
            log.write(f"$ {shlex.join(step.words)}\n".encode())
            log.flush()
            out = files.enter_context(self._part.open("wb")) if step.stdout is not None else log
            self._process: subprocess.Popen[bytes] | None = None
            try:
                self._process = subprocess.Popen(  # noqa: S603 -- the user's own, without a shell
                    words,
                    cwd=order.folder,
                    env={**environment},
                    stdin=subprocess.DEVNULL,
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
        self._signal(_KILL)  # what the command has left behind
        self.is_over = True
        return Ending(self._failure(code), code, seconds)

    def stop(self) -> None:
        """Ask the command, and all that it started, to end."""
        self._signal(signal.SIGTERM)

    def join(self) -> None:
        """Wait until a command that was stopped has ended, and kill it after some time."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
            self._signal(_KILL)
            self._process.wait()

    def _signal(self, number: int) -> None:
        if self._process is not None and hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
        elif self._process is not None:
            self._process.terminate()

    def _failure(self, code: int) -> str:
        """Return why it has failed; "" if it has not. Its standard output is complete then."""
        if self._timed_out:
            return f"ended after {self.order.timeout_seconds:g} s, the timeout of the plan"
        if code:
            return code_in_words(code)
        if self.order.step.stdout is not None:
            self._part.replace(self.order.folder / self.order.step.stdout)
        lacking = [p for p in self.order.step.outputs if not (self.order.folder / p).exists()]
        return f"exit code 0, but no {', '.join(map(str, lacking))}" if lacking else ""


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
