"""Temperatures: T(x) against prompt length for each C, and against C for every run."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.curves.temperatures import (
    TemperatureByChoices,
    TemperatureByLength,
    temperature_by_choices,
    temperature_by_length,
)
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_reports.figures.axes import arms_and_seeds, headed, inert, legend_below
from pact_reports.figures.figure import Built, FigureFile, each_run, run_stem
from pact_reports.figures.style import MUTED, PAPER, Looks, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RAMP = ("#00204C", "#31446B", "#575C6D", "#7C7B78", "#A69C6B", "#C9B252")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")


def draw_length(result: TemperatureByLength, ax: Axes, names: ArmNames = KEYS) -> Axes:
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
    headed(ax, shown(names.run(result.run)), below)
    key = "allowed answers C (items)"
    if result.identified is False:
        key += "; slope on L not identified"
    legend_below(ax, handles, labels, title=key)
    return inert(ax)


def draw_choices(result: TemperatureByChoices, ax: Axes, looks: Looks) -> Axes:
    """Draw T against C for every run; hollow markers where the slope on C is not identified."""
    for run in result.runs:
        style = looks.arms[run.arm]
        ax.plot(
            run.n_choices,
            run.temperature,
            color=style.colour,
            linestyle=looks.dash(run.seed),
            marker=style.marker,
            markerfacecolor=PAPER if run.identified is False else style.colour,
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
    arms_and_seeds(ax, result.runs, looks)
    return inert(ax)


def _neutral(ax: Axes) -> None:
    ax.axhline(1.0, color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)), zorder=0)


def build_length(experiment: Experiment, looks: Looks) -> Built:
    """Build one file per run with a calibrator that depends on the length."""

    def file(run: ExperimentRun) -> FigureFile:
        panel = partial(draw_length, temperature_by_length(run), names=looks.names)
        name = looks.names.run(run.label)
        title = f"Temperature T(x) of {name} against prompt length, for each number of answers"
        return FigureFile(run_stem("temperature-length", run), title, (panel,), inches=2.0)

    return each_run(experiment, looks, file)


def build_choices(experiment: Experiment, looks: Looks) -> Built:
    """Build the file of T against C."""
    panel = partial(draw_choices, temperature_by_choices(experiment), looks=looks)
    title = "Temperature T against the number of allowed answers C, for every run"
    without = [run.label for run in experiment.runs if run.calibrator is None]
    missing = tuple(f"{looks.names.run(label)}: no calibrator" for label in without)
    return Built((FigureFile("temperature-choices", title, (panel,), inches=2.0),), missing)
