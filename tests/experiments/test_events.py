"""Events of an experiment: the lines of their file, and times of steps from hand-written ones."""

from __future__ import annotations

import json
from pathlib import Path

from pact_eval.experiments.events import EVENTS, Event, EventLog, seconds_of_steps


def event(clock: str, name: str, step: str | None = None, **facts: object) -> str:
    return json.dumps({"time": f"2026-01-05T{clock}+00:00", "event": name, "step": step} | facts)


def test_seconds_of_all_starts_that_led_to_the_last_result(tmp_path: Path) -> None:
    lines = [
        event("10:00:00", "experiment"),
        event("10:00:00", "started", "train", why="new"),
        event("10:01:00", "interrupted", "train"),
        event("11:00:00", "started", "train", why="not finished"),
        # Killed: nobody has seen the end of this start.
        event("12:00:00", "started", "train", why="not finished"),
        event("12:00:30", "failed", "train", seconds=29.5),
        event("12:01:00", "started", "train", why="not finished"),
        event("12:02:00", "done", "train", seconds=10.0),
        event("12:02:00", "started", "score", why="new"),
        event("12:03:00", "done", "score", seconds=59.0),
        event("12:03:00", "started", "score", why="data.jsonl changed"),
        event("12:04:00", "done", "score", seconds=7.0),
        event("12:04:00", "up to date", "train"),
        event("12:04:00", "failed", "page", why="needs score"),
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(lines) + "\n")
    assert seconds_of_steps(path) == {"train": 60 + 29.5 + 10, "score": 7}


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
