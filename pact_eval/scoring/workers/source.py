"""`Backend` backed by several workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import msgspec
import polars as pl
import torch

from pact_eval._json import Json
from pact_eval.runs.folder import RunWriter, library_versions
from pact_eval.runs.provenance import RecordedEngine
from pact_eval.scoring.model import identify
from pact_eval.scoring.request import DtypeName, ModelRequest
from pact_eval.scoring.score import PROOF_RECORDS, ModelSource, float32_scores, kernel_of_run
from pact_eval.scoring.scorer import release_memory
from pact_eval.scoring.windows import Dataset, OnAnswer, ScoredWindow, Window, missing_windows
from pact_eval.scoring.workers.cluster import cluster_has_gpus, connected
from pact_eval.scoring.workers.messages import WorkerOrder, WorkersRequest
from pact_eval.scoring.workers.pool import PoolProgress, WorkerPool

_NOTE = "workers"


@dataclass(frozen=True)
class WorkerSource(ModelSource):
    """A model that several workers load.

    Attributes:
        request: the model, with absolute paths, and device and precision of the workers.
        workers: which workers.
        on_progress: called when a window is done.
    """

    request: ModelRequest
    workers: WorkersRequest
    on_progress: Callable[[PoolProgress], None] = lambda _progress: None

    @property
    def threads(self) -> int:
        """Threads of each worker: as many as one process has here, because bits depend on it."""
        return torch.get_num_threads()

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
        exact = float32_scores(self.model, dataset, writer)
        if exact is not None:
            writer.note({"auto_dtype": exact.compare(self.model.load).to_json()})
            release_memory()
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
        dtype=cast("DtypeName", model.settings["dtype"]),
    )
    return WorkerSource(model, order, workers, on_progress)


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
