"""Training of released runs, from the files next to the metrics of a trained run.

    results.json        {"views": {"views": {"train/...": number}, "primary_kinds": {"train/choice":
                         number}, "max_tokens": ...}, "calibration": {...}, "config": {...}}
    train_report.json   {"plan": {"train_groups": ...}, "steps": ..., "best": {"step": ...},
                         "wall_seconds": ..., "peak_gpu_gib": number or null}
    dev_history.json    [{"step": ..., "summary": {"all": {"nll": ..., "accuracy": ...}}}, ...]
    calibration.json    {"mode": ..., "weights": {"bias": [...], "log_choices", "log_tokens"}}

Only runs with metrics under `single_calibrated` have a calibrator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from pact_eval._choices import Mode
from pact_eval._files import read_json
from pact_eval._json import Json, finite_number
from pact_eval.calibration.temperatures import Calibrator, TemperatureSummary, Weights
from pact_eval.errors import InputError, Problem, RecordError
from pact_eval.evaluation.arms.published_paths import result_files
from pact_eval.evaluation.registry import SINGLE_CALIBRATED

_RUN_FILE: Final = "results.json"
_LARGEST: Final = 2**53
_EXPECTED: Final = {
    "train_report.json": "plan, steps, best, wall_seconds and peak_gpu_gib",
    "dev_history.json": "step and summary of every selection",
    "calibration.json": "mode and weights",
}


@dataclass(frozen=True)
class SelectionPoint:
    """Metrics of the selection split at one step of training.

    Attributes:
        step: of the optimiser.
        nll_nats: mean NLL.
        accuracy: a fraction.
    """

    step: int
    nll_nats: float
    accuracy: float


@dataclass(frozen=True)
class ReleasedCalibration:
    """Calibrator of a released run, with numbers on the split that it was fitted on.

    Attributes:
        calibrator: T(x).
        temperature: mean and range of T(x).
        ece_before: ECE of that split, raw.
        ece_after: ECE of that split under T(x).
    """

    calibrator: Calibrator
    temperature: TemperatureSummary
    ece_before: float
    ece_after: float


@dataclass(frozen=True)
class ReleasedTraining:
    """Training of one released run.

    Attributes:
        arm: of the run.
        seed: of the run, or None.
        steps: of the optimiser.
        wall_seconds: time of training.
        peak_gib: peak GPU memory; None if there was no GPU.
        views_per_pair: training views of a pair of records.
        history: the selection split over training, by step.
        selected: the point of the selected checkpoint.
        calibration: None for a run without calibrated metrics.
        splits: by split of the training file, its number of records of each kind; empty if it is
            not recorded.
        longest_prompt: of all views, in tokens; None if it is not recorded.
        settings: the resolved settings by their keys, such as `optim.learning_rate`: numbers,
            texts, true and false, and lists of them.
    """

    arm: str
    seed: int | None
    steps: int
    wall_seconds: float
    peak_gib: float | None
    views_per_pair: float
    history: tuple[SelectionPoint, ...]
    selected: SelectionPoint
    calibration: ReleasedCalibration | None
    splits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    longest_prompt: int | None = None
    settings: Mapping[str, Json] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The run, as figures name it."""
        return self.arm if self.seed is None else f"{self.arm}, seed {self.seed}"


def read_released_training(path: Path) -> list[ReleasedTraining]:
    """Read the training of every trained run below a folder; a file has its metrics alone.

    Args:
        path: a released result folder, whose metrics have been read.

    Raises:
        InputError: a file of a run is missing or cannot be read.
        RecordError: a key is missing or has a wrong value; all of one file.
    """
    if not path.is_dir():
        return []
    return [_read_run(file) for file in result_files(path) if file.name == _RUN_FILE]


