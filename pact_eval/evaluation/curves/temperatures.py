"""Temperatures of calibrators: T(x) against prompt length, and against the number of answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray
from pact_eval.calibration.temperatures import Calibrator
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun

_LENGTHS: Final = 60
_MIDDLE: Final = (5.0, 95.0)


@dataclass(frozen=True, eq=False)
class LengthCurve:
    """T(x) of the items with one number of answers.

    Attributes:
        n_choices: number of answers, C.
        items: number of items with C answers.
        tokens: (points,) prompt lengths, from the shortest to the longest of these items.
        temperature: (points,) T at these lengths.
        middle: 5th and 95th percentiles of the lengths of these items.
    """

    n_choices: int
    items: int
    tokens: FloatArray
    temperature: FloatArray
    middle: tuple[float, float]


@dataclass(frozen=True, eq=False)
class TemperatureByLength:
    """T(x) against prompt length for each number of answers, for one run.

    Attributes:
        run: label of the run.
        curves: the curves, by ascending C.
        items: number of items of all curves.
        identified: whether the data of the fit identify the slope on length, according to the
            calibrator's file; None if unknown.
    """

    run: str
    curves: tuple[LengthCurve, ...]
    items: int
    identified: bool | None


@dataclass(frozen=True, eq=False)
class RunTemperatures:
    """T against the number of answers, for one run.

    Attributes:
        run: label of the run.
        arm: arm of the run.
        seed: seed of the run, or None.
        n_choices: (m,) each C that occurs in its items.
        temperature: (m,) mean T of the items with C answers, at one prompt length.
        identified: whether the data of the fit identify the slope on C; None if unknown.
    """

    run: str
    arm: str
    seed: int | None
    n_choices: npt.NDArray[np.int64]
    temperature: FloatArray
    identified: bool | None


@dataclass(frozen=True, eq=False)
class TemperatureByChoices:
    """T against the number of answers, for every run with a calibrator.

    Attributes:
        runs: the runs, in order.
        tokens: prompt length at which T is computed; NaN if no run records prompt lengths.
    """

    runs: tuple[RunTemperatures, ...]
    tokens: float


def temperature_by_length(run: ExperimentRun) -> TemperatureByLength:
    """Compute T(x) against the prompt length, for each number of answers of a run's items.

    Raises:
        InputError: the run has no calibrator, its calibrator does not depend on the length, or the
            run does not record prompt lengths.
    """
    calibrator = _calibrator(run)
    if not calibrator.weights.log_tokens:
        message = f"T(x) does not depend on prompt length ({calibrator.mode} calibrator)"
        raise InputError(message)
    predictions = run.predictions
    if np.isnan(predictions.prompt_tokens).any():
        message = "the run does not know its prompt lengths"
        raise InputError(message)
    curves = []
    for c in np.unique(predictions.n_choices).tolist():
        rows = predictions.n_choices == c
        lengths = predictions.prompt_tokens[rows]
        low, high = np.percentile(lengths, _MIDDLE).tolist()
        even = np.linspace(lengths.min(), lengths.max(), _LENGTHS).tolist()
        tokens = np.array(sorted({*even, low, high}))
        kinds = np.full(tokens.size, predictions.kind[rows][0])
        temperature = calibrator.temperatures(kinds, np.full(tokens.size, c), tokens)
        curves.append(LengthCurve(c, int(rows.sum()), tokens, temperature, (low, high)))
    identified = _identified(calibrator, "log_tokens")
    return TemperatureByLength(run.label, tuple(curves), len(predictions), identified)


def temperature_by_choices(experiment: Experiment) -> TemperatureByChoices:
    """Compute T against C for every run with a calibrator, at the median prompt length of the runs.

    Raises:
        InputError: no run has a calibrator.
    """
    runs = [run for run in experiment.runs if run.calibrator is not None]
    if not runs:
        message = "no run has a calibrator"
        raise InputError(message)
    lengths = np.concatenate([run.predictions.prompt_tokens for run in runs])
    recorded = lengths[~np.isnan(lengths)]
    tokens = float(np.median(recorded)) if recorded.size else math.nan
    return TemperatureByChoices(tuple(_run_temperatures(run, tokens) for run in runs), tokens)


def _run_temperatures(run: ExperimentRun, tokens: float) -> RunTemperatures:
    calibrator, views = _calibrator(run), run.predictions
    lengths = np.full(len(views), tokens)
    temperature = calibrator.temperatures(views.kind, views.n_choices, lengths)
    choices = np.unique(views.n_choices)
    return RunTemperatures(
        run=run.label,
        arm=run.arm,
        seed=run.seed,
        n_choices=choices,
        temperature=np.array([temperature[views.n_choices == c].mean() for c in choices]),
        identified=_identified(calibrator, "log_choices"),
    )


def _calibrator(run: ExperimentRun) -> Calibrator:
    if run.calibrator is None:
        message = "no calibrator"
        raise InputError(message)
    return run.calibrator


def _identified(calibrator: Calibrator, parameter: str) -> bool | None:
    """Return whether a parameter is identified, from the calibrator's file; None if unknown."""
    listed = (calibrator.fit or {}).get("parameters")
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, Mapping) and entry.get("name") == parameter:
            identified = entry.get("identified")
            return identified if isinstance(identified, bool) else None
    return None
