"""Progress of an experiment: arms by seeds, from its events, with the last numbers of trainings."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Final

from pact_eval._choices import ExperimentStage
from pact_eval._json import finite_number, loads
from pact_eval.experiments.events import Event
from pact_eval.experiments.steps import Step
from pact_eval.runs.training_log import LOG_NAME, SELECTION_NLL

_OVER: Final = ("done", "up to date", "failed", "not run")
_TAIL_BYTES: Final = 1 << 14
_LOSS: Final = "total"


@dataclass(frozen=True)
class LoggedNumbers:
    """The last numbers that a training has logged in its adapter folder.

    Attributes:
        step: number of the training step; None if there is no log.
        loss: total loss of that step; None if it is not logged.
        selection_nll_nats: last NLL on the selection split; None if it is not logged.
    """

    step: int | None = None
    loss: float | None = None
    selection_nll_nats: float | None = None


def last_logged(folder: Path) -> LoggedNumbers:
    """Return the last numbers of `log.jsonl` in an adapter folder that is being written.

    Lines that cannot be read are left out: the trainer may be writing the last one.

    Args:
        folder: the adapter folder; it may not exist yet.

    Examples:
        >>> last_logged(Path("no such adapter"))
        LoggedNumbers(step=None, loss=None, selection_nll_nats=None)
    """
    try:
        with (folder / LOG_NAME).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return LoggedNumbers()
    numbers: dict[str, float] = {}
    for line in lines:
        numbers |= dict(_numbers(line))
    step = numbers.get("step")
    return LoggedNumbers(
        None if step is None else int(step), numbers.get(_LOSS), numbers.get(SELECTION_NLL)
    )


def _numbers(line: str) -> Iterator[tuple[str, float]]:
    try:
        value = loads(line)
    except ValueError:
        return
    if isinstance(value, dict):
        for name, number in value.items():
            finite = finite_number(number)
            if finite is not None:
                yield name, finite


@dataclass(frozen=True)
class TimeLeft:
    """Estimate of the time that an experiment still takes.

    Attributes:
        seconds: the estimate.
        is_least: whether stages are left that no step has finished: they are not counted.
    """

    seconds: float
    is_least: bool


@dataclass
class ExperimentProgress:
    """State of each step, from the events so far.

    Attributes:
        steps: the steps in order.
        start: folder of the plan, where the paths of steps start.
        slots: number of steps at a time, until the experiment says it.
        states: state of each step that has one, by name.
        started: start of each running step, in seconds of a monotonic clock.
        seconds: times of finished steps by stage.
    """

    steps: Sequence[Step]
    start: Path
    slots: int
    states: dict[str, str] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)
    seconds: dict[ExperimentStage, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_name = {step.name: step for step in self.steps}

    def remember(self, events: Path) -> None:
        """Take over the times of steps that earlier commands have done.

        Args:
            events: their events; lines that cannot be read are left out.
        """
        try:
            lines = events.read_text("utf-8", errors="replace").splitlines()
        except OSError:
            return
        for line in lines:
            try:
                event = loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and event.get("event") == "done":
                self._take_time(str(event.get("step")), event.get("seconds"))

    def see(self, event: Event) -> None:
        """Take over an event."""
        if event.name == "experiment" and isinstance(count := event.facts.get("slots"), int):
            self.slots = count
        if event.step is None or event.step not in self._by_name:
            return
        self.states[event.step] = event.name
        if event.name == "started":
            self.started[event.step] = time.monotonic()
            return
        self.started.pop(event.step, None)
        if event.name == "done":
            self._take_time(event.step, event.facts.get("seconds"))

    def _take_time(self, name: str, value: object) -> None:
        step, seconds = self._by_name.get(name), finite_number(value)
        if step is not None and seconds is not None:
            self.seconds.setdefault(step.stage, []).append(seconds)

    @property
    def over(self) -> int:
        """Number of steps that are over."""
        return sum(state in _OVER for state in self.states.values())

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, the base model first if it has steps."""
        return tuple(dict.fromkeys(step.model for step in self.steps if step.model is not None))

    def seed(self, model: str | None) -> int | None:
        """Return the seed of a model; None for the base model, and for no model."""
        trainings = (step.training for step in self._of(model))
        return next((training.seed for training in trainings if training is not None), None)

    def running(self, model: str | None) -> Step | None:
        """Return the running step of a model, or of the experiment itself for None."""
        return next((step for step in self._of(model) if step.name in self.started), None)

    def done_of(self, model: str | None) -> tuple[int, int]:
        """Return how many steps of a model are over, and how many it has."""
        steps = self._of(model)
        return sum(self.states.get(step.name) in _OVER for step in steps), len(steps)

    def has_failed(self, model: str | None) -> bool:
        """Return whether a step of a model has failed."""
        return any(self.states.get(step.name) == "failed" for step in self._of(model))

    def logged(self, step: Step) -> LoggedNumbers:
        """Return the last numbers of a training."""
        return LoggedNumbers() if step.adapter is None else last_logged(self.start / step.adapter)

    def time_left(self) -> TimeLeft | None:
        """Return the time left, from the mean time of finished steps of the same stage.

        None as long as no stage that is left has a finished step.
        """
        left = [step for step in self.steps if self.states.get(step.name) not in _OVER]
        timed = [step for step in left if step.stage in self.seconds]
        if left and not timed:
            return None
        now, total = time.monotonic(), 0.0
        for step in timed:
            mean = fmean(self.seconds[step.stage])
            total += max(0.0, mean - (now - self.started.get(step.name, now)))
        return TimeLeft(total / self.slots, is_least=len(timed) < len(left))

    def _of(self, model: str | None) -> list[Step]:
        return [step for step in self.steps if step.model == model]
