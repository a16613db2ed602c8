"""Temperatures: T(x) against prompt length for each C, and against C for every run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pact_eval.calibration import Calibrator
from pact_eval.errors import InputError
from pact_eval.evaluation import CollectedRun
from pact_eval.runs import Predictions
from pact_reports.figures.axes import arms_and_seeds, headed, inert, legend_below
from pact_reports.figures.bands import FloatArray
from pact_reports.figures.figure import Built, FigureRequest, Plate, each_run
from pact_reports.figures.names import run_stem
from pact_reports.figures.style import MUTED, RunStyles, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ChoicesFigure",
    "LengthCurve",
    "LengthFigure",
    "RunTemperatures",
    "build_choices",
    "build_length",
    "draw_choices",
    "draw_length",
    "length_figure",
    "temperatures_by_choices",
]

_POINTS = 60
_MIDDLE = (5.0, 95.0)
_RAMP = ("#00204C", "#31446B", "#575C6D", "#7C7B78", "#A69C6B", "#C9B252")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")


@dataclass(frozen=True, eq=False)
class LengthCurve:
    """T(x) of the items with one number of answers.

    Attributes:
        n_choices: C.
        items: with so many answers.
        tokens: (points,) prompt lengths from their shortest to their longest.
        temperature: (points,) T there.
        middle: lengths between which 90% of the items lie.
    """

    n_choices: int
    items: int
    tokens: FloatArray
    temperature: FloatArray
    middle: tuple[float, float]


@dataclass(frozen=True, eq=False)
class LengthFigure:
    """T(x) against prompt length for each C of one run.

    Attributes:
        title: of the run.
        curves: by ascending C.
        items: behind them.
        identified: whether the data of the fit told the slope on length, as the calibrator's file
            says; None where it does not say.
    """

    title: str
    curves: tuple[LengthCurve, ...]
    items: int
    identified: bool | None


@dataclass(frozen=True, eq=False)
class RunTemperatures:
    """Temperature against C of one run.

    Attributes:
        run: label.
        arm: its name.
        seed: or None.
        n_choices: (m,) each C among its items.
        temperature: (m,) mean T of the items with C answers, were their prompts of one length.
        identified: whether the fit's data told the slope on C; None where nobody says.
    """

    run: str
    arm: str
    seed: int | None
    n_choices: npt.NDArray[np.int64]
    temperature: FloatArray
    identified: bool | None


@dataclass(frozen=True, eq=False)
class ChoicesFigure:
    """T against C for every run with a calibrator.

    Attributes:
        runs: in their order.
        tokens: prompt length at which T is taken; NaN where no run knows its lengths.
        styles: looks of arms and seeds.
    """

    runs: tuple[RunTemperatures, ...]
    tokens: float
    styles: RunStyles


def length_figure(run: CollectedRun) -> LengthFigure:
    """Compute T(x) against the prompt length for each number of answers of a run's items.

    Raises:
        InputError: the run has no calibrator, one that does not depend on the length, or does not
            know the lengths of its prompts.
    """
    calibrator = _calibrator(run)
    if not calibrator.weights.log_tokens:
        form = f"{calibrator.mode} calibrator"
        message = f"T(x) does not depend on prompt length ({form})"
        raise InputError(message)
    predictions = run.predictions
    if np.isnan(predictions.prompt_tokens).any():
        message = "the run does not know how long its prompts are"
        raise InputError(message)
    curves = []
    for c in np.unique(predictions.n_choices).tolist():
        rows = predictions.n_choices == c
        lengths = predictions.prompt_tokens[rows]
        low, high = np.percentile(lengths, _MIDDLE).tolist()
        ends = sorted({*np.linspace(lengths.min(), lengths.max(), _POINTS).tolist(), low, high})
        tokens = np.array(ends)
        kinds = np.full(tokens.size, predictions.kind[rows][0])
        temperature = calibrator.temperatures(kinds, np.full(tokens.size, c), tokens)
        curves.append(LengthCurve(c, int(rows.sum()), tokens, temperature, (low, high)))
    identified = _identified(calibrator, "log_tokens")
    return LengthFigure(run.label, tuple(curves), len(predictions), identified)


def temperatures_by_choices(request: FigureRequest) -> ChoicesFigure:
    """Compute T against C for every run with a calibrator, at the median prompt length of all.

    Raises:
        InputError: no run has a calibrator.
    """
    runs = [run for run in request.collection.runs if run.calibrator is not None]
    if not runs:
        message = "no run has a calibrator"
        raise InputError(message)
    lengths = np.concatenate([run.predictions.prompt_tokens for run in runs])
    known = lengths[~np.isnan(lengths)]
    tokens = float(np.median(known)) if known.size else math.nan
    return ChoicesFigure(tuple(_by_choices(run, tokens) for run in runs), tokens, request.styles)


def _by_choices(run: CollectedRun, tokens: float) -> RunTemperatures:
    calibrator, predictions = _calibrator(run), run.predictions
    temperature = _at_length(calibrator, predictions, tokens)
    choices = np.unique(predictions.n_choices)
    return RunTemperatures(
        run=run.label,
        arm=run.arm,
        seed=run.seed,
        n_choices=choices,
        temperature=np.array([temperature[predictions.n_choices == c].mean() for c in choices]),
        identified=_identified(calibrator, "log_choices"),
    )


def _at_length(calibrator: Calibrator, predictions: Predictions, tokens: float) -> FloatArray:
    lengths = np.full(len(predictions), tokens)
    return calibrator.temperatures(predictions.kind, predictions.n_choices, lengths)


def _calibrator(run: CollectedRun) -> Calibrator:
    if run.calibrator is None:
        message = "no calibrator"
        raise InputError(message)
    return run.calibrator


def _identified(calibrator: Calibrator, parameter: str) -> bool | None:
    """Return what the calibrator's file says of a parameter; None where it says nothing."""
    listed = (calibrator.fit or {}).get("parameters")
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, Mapping) and each.get("name") == parameter:
            said = each.get("identified")
            return said if isinstance(said, bool) else None
    return None


