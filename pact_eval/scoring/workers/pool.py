"""A pool of workers, which starts them, sends them windows and replaces those that are lost."""

from __future__ import annotations

import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl
import torch

from pact_eval._json import Json, dumps, flat
from pact_eval.errors import WorkerError
from pact_eval.models.folders import AdapterFiles
from pact_eval.progress import step
from pact_eval.runs.folder import RunWriter, library_versions
from pact_eval.runs.provenance import RecordedEngine, RunNames
from pact_eval.scoring.model import ScoringModel, identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.score import PROOF_RECORDS, LocalSource, kernel_of_run
from pact_eval.scoring.windows import Dataset, OnAnswer, ScoredWindow, Window, missing_windows
from pact_eval.scoring.workers.cluster import Cluster, LostWorkerError, cluster_has_gpus, connected
from pact_eval.scoring.workers.messages import (
    WindowRows,
    WorkerDescription,
    WorkerFailure,
    WorkerOrder,
    WorkersRequest,
)

MOST_FAILURES: Final = 3
"""A window that fails so many times stops the run."""

_SLOW: Final = 1.5  # times the usual time, from which a window is scored by a second worker too
_MOST_RUNNERS: Final = 2


class Schedule:
    """The windows that are not scored yet.

    Args:
        windows: the windows, in file order.

    Examples:
        >>> schedule = Schedule([Window(0, ()), Window(1, ())])
        >>> [schedule.take(0.0).number, schedule.take(0.0).number, schedule.take(0.0)]
        [0, 1, None]
        >>> schedule.finished(0, 2.0), schedule.left
        (True, 1)
        >>> schedule.take(2.5) is None, schedule.take(3.5).number
        (True, 1)
        >>> schedule.finished(1, 4.0), schedule.finished(1, 9.0), schedule.left
        (True, False, 0)
    """

    def __init__(self, windows: Sequence[Window]) -> None:
        self._windows = {window.number: window for window in windows}
        self._waiting = deque(self._windows)
        self._running: dict[int, list[float]] = {}
        self._seconds: list[float] = []
        self._failures: Counter[int] = Counter()

    @property
    def left(self) -> int:
        """Number of windows without rows."""
        return len(self._windows)

    @property
    def items_left(self) -> int:
        """Number of records in them."""
        return sum(len(window.records) for window in self._windows.values())

    def take(self, now: float) -> Window | None:
        """Return the window that an idle worker scores.

        When no window waits, it is the oldest one that takes longer than usual, for a second
        worker: whoever is first gives the rows, which are the same.

        Args:
            now: time in seconds, of a monotonic clock.
        """
        number = self._waiting.popleft() if self._waiting else self._slowest(now)
        if number is None:
            return None
        self._running.setdefault(number, []).append(now)
        return self._windows[number]

    def finished(self, number: int, seconds: float) -> bool:
        """Note that a window was scored; return whether its rows are the first.

        Args:
            number: number of the window.
            seconds: time that scoring it took.
        """
        self._seconds.append(seconds)
        self._running.pop(number, None)
        return self._windows.pop(number, None) is not None

    def failed(self, number: int, reason: str) -> None:
        """Let a window wait again, before all others.

        Args:
            number: number of the window.
            reason: why it was not scored.

        Raises:
            WorkerError: it has failed three times.
        """
        if number not in self._windows:
            return
        self._failures[number] += 1
        if self._failures[number] >= MOST_FAILURES:
            ids = ", ".join(record.id for record in self._windows[number].records)
            message = (
                f"window {number} has failed {MOST_FAILURES} times, last: {reason}; windows that "
                f"are written are kept. Its records: {ids}"
            )
            raise WorkerError(message)
        runners = self._running.get(number, [])
        if len(runners) > 1:  # another worker still scores it
            runners.pop()
            return
        self._running.pop(number, None)
        self._waiting.appendleft(number)

    def _slowest(self, now: float) -> int | None:
        if not self._seconds:
            return None
        usual = statistics.median(self._seconds)
        slow = [
            (starts[0], number)
            for number, starts in self._running.items()
            if len(starts) < _MOST_RUNNERS and now - starts[0] > _SLOW * usual
        ]
        return min(slow)[1] if slow else None


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
    here: dict[str, Json] = {"settings": dict(settings), "versions": dict(versions)}
    facts_by_process = {DRIVER: flat(here)}
    for name, worker in workers.items():
        facts_by_process[f"{name} ({worker.host}, process {worker.pid})"] = flat(
            {
                "settings": dict(worker.settings),
                "versions": dict(worker.versions),
                "device": worker.device,
                "threads": worker.threads,
                "facts": dict(worker.facts),
            }
        )
    lines = [
        f"  {key}: {disagreement}"
        for key in sorted({key for values in facts_by_process.values() for key in values})
        if (disagreement := _disagreement(key, facts_by_process)) is not None
    ]
    if lines:
        message = "workers do not agree; nothing more was scored:\n" + "\n".join(lines)
        raise WorkerError(message)


