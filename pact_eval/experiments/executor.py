"""Executors of steps: one interface for slots on this machine and tasks on a Ray cluster.

    executor.start(order) -> execution;  execution.poll() -> ending, or None while it runs

`running` decides which step is next. An executor says whether it takes one more, and runs its
command under a supervisor (`processes`), here or on another machine.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pact_eval._json import Json
from pact_eval.experiments.steps import Step


@dataclass(frozen=True)
class StepOrder:
    """Order to run a step, which may be sent to another machine.

    Attributes:
        step: the step.
        folder: folder of the plan, where its command runs.
        places: folder of the experiment, with the folders of logs and locks.
        timeout_seconds: longest time of the command; None for no limit.
    """

    step: Step
    folder: Path
    places: Path
    timeout_seconds: float | None = None

    def lacking(self) -> list[Path]:
        """Return the outputs that do not exist here."""
        return [path for path in self.step.outputs if not (self.folder / path).exists()]


@dataclass(frozen=True)
class Ending:
    """End of the command of a step.

    Attributes:
        why: why the step has failed; "" if the command has written what it must.
        code: exit code of the command; 1 if it was lost.
        seconds: time that it took.
        log_lines: last lines of its log.
    """

    why: str
    code: int
    seconds: float
    log_lines: tuple[str, ...] = ()


class Execution(Protocol):
    """A step that was given to an executor."""

    @property
    def order(self) -> StepOrder:
        """What runs."""

    @property
    def log(self) -> Path:
        """Its log."""

    def new_starts(self) -> Iterator[Mapping[str, Json]]:
        """Yield facts of each start of the command since the last call: where it runs."""

    def poll(self) -> Ending | None:
        """Return how the command has ended; None while it runs or waits."""

    def stop(self) -> None:
        """Ask the command to end: SIGTERM, some time, SIGKILL."""

    def join(self) -> None:
        """Wait until a command that was stopped has ended, with all that it started."""


class Executor(Protocol):
    """A place where steps run."""

    @property
    def parallel(self) -> int:
        """Number of trainings that run at a time, at least 1."""

    def has_room(self) -> bool:
        """Return whether it takes one more step now."""

    def start(self, order: StepOrder) -> Execution:
        """Take a step."""


def code_in_words(code: int) -> str:
    """Return the exit code of a supervised command in words.

    Examples:
        >>> code_in_words(2), code_in_words(137)
        ('exit code 2', 'ended by signal 9 (SIGKILL)')
    """
    number = -code if code < 0 else code - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"exit code {code}"
    return f"ended by signal {number} ({name})"