def draw_length(result: LengthFigure, ax: Axes) -> Axes:
    """Draw T(x) against the prompt length: thick where 90% of the items lie, thin beyond."""
    handles, labels = [], []
    for number, curve in enumerate(result.curves):
        place = number * (len(_RAMP) - 1) / max(1, len(result.curves) - 1)
        colour = _RAMP[round(place)]
        inside = (curve.tokens >= curve.middle[0]) & (curve.tokens <= curve.middle[1])
        ax.plot(curve.tokens, curve.temperature, color=colour, linewidth=0.6)
        (line,) = ax.plot(
            curve.tokens[inside],
            curve.temperature[inside],
            color=colour,
            linewidth=1.6,
            marker=_MARKERS[number % len(_MARKERS)],
            markevery=max(1, int(inside.sum()) // 4),
        )
        handles.append(line)
        labels.append(f"C = {curve.n_choices} ({curve.items:,})")
    _neutral(ax)
    ax.set_xlabel("Prompt length L (tokens)")
    ax.set_ylabel("Temperature T(x) (no unit)")
    below = f"n = {result.items:,} items; thick: middle 90% of lengths"
    headed(ax, shown(result.title), below)
    key = "allowed answers C (items)"
    if result.identified is False:
        key += "; slope on L not identified"
    legend_below(ax, handles, labels, ncols=3, title=key)
    return inert(ax)


def draw_choices(result: ChoicesFigure, ax: Axes) -> Axes:
    """Draw T against C for every run; hollow markers where the slope on C is not identified."""
    for run in result.runs:
        style = result.styles.arms[run.arm]
        ax.plot(
            run.n_choices,
            run.temperature,
            color=style.colour,
            linestyle=result.styles.dash(run.seed),
            marker=style.marker,
            markerfacecolor="white" if run.identified is False else style.colour,
        )
    _neutral(ax)
    ax.set_xticks(sorted({int(c) for run in result.runs for c in run.n_choices}))
    ax.set_xlabel("Allowed answers C")
    length = "" if math.isnan(result.tokens) else f" at L = {result.tokens:,.0f} tokens"
    ax.set_ylabel("Temperature T (no unit)")
    below = f"n = {len(result.runs)} run{'s' if len(result.runs) > 1 else ''}{length}"
    if any(run.identified is False for run in result.runs):
        below += "; hollow: slope not identified"
    headed(ax, "", below)
    arms_and_seeds(ax, result.runs, result.styles)
    return inert(ax)


def _neutral(ax: Axes) -> None:
    ax.axhline(1.0, color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)), zorder=0)


def build_length(request: FigureRequest) -> Built:
    """Build one plate a run with a calibrator that depends on the length."""

    def plate(run: CollectedRun) -> Plate:
        panel = partial(draw_length, length_figure(run))
        title = f"Temperature T(x) of {run.label} against prompt length, for each number of answers"
        return Plate(run_stem("temperature-length", run), title, (panel,), height=2.7)

    return each_run(request, plate)


def build_choices(request: FigureRequest) -> Built:
    """Build the plate of T against C."""
    result = temperatures_by_choices(request)
    title = "Temperature T against the number of allowed answers C, for every run"
    without = [run.label for run in request.collection.runs if run.calibrator is None]
    missing = tuple(f"{label}: no calibrator" for label in without)
    panel = partial(draw_choices, result)
    return Built((Plate("temperature-choices", title, (panel,), height=2.7),), missing)