def _disagreement(key: str, facts_by_process: Mapping[str, Mapping[str, Json]]) -> str | None:
    """Return who has which value; None if all have one. The driver has settings and versions."""
    includes_driver = key.startswith(("settings.", "versions."))
    by_value: dict[str, list[str]] = {}
    for who, values in facts_by_process.items():
        if who != DRIVER or includes_driver:
            by_value.setdefault(dumps(values.get(key)), []).append(who)
    if len(by_value) < 2:
        return None
    return "; ".join(f"{value} on {', '.join(names)}" for value, names in by_value.items())


_POLL_SECONDS: Final = 0.5
_START_SECONDS: Final = 1800.0
_MOST_FAILED_STARTS: Final = 3


@dataclass(eq=False)
class Worker:
    """A worker of a pool.

    Attributes:
        name: such as "worker 1"; a replacement has a new name.
        actor: the handle that Ray gave.
        call: the call that has no reply yet; None if it is idle.
        window: what it scores; None while it starts or is idle.
        description: what it is; None while it starts.
        since: time of the call, of a monotonic clock.
        windows: number of windows that it has scored.
        items: number of records in them.
        seconds: time that it spent on them.
        lost: why it is gone; None if it is not.
    """

    name: str
    actor: Any
    call: Any
    since: float
    window: Window | None = None
    description: WorkerDescription | None = None
    windows: int = 0
    items: int = 0
    seconds: float = 0.0
    lost: str | None = None

    @property
    def label(self) -> str:
        """Its name, and where it is if that is known."""
        description = self.description
        return (
            self.name
            if description is None
            else f"{self.name} ({description.host}, process {description.pid})"
        )

    @property
    def items_per_second(self) -> float:
        """Records per second of scoring; 0 before the first window."""
        return self.items / self.seconds if self.seconds > 0 else 0.0

    @property
    def facts(self) -> dict[str, Json]:
        """Its record in `run.json`."""
        description = self.description
        if description is None:
            return {"name": self.name, "lost": self.lost}
        return {
            "name": self.name,
            "host": description.host,
            "pid": description.pid,
            "device": description.device,
            "threads": description.threads,
            "versions": dict(description.versions),
            "settings": dict(description.settings),
            "facts": dict(description.facts),
            "windows": self.windows,
            "items": self.items,
            "seconds": round(self.seconds, 3),
            "lost": self.lost,
        }

    def scored(self, window: Window, rows: WindowRows) -> None:
        """Count a window."""
        self.windows += 1
        self.items += len(window.records)
        self.seconds += rows.seconds


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

    Attributes:
        cluster: the Ray that runs them.
        order: what each of them loads.
        settings: what identifies the model here; each worker must have the same.
        versions: versions of the libraries here; likewise.
        on_change: called when workers have started or one was lost.
        on_progress: called when a window is done.
        workers: all workers so far, lost ones included.
    """

    cluster: Cluster
    order: WorkerOrder
    settings: Mapping[str, Json]
    versions: Mapping[str, Json]
    on_change: Callable[[], None] = lambda: None
    on_progress: Callable[[PoolProgress], None] = lambda _progress: None
    workers: list[Worker] = field(default_factory=list)
    _failed_starts: int = 0
    _ready: bool = False

    @property
    def living(self) -> list[Worker]:
        """The workers that are not lost."""
        return [worker for worker in self.workers if worker.lost is None]

    def start(self) -> None:
        """Start the workers, and wait until every one is ready.

        Raises:
            WorkerError: a worker cannot be used, or they do not agree.
        """
        with step("Starting workers", self.cluster.count, "workers") as starting:
            for _ in range(self.cluster.count):
                self._new()
            while any(worker.description is None for worker in self.living):
                for worker in self._with_reply():
                    self._started(worker, self._reply(worker))
                starting.done = sum(started.description is not None for started in self.living)
        self._check_agreement()
        self._ready = True
        self.on_change()

    def score(self, windows: Sequence[Window]) -> Iterator[tuple[Window, WindowRows]]:
        """Score windows.

        Args:
            windows: the windows, in file order.

        Yields:
            Each window once, with its rows, as soon as they are there.

        Raises:
            WorkerError: a window has failed three times, or workers cannot be replaced.
        """
        schedule = Schedule(windows)
        while schedule.left:
            self._send(schedule)
            for worker in self._with_reply():
                window = worker.window
                reply = self._reply(worker)
                if window is None:
                    self._started(worker, reply)
                    self.on_change()
                elif isinstance(reply, WindowRows):
                    worker.scored(window, reply)
                    if schedule.finished(window.number, reply.seconds):
                        self.on_progress(self._progress(schedule))
                        yield window, reply
                else:
                    if not _checked(reply):
                        self._replace(worker, str(reply))
                    schedule.failed(window.number, f"{worker.label}: {reply}")

    def close(self) -> None:
        """End all workers."""
        for worker in self.living:
            self.cluster.kill(worker.actor)

    def _new(self) -> None:
        actor = self.cluster.new_worker()
        name = f"worker {len(self.workers) + 1}"
        self.workers.append(Worker(name, actor, actor.start.remote(self.order), time.monotonic()))

    def _replace(self, worker: Worker, reason: str) -> None:
        worker.lost = reason
        self.cluster.kill(worker.actor)
        self._new()
        self.on_change()

    def _send(self, schedule: Schedule) -> None:
        """Give every idle worker a window, if one is left for it."""
        for worker in self.living:
            now = time.monotonic()
            window = schedule.take(now) if worker.call is None else None
            if window is not None:
                call = worker.actor.score.remote(window.number, tuple(window.records))
                worker.window, worker.call, worker.since = window, call, now

    def _with_reply(self) -> list[Worker]:
        """Return workers whose call has a reply, after a short wait.

        Raises:
            WorkerError: nothing but starting workers has been awaited for long.
        """
        calls = {worker.call: worker for worker in self.living if worker.call is not None}
        ready_calls = [calls[call] for call in self.cluster.ready(list(calls), _POLL_SECONDS)]
        latest = max((worker.since for worker in self.living), default=0.0)
        starting = all(worker.description is None for worker in self.living)
        if starting and not ready_calls and time.monotonic() - latest > _START_SECONDS:
            message = f"no worker was ready within {_START_SECONDS / 60:.0f} minutes"
            raise WorkerError(message)
        return ready_calls

    def _reply(self, worker: Worker) -> object:
        """Take the reply of a worker, which is then idle."""
        call, worker.call, worker.window = worker.call, None, None
        try:
            return self.cluster.reply(call)
        except LostWorkerError as error:
            return WorkerFailure("lost", str(error))

    def _started(self, worker: Worker, reply: object) -> None:
        """Take the description of a worker that has started, or start another one.

        Raises:
            WorkerError: it does not agree with the others, a check of ours refused the model, or
                three workers in a row were lost at their start.
        """
        if isinstance(reply, WorkerDescription):
            worker.description = reply
            self._failed_starts = 0
            if self._ready:
                self._check_agreement()
            return
        self._failed_starts += 1
        if _checked(reply) or self._failed_starts >= _MOST_FAILED_STARTS:
            message = f"{worker.name} could not be started: {reply}"
            raise WorkerError(message)
        self._replace(worker, str(reply))

    def _progress(self, schedule: Schedule) -> PoolProgress:
        rates = {worker.name: worker.items_per_second for worker in self.living if worker.windows}
        return PoolProgress(schedule.left, schedule.items_left, rates)

    def _check_agreement(self) -> None:
        described = {
            worker.name: worker.description
            for worker in self.living
            if worker.description is not None
        }
        check_agreement(self.settings, self.versions, described)


def _checked(reply: object) -> bool:
    return isinstance(reply, WorkerFailure) and reply.checked


_NOTE = "workers"


@dataclass(frozen=True)
class WorkerSource:
    """Several workers as what answers the records of a run; see `RowSource`.

    Attributes:
        request: the model, with absolute paths and the device of the workers.
        workers: which workers.
        model: the model, identified here and loaded by the workers.
        on_progress: called when a window is done.
    """

    request: ModelRequest
    workers: WorkersRequest
    model: ScoringModel
    on_progress: Callable[[PoolProgress], None] = lambda _progress: None

    @property
    def threads(self) -> int:
        """Threads of each worker: as many as one process has here, because bits depend on it."""
        return torch.get_num_threads()

    @property
    def adapter(self) -> AdapterFiles | None:
        """The adapter; None for a base model alone."""
        return self.model.adapter

    @property
    def settings(self) -> Mapping[str, Json]:
        """Those of a single process: a run may be resumed with any number of workers, or none."""
        return LocalSource(self.model).settings

    @property
    def names(self) -> RunNames:
        """The folders of adapter and base model, and of a decision template."""
        return LocalSource(self.model).names

    def check(self, dataset: Dataset) -> Mapping[str, Json]:
        """Check the length of every prompt.

        Raises:
            PromptError: a prompt is over the limit.
        """
        return LocalSource(self.model).check(dataset)

    @contextmanager
    def open(self, dataset: Dataset, writer: RunWriter) -> Iterator[_PoolScorer]:
        """Start the workers, and compare them.

        Raises:
            WorkerError: they cannot be started, or do not agree.
        """
        windows = len(missing_windows(dataset, writer))
        proof = replace(dataset, records=tuple(dataset.records[:PROOF_RECORDS]))
        # Chosen once, here: workers that chose for themselves might not score alike.
        kernel = kernel_of_run(self.model, dataset, writer)
        order = WorkerOrder(self.request, proof, self.threads, kernel)
        device = self.model.device.type
        with connected(
            self.workers, device=device, threads=self.threads, most=max(windows, 1)
        ) as cluster:
            pool = WorkerPool(
                cluster,
                order,
                self.model.settings,
                library_versions(quantised=self.model.quantisation is not None),
                on_progress=self.on_progress,
            )
            scorer = _PoolScorer(pool, writer)
            try:
                pool.start()
                yield scorer
            finally:
                pool.close()


def worker_source(
    request: ModelRequest,
    workers: WorkersRequest,
    on_progress: Callable[[PoolProgress], None] = lambda _progress: None,
) -> WorkerSource:
    """Return several workers as what answers the records of a run.

    Args:
        request: the model, as the user asked for it.
        workers: which workers; a cluster with a GPU is the default device of its workers.
        on_progress: called when a window is done.

    Raises:
        AdapterError: the model cannot be used.
        WorkerError: the cluster cannot be reached.
    """
    if workers.address is not None and request.device == "auto":
        device = "cuda" if cluster_has_gpus(workers.address) else "cpu"
        request = replace(request, device=device)
    model = identify(request, elsewhere=workers.address is not None)
    order = replace(
        request,
        adapter=None if request.adapter is None else Path(request.adapter).absolute(),
        base_model=_absolute(request.base_model),
        contract=_absolute(request.contract),
        device=model.device.type,
    )
    return WorkerSource(order, workers, model, on_progress)


def _absolute(name: str | None) -> str | None:
    """Return the absolute path of a file or folder; other names as they are."""
    return str(Path(name).absolute()) if name is not None and Path(name).exists() else name


class _PoolScorer:
    """Scores windows with the workers of a pool; see `WindowScorer`."""

    def __init__(self, pool: WorkerPool, writer: RunWriter) -> None:
        self._pool = pool
        self._writer = writer
        before = writer.recorded.recorded.get(_NOTE)
        self._before: list[Json] = before if isinstance(before, list) else []
        self._facts: list[Mapping[str, Json]] = []
        pool.on_change = self._note

    @property
    def facts(self) -> Mapping[str, Json]:
        """Record that a single process would have made, with every worker."""
        described = [worker.description for worker in self._pool.workers if worker.description]
        return {**joined_facts([described[0].facts, *self._facts]), _NOTE: self._workers()}

    def score(
        self, windows: Sequence[Window], on_views: Callable[[int], None], on_answer: OnAnswer
    ) -> Iterator[ScoredWindow]:
        """Let the workers score windows; a window counts when it is done."""
        del on_views, on_answer  # windows come whole
        for window, reply in self._pool.score(windows):
            self._facts.append(reply.facts)
            yield ScoredWindow(window, reply.rows)

    def completed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows as they are."""
        return rows

    def _note(self) -> None:
        # Before the first part: who scored is known of every part that is written.
        self._writer.note({_NOTE: self._workers()})

    def _workers(self) -> list[Json]:
        return [*self._before, *(worker.facts for worker in self._pool.workers)]


