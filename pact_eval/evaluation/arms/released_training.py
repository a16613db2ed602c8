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
from typing import Any, Final

import msgspec

from pact_eval._json import Json
from pact_eval.calibration.temperatures import Calibrator, TemperatureSummary, read_calibrator
from pact_eval.evaluation.arms.published_paths import result_files
from pact_eval.evaluation.arms.released_folder import (
    expect_counts,
    expect_share,
    read_released,
    released_error,
)
from pact_eval.evaluation.registry import SINGLE_CALIBRATED
from pact_eval.schema import Section

_RUN_FILE: Final = "results.json"


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
        InputError: a file of a run is missing or cannot be read, or a key is missing or has a wrong
            value; the message says where, what was expected and what to do.
    """
    if not path.is_dir():
        return []
    return [_read_run(file) for file in result_files(path) if file.name == _RUN_FILE]


class _Plan(Section, frozen=True):
    train_groups: int


class _Best(Section, frozen=True):
    step: int


class _Report(Section, frozen=True):
    """Training of a run."""

    plan: _Plan
    best: _Best
    steps: int
    wall_seconds: float
    peak_gpu_gib: float | None = None

    def __post_init__(self) -> None:
        expect_counts({"plan: train_groups": self.plan.train_groups, "steps": self.steps})
        if min(self.wall_seconds, self.peak_gpu_gib or 0) < 0:
            raise ValueError("wall_seconds, peak_gpu_gib: expected numbers of at least 0")


class _AllItems(Section, frozen=True):
    nll: float
    accuracy: float

    def __post_init__(self) -> None:
        expect_share("accuracy", self.accuracy)
        if self.nll < 0:
            raise ValueError(f"nll: expected a number of at least 0, got {self.nll:g}")


class _Summary(Section, frozen=True):
    all: _AllItems


class _Selection(Section, frozen=True):
    """The selection split at a step of training."""

    step: int
    summary: _Summary

    def __post_init__(self) -> None:
        expect_counts({"step": self.step})


class _Views(Section, frozen=True):
    """Views by split and type, and records of every split by kind."""

    views: dict[str, int]
    primary_kinds: dict[str, int] = msgspec.field(default_factory=dict)
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if not any(name.startswith(_TRAINED) for name in self.views):
            raise ValueError("views: expected numbers of training views, train/...")
        expect_counts({**self.views, **self.primary_kinds}, least=0)
        expect_counts({} if self.max_tokens is None else {"max_tokens": self.max_tokens})
        for split, counts in self.splits.items():
            name, total = f"{split}/primary", sum(counts.values())
            if self.views.get(name) != total:
                got = self.views.get(name, "none")
                raise ValueError(f"views: {name}: expected {total:,}, all kinds, got {got}")

    @property
    def splits(self) -> dict[str, dict[str, int]]:
        """Records of every split by kind."""
        splits: dict[str, dict[str, int]] = {}
        for name, count in self.primary_kinds.items():
            split, _, kind = name.partition("/")
            splits.setdefault(split, {})["boolean" if kind == "noul" else kind] = count
        return splits


class _Fit(Section, frozen=True):
    """T(x) of the split of the fit, and its ECE."""

    temperature_mean: float
    temperature_min: float
    temperature_max: float
    ece_before: float
    ece_after: float

    def __post_init__(self) -> None:
        expect_share("ece_before", self.ece_before)
        expect_share("ece_after", self.ece_after)
        if self.temperature_min < 0:
            raise ValueError("temperature_min: expected a number of at least 0")


class _Results(Section, frozen=True):
    """What the results of a run say in addition to its metrics."""

    run: str
    views: _Views
    holdout: dict[str, Any]
    seed: int | None = None
    calibration: _Fit | None = None
    config: dict[str, Any] = msgspec.field(default_factory=dict)


_TRAINED: Final = "train/"


def _read_run(path: Path) -> ReleasedTraining:
    results, report_file = read_released(path, _Results), path.with_name("train_report.json")
    report = read_released(report_file, _Report)
    history_file = path.with_name("dev_history.json")
    selections = read_released(history_file, tuple[_Selection, ...])
    if not selections:
        raise released_error(history_file, ValueError("expected a list of selections, got none"))
    points: dict[int, SelectionPoint] = {}
    for entry in selections:  # the last step may be evaluated twice
        numbers = entry.summary.all
        points.setdefault(entry.step, SelectionPoint(entry.step, numbers.nll, numbers.accuracy))
    selected = points.get(report.best.step)
    if selected is None:
        error = ValueError("best: step: expected a step of dev_history.json")
        raise released_error(report_file, error)
    trained = (n for name, n in results.views.views.items() if name.startswith(_TRAINED))
    return ReleasedTraining(
        arm=results.run,
        seed=results.seed,
        steps=report.steps,
        wall_seconds=report.wall_seconds,
        peak_gib=report.peak_gpu_gib,
        views_per_pair=sum(trained) / report.plan.train_groups,
        history=tuple(points[step] for step in sorted(points)),
        selected=selected,
        calibration=_calibration(results, path),
        splits=results.views.splits,
        longest_prompt=results.views.max_tokens,
        settings=dict(_settings(results.config)),
    )


def _settings(value: Json, key: str = "") -> Iterator[tuple[str, Json]]:
    """Yield the settings below a key; lists of objects, such as that of the runs, are left out."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _settings(item, f"{key}.{name}" if key else name)
    elif key and not (isinstance(value, list) and any(isinstance(item, dict) for item in value)):
        yield key, value


def _calibration(results: _Results, path: Path) -> ReleasedCalibration | None:
    if results.holdout.get(str(SINGLE_CALIBRATED)) is None:
        return None
    fit = results.calibration
    if fit is None:
        raise released_error(path, ValueError("calibration: expected the numbers of the fit"))
    file = path.with_name("calibration.json")
    if not file.exists():
        raise released_error(file, ValueError("no such file; expected the calibrator of the run"))
    temperature = TemperatureSummary(fit.temperature_mean, fit.temperature_min, fit.temperature_max)
    return ReleasedCalibration(read_calibrator(file), temperature, fit.ece_before, fit.ece_after)