class _Keys:
    """The values of a JSON file by their keys; wrong ones are collected and raised together."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._problems: list[Problem] = []
        expected = _EXPECTED.get(path.name, "the results of a run")
        self.content = read_json(path, missing=f"no such file; expected {expected}")

    def value(self, key: str) -> Json:
        """Return the value at a path of keys such as `best.step`; None if there is none."""
        value = self.content
        for part in key.split("."):
            if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
                value = value[int(part)]
            else:
                value = value.get(part) if isinstance(value, dict) else None
        return value

    def refuse(self, key: str, expected: str) -> None:
        self._problems.append(Problem(None, None, f"{key}: expected {expected}"))

    def number(self, key: str, *, most: float = float("inf")) -> float:
        """Return a number from 0 to `most`; 0 and a problem if there is none."""
        number = finite_number(self.value(key))
        if number is not None and 0 <= number <= most:
            return number
        self.refuse(key, "a number of at least 0" if most > 1 else "a fraction in 0 to 1")
        return 0.0

    def count(self, key: str) -> int:
        """Return a whole number above 0; 1 and a problem if there is none."""
        value = self.value(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LARGEST:
            return value
        self.refuse(key, "a whole number above 0")
        return 1

    def check(self) -> None:
        """Raise what is wrong so far."""
        if self._problems:
            raise RecordError(str(self._path), self._problems)


def _read_run(path: Path) -> ReleasedTraining:
    results, report = _Keys(path), _Keys(path.with_name("train_report.json"))
    history = _history(_Keys(path.with_name("dev_history.json")))
    pairs = report.count("plan.train_groups")
    step = report.count("best.step")
    chosen = [point for point in history if point.step == step]
    if not chosen:
        report.refuse("best.step", "a step of dev_history.json")
    peak, longest = report.value("peak_gpu_gib"), results.value("views.max_tokens")
    training = ReleasedTraining(
        arm=str(results.value("run")),
        seed=cast("int | None", results.value("seed")),
        steps=report.count("steps"),
        wall_seconds=report.number("wall_seconds"),
        peak_gib=None if peak is None else report.number("peak_gpu_gib"),
        views_per_pair=sum(_training_views(results)) / pairs,
        history=history,
        selected=chosen[0] if chosen else history[0],
        calibration=_calibration(results, path.with_name("calibration.json")),
        splits=_splits(results),
        longest_prompt=None if longest is None else results.count("views.max_tokens"),
        settings=dict(_settings(results.value("config"))),
    )
    results.check()
    report.check()
    return training


def _splits(results: _Keys) -> dict[str, dict[str, int]]:
    """Return the records of every split by kind; their sum is that of its primary views."""
    kinds = results.value("views.primary_kinds")
    splits: dict[str, dict[str, int]] = {}
    for name in kinds if isinstance(kinds, dict) else ():
        split, _, kind = name.partition("/")
        count = results.count(f"views.primary_kinds.{name}")
        splits.setdefault(split, {})["boolean" if kind == "noul" else kind] = count
    for split, counts in splits.items():
        place, total = f"views.views.{split}/primary", sum(counts.values())
        if results.value(place) != total:
            results.refuse(place, f"{total:,}, the sum of the kinds in views.primary_kinds")
    return splits


def _settings(value: Json, key: str = "") -> Iterator[tuple[str, Json]]:
    """Yield the settings below a key; lists of objects, such as that of the runs, are left out."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _settings(item, f"{key}.{name}" if key else name)
    elif key and not (isinstance(value, list) and any(isinstance(item, dict) for item in value)):
        yield key, value


def _training_views(results: _Keys) -> Iterator[float]:
    """Yield the number of training views of each type: primary, permuted, ablated."""
    views = results.value("views.views")
    names = [name for name in views if name.startswith("train/")] if isinstance(views, dict) else []
    if not names:
        results.refuse("views.views", "numbers of training views")
    for name in names:
        yield results.number(f"views.views.{name}")
    results.check()


def _history(keys: _Keys) -> tuple[SelectionPoint, ...]:
    """Return the selection split by step; the last step may be evaluated twice."""
    entries = keys.content
    if not isinstance(entries, list) or not entries:
        keys.refuse("0", "a list of selections with step and summary")
        entries = []
    points: dict[int, SelectionPoint] = {}
    for at in range(len(entries)):
        step, nll, accuracy = (
            keys.count(f"{at}.step"),
            keys.number(f"{at}.summary.all.nll"),
            keys.number(f"{at}.summary.all.accuracy", most=1.0),
        )
        points.setdefault(step, SelectionPoint(step, nll, accuracy))
    keys.check()
    return tuple(points[step] for step in sorted(points))


def _calibration(results: _Keys, path: Path) -> ReleasedCalibration | None:
    if results.value(f"holdout.{SINGLE_CALIBRATED}") is None:
        return None
    mean, low, high = (
        results.number(f"calibration.temperature_{name}") for name in ("mean", "min", "max")
    )
    before, after = (
        results.number(f"calibration.ece_{when}", most=1.0) for when in ("before", "after")
    )
    results.check()
    calibrator = _calibrator(_Keys(path), path)
    return ReleasedCalibration(calibrator, TemperatureSummary(mean, low, high), before, after)


def _calibrator(keys: _Keys, path: Path) -> Calibrator:
    bias = keys.value("weights.bias")
    names = [f"weights.bias.{at}" for at in range(len(bias) if isinstance(bias, list) else 0)]
    values = []
    for name in (*names, "weights.log_choices", "weights.log_tokens"):
        number = finite_number(keys.value(name))
        if number is None:
            keys.refuse(name, "a number")
        values.append(number or 0.0)
    keys.check()
    *biases, log_choices, log_tokens = values
    weights = Weights(cast("tuple[float, float, float]", tuple(biases)), log_choices, log_tokens)
    try:
        return Calibrator(cast("Mode", keys.value("mode")), weights)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