def joined_facts(facts: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Return the facts of one process that scored what several have scored.

    Args:
        facts: those of a worker at its start, and one after each window, whose token counts are
            those of the window.

    Examples:
        >>> start = {"engine": {"name": "fork", "batch_tokens": 8, "tokens": {"passed": 0}}}
        >>> window = {"engine": {"name": "fork", "batch_tokens": 4, "tokens": {"passed": 3}}}
        >>> joined_facts([start, window, window])
        {'engine': {'name': 'fork', 'batch_tokens': 4, 'tokens': {'passed': 6}}}
    """
    engines = [
        RecordedEngine.of_json(recorded, "worker")
        for worker_facts in facts
        if isinstance(recorded := worker_facts.get("engine"), dict)
    ]
    # Memory that ran out in a window is said of the run: another engine, or a smaller budget.
    first = engines[0]
    engine = min(engines, key=lambda other: (other.name == first.name, other.batch_tokens or 0))
    tokens: Counter[str] = Counter()
    for scored_by in engines:
        tokens.update(scored_by.tokens)
    budgets = [scored_by.batch_tokens for scored_by in engines if scored_by.batch_tokens]
    joined = msgspec.structs.replace(
        engine, batch_tokens=min(budgets, default=None), tokens=dict(tokens)
    )
    return {**facts[0], "engine": joined.to_json()}
