"""A pool of workers: starts them, sends them windows, and compares those that replace lost ones."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

from pact_eval._json import Json, dumps, flat
from pact_eval.errors import WorkerError
from pact_eval.progress import step
from pact_eval.scoring.windows import Window
from pact_eval.scoring.workers.cluster import Cluster
from pact_eval.scoring.workers.messages import (
    WindowRows,
    WorkerDescription,
    WorkerFailure,
    WorkerOrder,
)

Caller = TypeVar("Caller")

DRIVER = "this process"


def check_agreement(
    settings: Mapping[str, Json],
    versions: Mapping[str, Json],
    workers: Mapping[str, WorkerDescription],
) -> None:
    """Check that workers have the model of the driver, and score alike.

    They must agree in the hashes of the weights and all else that identifies the model, the
    versions of the libraries, the device, the number of threads, and the engine with every number
    of its check.

    Args:
        settings: what identifies the model here.
        versions: versions of the libraries here.
        workers: the workers, by name.

    Raises:
        WorkerError: they do not agree; the message names the values and who has which.

    Examples:
        >>> one = WorkerDescription("a", 7, "cpu", 1, {}, {}, {"engine": {"name": "fork"}})
        >>> other = WorkerDescription("b", 8, "cpu", 1, {}, {}, {"engine": {"name": "naive"}})
        >>> check_agreement({}, {}, {"worker 1": one})
        >>> check_agreement({}, {}, {"worker 1": one, "worker 2": other})
        Traceback (most recent call last):
            ...
        pact_eval.errors.WorkerError: workers do not agree; nothing more was scored:
          facts.engine.name: "fork" on worker 1 (a, process 7); "naive" on worker 2 (b, process 8)
    """
    facts = {DRIVER: flat({"settings": dict(settings), "versions": dict(versions)})}
    for name, worker in workers.items():
        known: dict[str, Json] = asdict(worker)
        who = f"{name} ({known.pop('host')}, process {known.pop('pid')})"
        facts[who] = flat(known)
    lines = []
    for key in sorted({key for values in facts.values() for key in values}):
        by_value: dict[str, list[str]] = {}
        for who, values in facts.items():
            # The driver has settings and versions alone.
            if who != DRIVER or key.startswith(("settings.", "versions.")):
                by_value.setdefault(dumps(values.get(key)), []).append(who)
        if len(by_value) > 1:
            each = [f"{value} on {', '.join(names)}" for value, names in by_value.items()]
            lines.append(f"  {key}: {'; '.join(each)}")
    if lines:
        raise WorkerError("workers do not agree; nothing more was scored:\n" + "\n".join(lines))


_POLL_SECONDS: Final = 0.5
_START_SECONDS: Final = 1800.0

MOST_FAILURES: Final = 3
"""A window that fails so many times stops the run."""


@dataclass(eq=False)
class Worker:
    """A process that scores windows.

    Attributes:
        name: such as "worker 1"; a process that replaces it has a new name.
        description: what it is.
        windows: number of windows that it has scored.
        items: number of records in them.
        seconds: time that it spent on them.
        lost: why it is gone; None if it is not.
    """

    name: str
    description: WorkerDescription
    windows: int = 0
    items: int = 0
    seconds: float = 0.0
    lost: str | None = None

    @property
    def label(self) -> str:
        """Its name and its process, in messages."""
        return f"{self.name} ({self.description.host}, process {self.description.pid})"

    def add(self, window: Window, rows: WindowRows) -> None:
        """Count a window that it has scored."""
        self.windows += 1
        self.items += len(window.records)
        self.seconds += rows.seconds

    @property
    def facts(self) -> dict[str, Json]:
        """Its record in `run.json`."""
        description: dict[str, Json] = asdict(self.description)
        counts = {"windows": self.windows, "items": self.items, "seconds": round(self.seconds, 3)}
        return {"name": self.name, **description, **counts, "lost": self.lost}


@dataclass(frozen=True)
class PoolProgress:
    """Progress of a pool.

    Attributes:
        windows_left: number of windows that are not scored.
        items_left: number of records in these.
        items_per_second: rate of each worker that has scored a window, by its name.
    """

    windows_left: int
    items_left: int
    items_per_second: Mapping[str, float]

    @property
    def seconds_left(self) -> float | None:
        """Time left at the rate of all workers; None before anything was scored.

        Examples:
            >>> PoolProgress(4, 200, {"worker 1": 3.0, "worker 2": 2.0}).seconds_left
            40.0
        """
        rate = sum(self.items_per_second.values())
        return self.items_left / rate if rate > 0 else None


@dataclass(eq=False)
class WorkerPool:
    """Workers that score windows.

    If the process of a worker dies, Ray starts another one, and an idle worker gets its window. The
    new process is compared with the others before it scores.

    Attributes:
        cluster: the Ray that runs them.
        order: what each of them loads.
        settings: what identifies the model here; each worker must have the same.
        versions: versions of the libraries here; likewise.
        on_change: called when a process has started or one was lost.
        on_progress: called when a window is done.
        workers: all processes so far, lost ones included.
    """

    cluster: Cluster
    order: WorkerOrder
    settings: Mapping[str, Json]
    versions: Mapping[str, Json]
    on_change: Callable[[], None] = lambda: None
    on_progress: Callable[[PoolProgress], None] = lambda _progress: None
    workers: list[Worker] = field(default_factory=list)
    _actors: list[Any] = field(default_factory=list)
    _current: dict[Any, Worker] = field(default_factory=dict)

    def start(self) -> None:
        """Start the workers, and wait until every one is ready.

        Raises:
            WorkerError: a worker cannot be used, or they do not agree.
        """
        with step("Starting workers", self.cluster.count, "workers") as starting:
            self._actors = [self.cluster.new_worker(self.order) for _ in range(self.cluster.count)]
            calls = {self.cluster.start(actor): actor for actor in self._actors}
            latest = time.monotonic()
            while calls:
                for actor, reply in self._replies(calls):
                    self._note_start(actor, reply)
                    starting.done += 1
                    latest = time.monotonic()
                if time.monotonic() - latest > _START_SECONDS:
                    message = f"no worker was ready within {_START_SECONDS / 60:.0f} minutes"
                    raise WorkerError(message)
        self._compare()

    def score(self, windows: Sequence[Window]) -> Iterator[tuple[Window, WindowRows]]:
        """Score windows.

        Args:
            windows: the windows, in file order.

        Yields:
            Each window once, with its rows, as soon as they are there.

        Raises:
            WorkerError: a window has failed three times, or a worker cannot be replaced.
        """
        waiting, idle = deque(windows), [*self._actors]
        left = {window.number: window for window in windows}
        calls: dict[Any, tuple[Any, Window | None]] = {}
        failures: Counter[int] = Counter()
        while left:
            while idle and waiting:
                actor, window = idle.pop(), waiting.popleft()
                call = actor.score.remote(window.number, tuple(window.records))
                calls[call] = actor, window
            for (actor, scored), reply in self._replies(calls):
                if scored is None:
                    self._note_start(actor, reply)
                    self._compare()
                elif isinstance(reply, WindowRows):
                    del left[scored.number]
                    self._current[actor].add(scored, reply)
                    self.on_progress(self._progress(left.values()))
                    yield scored, reply
                else:
                    failures[scored.number] += 1
                    if failures[scored.number] == MOST_FAILURES:
                        ids = ", ".join(record.id for record in scored.records)
                        raise WorkerError(
                            f"window {scored.number} has failed {MOST_FAILURES} times, last: "
                            f"{self._current[actor].label}: {reply}; windows that are written are "
                            f"kept. Its records: {ids}"
                        )
                    waiting.appendleft(scored)
                    if not isinstance(reply, WorkerFailure) or not reply.checked:
                        # Another worker may score the window before this one is back.
                        self._restart(actor, reply)
                        calls[self.cluster.start(actor)] = actor, None
                        continue
                idle.append(actor)

    def close(self) -> None:
        """End all workers."""
        for actor in self._actors:
            self.cluster.kill(actor)

    def _replies(self, calls: dict[Any, Caller]) -> Iterator[tuple[Caller, object]]:
        """Yield who has replied, and what, after a short wait; their calls are done."""
        for call in self.cluster.ready(list(calls), _POLL_SECONDS):
            yield calls.pop(call), self.cluster.reply(call)

    def _note_start(self, actor: Any, reply: object) -> None:
        """Note the process that has started.

        Raises:
            WorkerError: it could not.
        """
        if not isinstance(reply, WorkerDescription):
            message = f"worker {self._actors.index(actor) + 1} could not be started: {reply}"
            raise WorkerError(message)
        self._current[actor] = Worker(f"worker {len(self.workers) + 1}", reply)
        self.workers.append(self._current[actor])

    def _restart(self, actor: Any, reply: object) -> None:
        """Note that a process is of no more use, and end it if it has not ended by itself."""
        self._current[actor].lost = str(reply)
        if not isinstance(reply, WorkerFailure) or not reply.lost:
            self.cluster.restart(actor)
        self.on_change()

    def _progress(self, left: Collection[Window]) -> PoolProgress:
        rates = {
            worker.name: worker.items / worker.seconds if worker.seconds > 0 else 0.0
            for worker in self.workers
            if worker.windows and worker.lost is None
        }
        return PoolProgress(len(left), sum(len(window.records) for window in left), rates)

    def _compare(self) -> None:
        """Compare the workers, before anything that they score counts."""
        described = {
            worker.name: worker.description for worker in self.workers if worker.lost is None
        }
        check_agreement(self.settings, self.versions, described)
        self.on_change()
