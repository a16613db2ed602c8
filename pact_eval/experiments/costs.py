"""Cost of an experiment: hours from measured times, in the order in which steps would run.

    measured.json in the folder of the experiment
    {"format": "pact-measured-1", "processor": ..., "versions": {distribution: version},
     "plan": {...},                                  what the times depend on for all arms
     "records": {"holdout": 324, "ablated": 324, "selection": 40, "calibration": 40},
     "arms": {"mine": {"arm": {"recipe": null, "settings": {...}},
                       "training": {"start_seconds": 20.0, "seconds_per_step": 0.9,
                                    "further_steps": 1199},
                       "scoring": {"4": {"start_seconds": 15.0, "seconds_per_record": 0.2}}}}}

A time that could not be measured is a text instead: the reason. Only trainings and scorings count.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pact_eval._choices import ExperimentStage
from pact_eval._files import read_json
from pact_eval._json import Json, finite_number
from pact_eval.errors import InputError
from pact_eval.experiments.plan import BASE_RUN, Arm, Plan
from pact_eval.experiments.steps import Step, graph_of

MEASURED: Final = "measured.json"
"""Name of the file in the folder of an experiment."""

FORMAT: Final = "pact-measured-1"

TIMED_STAGES: Final[tuple[ExperimentStage, ...]] = ("train", "score")
"""Stages whose steps count."""


@dataclass(frozen=True)
class Measured:
    """The content of `measured.json`.

    Attributes:
        processor: the processor or GPU.
        versions: versions of the distributions that times depend on.
        plan: what the times depend on for all arms; see `plan_facts`.
        records: number of records by what they are for.
        arms: by arm, what its times depend on (see `arm_facts`), and its times or reasons.
    """

    processor: str
    versions: Mapping[str, Json]
    plan: Mapping[str, Json]
    records: Mapping[str, int]
    arms: Mapping[str, Mapping[str, Json]]

    def to_json(self) -> dict[str, Json]:
        """Return the content of the file."""
        arms: dict[str, Json] = {name: {**arm} for name, arm in self.arms.items()}
        return {
            "format": FORMAT,
            "processor": self.processor,
            "versions": {**self.versions},
            "plan": {**self.plan},
            "records": {**self.records},
            "arms": arms,
        }


@dataclass(frozen=True)
class Cost:
    """Estimated cost of the steps that are to do.

    Attributes:
        processor: where it was measured.
        seconds: time from start to end with all slots.
        by_stage: time of the processes of each stage, in seconds.
        slots: number of slots; 0 for as many as steps that can run.
        not_measured: by arm, why its times are not known; then the others are a lower bound.
    """

    processor: str
    seconds: float
    by_stage: Mapping[ExperimentStage, float]
    slots: int
    not_measured: Mapping[str, str] = field(default_factory=dict)


def plan_facts(plan: Plan) -> dict[str, Json]:
    """Return what measured times depend on, for all arms."""
    model, command = plan.model, plan.train.command
    return {
        "train": None if command is None else [*command.words],
        "base": model.base,
        "dtype": model.dtype,
        "device": model.device,
        "attention": model.attention,
    }


def arm_facts(arm: Arm) -> dict[str, Json]:
    """Return what measured times depend on, for one arm."""
    return {"recipe": arm.recipe, "settings": {**arm.settings}}


def read_measured(path: Path) -> Measured | None:
    """Read measured times; None if there are none.

    Raises:
        InputError: the file is not one of measured times.
    """
    if not path.exists():
        return None
    value = read_json(path)
    try:
        if not isinstance(value, dict) or value["format"] != FORMAT:
            message = "another format"
            raise ValueError(message)
        return Measured(
            processor=str(value["processor"]),
            versions=_object(value["versions"]),
            plan=_object(value["plan"]),
            records={name: _count(count) for name, count in _object(value["records"]).items()},
            arms={name: _object(arm) for name, arm in _object(value["arms"]).items()},
        )
    except (KeyError, ValueError) as error:
        message = (
            f"{path}: expected measured times, format {FORMAT}: {error}; measure them again with "
            "--measure"
        )
        raise InputError(message) from None


def estimated_cost(plan: Plan, steps: Sequence[Step], slots: int, measured: Measured) -> Cost:
    """Estimate what steps would take.

    Args:
        plan: the plan.
        steps: the steps that are to do, in order.
        slots: number of processes at a time; 0 for as many as can start, as on a large cluster.
        measured: measured times.
    """
    seconds: dict[str, float] = {}
    reasons: dict[str, str] = {}
    by_stage: dict[ExperimentStage, float] = {}
    for step in steps:
        if step.stage not in TIMED_STAGES:
            continue
        arm = BASE_RUN if step.training is None else step.training.arm.name
        try:
            seconds[step.name] = _seconds(plan, step, arm, measured)
        except InputError as error:
            reasons.setdefault(arm, str(error))
            continue
        by_stage[step.stage] = by_stage.get(step.stage, 0.0) + seconds[step.name]
    total = elapsed_seconds(steps, lambda step: seconds.get(step.name, 0.0), slots)
    ordered = {stage: by_stage[stage] for stage in TIMED_STAGES if stage in by_stage}
    return Cost(measured.processor, total, ordered, slots, reasons)


def elapsed_seconds(
    steps: Sequence[Step], seconds_of: Callable[[Step], float], slots: int
) -> float:
    """Return when the last step ends if each starts as soon as a slot is free.

    Of the steps that could start, the first in order does. Steps that are not among `steps` are
    done.

    Args:
        steps: the steps in order.
        seconds_of: time of a step, at least 0.
        slots: number of processes at a time; 0 for as many as can start.

    Examples:
        >>> steps = [Step(name, "train", (), (), (), ()) for name in "abc"]
        >>> elapsed_seconds(steps, lambda step: 10.0, 2)
        20.0
    """
    names = {step.name: number for number, step in enumerate(steps)}
    graph = graph_of(
        replace(step, needs=tuple(need for need in step.needs if need in names)) for step in steps
    )
    waiting: list[int] = []
    running: list[tuple[float, int]] = []
    now = 0.0
    while graph.is_active():
        for name in graph.get_ready():
            heapq.heappush(waiting, names[name])
        while waiting and (slots == 0 or len(running) < slots):
            number = heapq.heappop(waiting)
            heapq.heappush(running, (now + seconds_of(steps[number]), number))
        now, number = heapq.heappop(running)
        graph.done(steps[number].name)
    return now


def _seconds(plan: Plan, step: Step, arm: str, measured: Measured) -> float:
    """Return the estimated time of a training or a scoring.

    Raises:
        InputError: it was not measured; the reason.
    """
    times = measured.arms.get(arm)
    if times is None:
        message = "not measured: a new arm"
        raise InputError(message)
    facts = None if step.training is None else arm_facts(step.training.arm)
    if measured.plan != plan_facts(plan) or times.get("arm") != facts:
        message = "measured with other settings; repeat --measure"
        raise InputError(message)
    if step.stage == "train":
        start, per_step, further_steps = _times(
            times.get("training"), ("start_seconds", "seconds_per_step", "further_steps")
        )
        return start + per_step * further_steps
    k = step.words[step.words.index("--k") + 1]
    scoring, absent = times.get("scoring"), f"no scoring with {k} views was measured"
    window = scoring.get(k, absent) if isinstance(scoring, dict) else scoring
    start, per_record = _times(window, ("start_seconds", "seconds_per_record"))
    records = measured.records.get(step.part or "")
    if records is None:
        message = f"the number of records for {step.part} is not known; repeat --measure"
        raise InputError(message)
    return start + per_record * records


def _times(value: Json, names: Sequence[str]) -> list[float]:
    """Return measured numbers.

    Raises:
        InputError: there are none; the reason.
    """
    stated = value if isinstance(value, dict) else {}
    numbers = [finite_number(stated.get(name)) for name in names]
    times = [number for number in numbers if number is not None and number >= 0]
    if len(times) < len(names):
        raise InputError(value if isinstance(value, str) else "not measured")
    return times


def _object(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        message = "expected an object"
        raise ValueError(message)
    return value


def _count(value: Json) -> int:
    if not isinstance(value, int) or value < 0:
        message = "expected a number of records"
        raise ValueError(message)
    return value
