"""Which worker scores which window, under random deaths: a cluster of dice stands in for Ray."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from builders import record, write_jsonl

from pact_eval.data.records import read_records
from pact_eval.errors import WorkerError
from pact_eval.scoring.windows import Window
from pact_eval.scoring.workers.cluster import Cluster
from pact_eval.scoring.workers.messages import WindowRows, WorkerDescription, WorkerFailure
from pact_eval.scoring.workers.pool import MOST_FAILURES, WorkerPool

ORDER: Any = None


class DiceCluster:
    """A cluster whose workers die or fail at random, at most twice a window.

    Of the two kinds of call, a start is (worker, None) and a score (worker, window, serial number).
    """

    def __init__(self, count: int, dice: random.Random, always: str | None = None) -> None:
        self.count, self._dice, self._always = count, dice, always
        self._failures: Counter[int] = Counter()
        self._pids: dict[int, int] = {}
        self._gone: set[int] = set()
        self.killed: list[int] = []

    def new_worker(self, _order: object) -> Any:
        number = len(self._pids)
        self._pids[number] = number

        class Worker:
            score = SimpleNamespace(remote=lambda window, _records: (number, window, object()))

            def __hash__(self) -> int:
                return number

        return Worker()

    def start(self, worker: Any) -> object:
        return hash(worker), None, object()

    def ready(self, calls: Sequence[Any], _seconds: float) -> list[Any]:
        possible = [call for call in calls if not (call[1] is None and call[0] in self._gone)]
        return self._dice.sample(possible, min(len(possible), self._dice.choice([0, 1, 2])))

    def reply(self, call: Any) -> object:
        worker, window, _ = call
        if window is None:
            return WorkerDescription("host", self._pids[worker], "cpu", 1, {}, {}, {})
        if self._always:
            return WorkerFailure("RuntimeError", self._always)
        if self._failures[window] < MOST_FAILURES - 1 and self._dice.random() < 0.3:
            self._failures[window] += 1
            self._pids[worker] += 100
            if worker and self._dice.random() < 0.2:
                self._gone.add(worker)  # the cluster has no room for it any more
            if self._dice.random() < 0.5:
                return WorkerFailure("ActorDiedError", "killed", lost=True)
            return WorkerFailure("MemoryError", "no room", checked=self._dice.random() < 0.5)
        return WindowRows(window, b"", {}, 1.0)

    def kill(self, worker: Any) -> None:
        self.killed.append(hash(worker))

    def restart(self, worker: Any) -> None:
        assert hash(worker) in self._pids


def _pool(cluster: DiceCluster) -> WorkerPool:
    return WorkerPool(cast("Cluster", cluster), ORDER, {}, {})


@pytest.mark.parametrize("seed", range(30))
def test_every_window_is_scored_once_whoever_dies(seed: int) -> None:
    cluster = DiceCluster(4, random.Random(seed))
    pool = _pool(cluster)
    pool.start()
    scored = [window.number for window, _ in pool.score([Window(n, ()) for n in range(30)])]
    pool.close()
    assert sorted(scored) == list(range(30))
    assert sum(worker.windows for worker in pool.workers) == 30
    living = [worker.description.pid for worker in pool.workers if worker.lost is None]
    assert 1 <= len(living) == len({*living}) <= 4
    assert sorted(cluster.killed) == [0, 1, 2, 3]


def test_a_window_that_fails_three_times_is_an_error_with_its_records(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "two.jsonl", [record("f0-base"), record("f1-base")])
    pool = _pool(DiceCluster(2, random.Random(0), always="out of memory"))
    pool.start()
    with pytest.raises(WorkerError, match="window 7 .*last: worker .*memory.*f0-base, f1-base"):
        list(pool.score([Window(7, read_records(path))]))
