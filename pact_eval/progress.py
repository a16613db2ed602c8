"""Progress: the steps that the library is in, how much of each is done, and the files it wrote.

Functions that take long name their steps. Somebody may watch: the commands draw bars. Nobody does
by default, and then a step costs a microsecond.

    with watched(observer):
        audit_data(...)

    with step("Comparing contexts", total=10_000, unit="contexts") as comparing:
        comparing.done += 2_500

Progress does not affect any result. Therefore it is not an argument of every function between a
command and a loop, but a context variable. Threads do not inherit it: only the thread that started
watching has steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeVar

Item = TypeVar("Item")


@dataclass(eq=False, slots=True)
class Step:
    """One step of a computation.

    Attributes:
        name: what is done, such as "Comparing contexts".
        total: how much there is to do; None if unknown.
        unit: what `total` counts, in the plural; "bytes" and "parts" are not written as such.
        done: how much is done; the code inside the step raises it.
        counts: how much of the `total` of the step around it this one is; None for its own total
            if both have one unit that is not "parts", and otherwise for nothing.
        inside: the step within this one that is open, or None.
        numbers: what is known of the result so far, by name: shares in [0, 1], such as accuracy.
    """

    name: str
    total: float | None = None
    unit: str = "parts"
    done: float = 0
    counts: float | None = None
    inside: Step | None = field(default=None, repr=False)
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def reached(self) -> float:
        """Amount done, with the share of the open step inside that counts here.

        Examples:
            >>> figures = Step("Figures", total=4, done=2, counts=50)
            >>> Step("Page", total=100, done=20, inside=figures).reached
            45.0
        """
        inner = self.inside
        if inner is None:
            return self.done
        return self.done + self.counted(inner) * (inner.share or 0.0)

    @property
    def share(self) -> float | None:
        """The share that is done, in [0, 1]; without a total, that of the step inside, or None.

        Examples:
            >>> Step("Reading", total=8, done=2).share, Step("Loading").share
            (0.25, None)
        """
        inner = self.inside
        if self.total is None:
            return None if inner is None else inner.share
        return min(1.0, self.reached / self.total) if self.total > 0 else 1.0

    def counted(self, inner: Step) -> float:
        """Return how much of the total a step inside is."""
        if inner.counts is not None:
            return inner.counts
        alike = self.unit == inner.unit != "parts"
        return inner.total if alike and inner.total is not None else 0.0


class Observer(Protocol):
    """Sees steps and files; `Step.done` is read whenever it likes, also from another thread."""

    def started(self, step: Step, depth: int) -> None:
        """See a step begin; a step inside `depth` others."""

    def ended(self, depth: int, *, failed: bool) -> None:
        """See the step inside `depth` others end; `failed` if an exception has ended it."""

    def wrote(self, path: Path) -> None:
        """See that a file was written and is complete."""

    def waits(self, what: str) -> None:
        """See what the step waits for; called several times a second while it does."""


@dataclass(eq=False, slots=True)
class _Watch:
    """An observer, and the open steps, the outermost first."""

    observer: Observer
    steps: list[Step] = field(default_factory=list)

    def start(self, step: Step) -> None:
        if self.steps:
            self.steps[-1].inside = step
        self.steps.append(step)
        self.observer.started(step, len(self.steps) - 1)

    def end(self, step: Step, *, failed: bool) -> None:
        if step not in self.steps:  # a generator that was closed after the steps around it
            return
        depth = self.steps.index(step)
        del self.steps[depth:]
        if depth:
            outer = self.steps[-1]
            outer.inside = None
            outer.done += outer.counted(step)
        self.observer.ended(depth, failed=failed)


_WATCH: Final[ContextVar[_Watch | None]] = ContextVar("pact_eval.progress", default=None)


@contextmanager
def watched(observer: Observer) -> Iterator[None]:
    """Let an observer see the steps of the block.

    Args:
        observer: sees them instead of an observer around the block.
    """
    token = _WATCH.set(_Watch(observer))
    try:
        yield
    finally:
        _WATCH.reset(token)


@contextmanager
def step(
    name: str,
    total: float | None = None,
    unit: str = "parts",
    *,
    done: float = 0,
    counts: float | None = None,
) -> Iterator[Step]:
    """Be in a step during the block, which raises `done` of the step that it gets.

    Args:
        name: what is done, such as "Comparing contexts".
        total: how much there is to do; None if unknown.
        unit: what `total` counts, in the plural.
        done: how much was done before, which is not progress of this step.
        counts: how much of the step around it this one is; None for its own total if both have one
            unit that is not "parts", and otherwise for nothing.

    Examples:
        >>> with step("Comparing", total=4, unit="contexts") as comparing:
        ...     comparing.done += 1
        >>> comparing.share
        0.25
    """
    opened = Step(name, total, unit, done, counts)
    watch = _WATCH.get()
    if watch is None:
        yield opened
        return
    failed = True
    try:
        watch.start(opened)
        yield opened
        failed = False
    finally:
        watch.end(opened, failed=failed)


def tracked(
    items: Iterable[Item],
    name: str,
    unit: str,
    *,
    total: float | None = None,
    counts: float | None = None,
) -> Iterator[Item]:
    """Yield items in a step; an item is done when the next one is asked for.

    Args:
        items: what is yielded.
        name: name of the step.
        unit: what the items are, in the plural.
        total: their number; None takes their length, if they have one.
        counts: as for `step`.

    Examples:
        >>> list(tracked("ab", "Reading", "letters"))
        ['a', 'b']
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    with step(name, total, unit, counts=counts) as opened:
        for item in items:
            yield item
            opened.done += 1


def wrote(path: Path) -> None:
    """Tell the observer that a file was written and is complete."""
    watch = _WATCH.get()
    if watch is not None:
        watch.observer.wrote(path)


def waiting(what: str) -> None:
    """Tell the observer what the step waits for, such as a server, and until when."""
    watch = _WATCH.get()
    if watch is not None:
        watch.observer.waits(what)
