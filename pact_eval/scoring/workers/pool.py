"""A pool of workers: starts them, sends them windows, and compares those that replace lost ones."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

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
from pact_eval.scoring.workers.cluster import (
    Cluster,
    LostWorkerError,
    cluster_has_gpus,
    connected,
)
from pact_eval.scoring.workers.messages import (
    WindowRows,
    WorkerDescription,
    WorkerFailure,
    WorkerOrder,
    WorkersRequest,
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
    def items_per_second(self) -> float:
        """Records per second of scoring; 0 before the first window."""
        return self.items / self.seconds if self.seconds > 0 else 0.0

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
                    self._count(actor, scored, reply)
                    self.on_progress(self._progress(left.values()))
                    yield scored, reply
                else:
                    failures[scored.number] += 1
                    if failures[scored.number] == MOST_FAILURES:
                        raise WorkerError(_failed_too_often(scored, self._label(actor), reply))
                    waiting.appendleft(scored)
                    if not _is_refusal(
                        reply
                    ):  # another worker may score it before this one is back
                        self._lose(actor, reply)
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
            caller = calls.pop(call)
            try:
                reply = self.cluster.reply(call)
            except LostWorkerError as error:
                reply = error
            yield caller, reply

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

    def _lose(self, actor: Any, reply: object) -> None:
        """Note that a process is of no more use, and end it if it has not ended by itself."""
        self._current[actor].lost = str(reply)
        if not isinstance(reply, LostWorkerError):
            self.cluster.restart(actor)
        self.on_change()

    def _label(self, actor: Any) -> str:
        worker = self._current[actor]
        return f"{worker.name} ({worker.description.host}, process {worker.description.pid})"

    def _count(self, actor: Any, window: Window, rows: WindowRows) -> None:
        worker = self._current[actor]
        worker.windows += 1
        worker.items += len(window.records)
        worker.seconds += rows.seconds

    def _progress(self, left: Collection[Window]) -> PoolProgress:
        rates = {
            worker.name: worker.items_per_second
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


def _failed_too_often(window: Window, worker: str, reason: object) -> str:
    ids = ", ".join(record.id for record in window.records)
    return (
        f"window {window.number} has failed {MOST_FAILURES} times, last: {worker}: {reason}; "
        f"windows that are written are kept. Its records: {ids}"
    )


def _is_refusal(reply: object) -> bool:
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
        first = self._pool.workers[0].description
        return {**joined_facts([first.facts, *self._facts]), _NOTE: self._workers()}

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
