"""Progress of experiments, from their events and from logs of trainings."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from pact_eval.experiments.events import EVENTS, Event, EventLog
from pact_eval.experiments.plan import Arm, Training
from pact_eval.experiments.progress_table import (
    ExperimentProgress,
    TimeLeft,
)
from pact_eval.experiments.steps import Step


def step(name: str, stage: str, model: str | None) -> Step:
    training = Training(Arm("mine", {}, is_ablation=False), 17)
    outputs = (Path("plan/adapters/mine-17/adapter_config.json"),)
    return Step(name, stage, (), (), (), outputs, training=training, model=model)  # type: ignore[arg-type]


STEPS = (
    step("audit", "audit", None),
    step("train-mine-17", "train", "mine-17"),
    step("score-mine-17-holdout", "score", "mine-17"),
    step("score-mine-17-ablated", "score", "mine-17"),
)


@pytest.fixture
def progress(tmp_path: Path) -> ExperimentProgress:
    return ExperimentProgress(STEPS, tmp_path, slots=2)


def done(progress: ExperimentProgress, name: str, seconds: float) -> None:
    progress.see(Event("started", name, {"why": "new"}))
    progress.see(Event("done", name, {"seconds": seconds}))


def test_time_left_against_hand_computation(progress: ExperimentProgress) -> None:
    done(progress, "audit", 1.0)
    assert progress.time_left() is None  # neither a training nor a scoring has finished
    done(progress, "score-mine-17-holdout", 10.0)
    assert progress.time_left() == TimeLeft(10.0 / 2, is_least=True)  # the training is not timed
    done(progress, "train-mine-17", 100.0)
    assert progress.time_left() == TimeLeft(10.0 / 2, is_least=False)
    progress.see(Event("started", "score-mine-17-ablated"))
    progress.started["score-mine-17-ablated"] = time.monotonic() - 4
    left = progress.time_left()
    assert left is not None
    assert left.seconds == pytest.approx((10 - 4) / 2, abs=0.5)
    progress.started["score-mine-17-ablated"] = time.monotonic() - 40
    assert progress.time_left() == TimeLeft(0.0, is_least=False)
    progress.see(Event("done", "score-mine-17-ablated", {"seconds": 12.0}))
    assert progress.time_left() == TimeLeft(0.0, is_least=False)


def test_events_are_one_object_per_line_and_stay(tmp_path: Path) -> None:
    path, seen = tmp_path / EVENTS, list[Event]()
    EventLog(path, seen.append).write("started", "audit", why="new")
    before = path.read_bytes()
    EventLog(path, seen.append).write("ended", exit_code=0)
    assert path.read_bytes().startswith(before)
    values = [json.loads(line) for line in path.read_text().splitlines()]
    assert [value["event"] for value in values] == ["started", "ended"]
    assert [value.get("step") for value in values] == ["audit", None]
    assert all(value["time"].endswith("+00:00") for value in values)
    assert [event.name for event in seen] == ["started", "ended"]
