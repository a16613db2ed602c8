"""Which window is scored next, under random deaths and stragglers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from builders import record, write_jsonl

from pact_eval.data.records import read_records
from pact_eval.errors import WorkerError
from pact_eval.scoring.windows import Window
from pact_eval.scoring.workers.pool import MOST_FAILURES, Schedule


def _windows(count: int) -> list[Window]:
    return [Window(number, ()) for number in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_every_window_is_scored_once_whoever_dies(seed: int) -> None:
    dice = random.Random(seed)
    schedule, written, now = Schedule(_windows(30)), [], 0.0
    busy: dict[int, Window] = {}
    deaths: dict[int, int] = {}
    while schedule.left:
        now += 1.0
        for worker in range(4):
            if worker not in busy and (window := schedule.take(now)) is not None:
                busy[worker] = window
        worker = dice.choice(sorted(busy))
        window = busy.pop(worker)
        if dice.random() < 0.3 and deaths.get(window.number, 0) < MOST_FAILURES - 1:
            deaths[window.number] = deaths.get(window.number, 0) + 1
            schedule.failed(window.number, "killed")
        elif schedule.finished(window.number, dice.uniform(1, 5)):
            written.append(window.number)
    assert sorted(written) == list(range(30))
    assert schedule.take(now) is None


def test_a_window_that_was_lost_comes_before_those_that_wait() -> None:
    schedule = Schedule(_windows(3))
    first = schedule.take(0.0)
    assert first is not None
    schedule.failed(first.number, "killed")
    again = schedule.take(1.0)
    assert again is first


def test_a_window_that_fails_three_times_is_an_error_with_its_records(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "two.jsonl", [record("f0-base"), record("f1-base")])
    schedule = Schedule([Window(7, read_records(path))])
    for failures in range(MOST_FAILURES):
        window = schedule.take(float(failures))
        assert window is not None
        if failures < MOST_FAILURES - 1:
            schedule.failed(7, "killed")
    with pytest.raises(WorkerError, match="window 7 .*last: out of memory.*f0-base, f1-base"):
        schedule.failed(7, "out of memory")


def test_the_last_window_of_a_straggler_goes_to_an_idle_worker_and_counts_once() -> None:
    schedule = Schedule(_windows(4))
    for now in range(4):
        assert schedule.take(float(now)) is not None
    for number in range(3):
        assert schedule.finished(number, 2.0)
    assert schedule.take(5.9) is None  # 2.9 s of the usual 2
    copy = schedule.take(6.1)
    assert copy is not None
    assert copy.number == 3
    assert schedule.take(99.0) is None  # two are enough
    schedule.failed(3, "killed")  # one of them dies, the other still scores it
    assert schedule.finished(3, 5.0)
    assert not schedule.finished(3, 6.0)
    assert schedule.left == 0
