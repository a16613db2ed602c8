"""Events of an experiment: `events.jsonl`, one JSON object per line, only ever appended to.

    {"time": "2026-01-05T10:00:00+00:00", "event": "started", "step": "train-pact-17", "why": "new"}

Events are `experiment` (it begins: its steps), `started`, `done`, `up to date`, `failed`,
`not run`, `interrupted` and `ended`. A step that Ray starts again has another `started`, with its
attempt. A viewer follows the file; the terminal shows the same events.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pact_eval._json import Json, dumps, finite_number

EVENTS: Final = "events.jsonl"
"""Name of the file in the folder of an experiment."""

NOT_FINISHED: Final = "not finished"
"""Why a step starts that an earlier start has not finished."""

_ENDS: Final = ("done", "failed", "interrupted")


@dataclass(frozen=True)
class Event:
    """One event.

    Attributes:
        name: what happened.
        step: name of the step; None for the experiment.
        facts: what else is known, such as why, seconds, exit_code.
    """

    name: str
    step: str | None = None
    facts: Mapping[str, Json] = field(default_factory=dict)


Watcher = Callable[[Event], None]
"""Gets each event after it was written."""


@dataclass(frozen=True)
class EventLog:
    """The events of an experiment.

    Attributes:
        path: the file.
        watcher: gets each event too.
    """

    path: Path
    watcher: Watcher = lambda _event: None

    def write(self, name: str, step: str | None = None, **facts: Json) -> None:
        """Append an event; a process that is killed leaves no part of a line."""
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        line: dict[str, Json] = {"time": now, "event": name}
        line |= {} if step is None else {"step": step}
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, (dumps(line | facts) + "\n").encode())
        finally:
            os.close(descriptor)
        self.watcher(Event(name, step, facts))


def seconds_of_steps(path: Path) -> dict[str, float]:
    """Return the time of the commands of each step: all starts that led to its last result.

    A start whose end was not written, because the experiment was killed, is not counted.

    Args:
        path: the file of events.
    """
    seconds: dict[str, float] = {}
    began: dict[str, dt.datetime] = {}
    for line in path.read_text("utf-8").splitlines():
        event = json.loads(line)
        step, time = event.get("step"), dt.datetime.fromisoformat(event["time"])
        if event["event"] == "started":
            began[step] = time
            if event.get("why") != NOT_FINISHED:
                seconds[step] = 0.0
        elif event["event"] in _ENDS and step in began:
            passed = (time - began.pop(step)).total_seconds()
            stated = finite_number(event.get("seconds"))
            seconds[step] = seconds.get(step, 0.0) + (passed if stated is None else stated)
    return seconds
