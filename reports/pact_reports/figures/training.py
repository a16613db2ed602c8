"""Training: loss terms, mean pair margin and ablated gap over the steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from pact_eval.errors import InputError
from pact_eval.evaluation import CollectedRun
from pact_eval.runs import TrainingLog, training_log_of_run
from pact_reports.figures.axes import headed, inert, legend_below
from pact_reports.figures.bands import FloatArray
from pact_reports.figures.figure import Built, FigureRequest, Plate, each_run
from pact_reports.figures.names import run_stem
from pact_reports.figures.style import MUTED, TERM_COLOURS, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "MARGIN_NATS",
    "Smoothed",
    "TrainingFigure",
    "build_training",
    "draw_distances",
    "draw_terms",
    "smoothed",
    "training_figure",
]

MARGIN_NATS: Final = 2.0
"""The margin m of the pair term as the paper has it."""

_TERMS: Final[Mapping[str, str]] = {
    "ce": "CE (nats)",
    "cf": "CF (nats)",
    "pc": "PC (nats)",
    "nr": "NR (nats²)",
    "emd": "EMD (no unit)",
}
_DISTANCES: Final[Mapping[str, str]] = {
    "pair_margin": "mean d",
    "ablated_gap": "mean ablated gap",
}
_DISTANCE_COLOURS = {"pair_margin": TERM_COLOURS["cf"], "ablated_gap": TERM_COLOURS["nr"]}
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (4, 1, 1, 1)), (0, (7, 1.5, 1.5, 1.5)))
_DECAY = 0.9
_MOST_POINTS = 1_500


@dataclass(frozen=True, eq=False)
class Smoothed:
    """One number over training.

    Attributes:
        steps: (m,) that say it.
        values: (m,) as logged.
        average: (m,) exponential moving average, see `smoothed`.
    """

    steps: npt.NDArray[np.int64]
    values: FloatArray
    average: FloatArray


@dataclass(frozen=True, eq=False)
class TrainingFigure:
    """How one run was trained.

    Attributes:
        title: of the run.
        steps: how many the log has.
        terms: loss terms without weight or ramp, by name, those that the log has.
        distances: mean pair margin and ablated gap in nats, by name, those that the log has.
    """

    title: str
    steps: int
    terms: Mapping[str, Smoothed]
    distances: Mapping[str, Smoothed]


def smoothed(values: FloatArray, decay: float = _DECAY) -> FloatArray:
    """Return the exponential moving average, corrected for its start.

    The average at step t is the mean of the values so far with weights decay^(t - s).

    Args:
        values: (m,) finite numbers.
        decay: in [0, 1).

    Example:
        >>> smoothed(np.array([1.0, 3.0]), 0.5).round(4).tolist()
        [1.0, 2.3333]
    """
    average = np.empty(len(values))
    total = weight = 0.0
    for number, value in enumerate(values.tolist()):
        total, weight = decay * total + value, decay * weight + 1
        average[number] = total / weight
    return average


def training_figure(run: CollectedRun) -> TrainingFigure:
    """Read the training log of a run's adapter, and smooth what it says.

    Raises:
        InputError: there is no log, or none of the numbers in it.
    """
    log = training_log_of_run(run.run)
    terms, distances = _found(log, _TERMS), _found(log, _DISTANCES)
    if not terms and not distances:
        said = ", ".join(log.columns) or "nothing"
        message = f"the training log has no loss terms, pair margin or ablated gap, only {said}"
        raise InputError(message)
    return TrainingFigure(run.label, len(log), terms, distances)


def _found(log: TrainingLog, names: Mapping[str, str]) -> dict[str, Smoothed]:
    found = {}
    for name in names:
        if not log.missing([name]):
            steps, values = log.known(name)
            found[name] = Smoothed(steps, values, smoothed(values))
    return found


def draw_terms(result: TrainingFigure, ax: Axes) -> Axes:
    """Draw the smoothed loss terms on a log axis; values of 0 have no place on it."""
    handles, labels = [], []
    for number, (name, term) in enumerate(result.terms.items()):
        every = _every(term)
        (line,) = ax.plot(
            term.steps[every],
            np.where(term.average > 0, term.average, np.nan)[every],
            color=TERM_COLOURS[name],
            linestyle=_DASHES[number % len(_DASHES)],
        )
        handles.append(line)
        labels.append(_TERMS[name])
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.yaxis.set_minor_formatter(lambda _value, _position: "")
    ax.set_ylabel("Loss term, unweighted\n(log scale)")
    ax.set_xlabel("Training step")
    headed(ax, shown(result.title), f"n = {result.steps:,} steps; moving average, decay {_DECAY}")
    legend_below(ax, handles, labels, ncols=3)
    return inert(ax)


def draw_distances(result: TrainingFigure, ax: Axes) -> Axes:
    """Draw mean pair margin and ablated gap: every step faint, the average on top."""
    handles, labels = [], []
    for number, (name, distance) in enumerate(result.distances.items()):
        colour, every = _DISTANCE_COLOURS[name], _every(distance)
        steps = distance.steps[every]
        ax.plot(steps, distance.values[every], color=colour, alpha=0.25, linewidth=0.5)
        (line,) = ax.plot(
            steps, distance.average[every], color=colour, linestyle=_DASHES[number % len(_DASHES)]
        )
        handles.append(line)
        labels.append(_DISTANCES[name])
    if "pair_margin" in result.distances:
        margin = ax.axhline(
            MARGIN_NATS, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)), zorder=0
        )
        handles.append(margin)
        labels.append(f"m = {MARGIN_NATS:g}")
    ax.axhline(0, color=MUTED, linewidth=0.5, zorder=0)
    ax.set_ylabel("Distance of answers\n(nats)")
    ax.set_xlabel("Training step")
    if not result.terms:
        headed(ax, shown(result.title), f"n = {result.steps:,} steps; average, decay {_DECAY}")
    legend_below(ax, handles, labels, ncols=3)
    return inert(ax)


def _every(term: Smoothed) -> slice:
    """Take every so many steps of a long training: a column has no room for more."""
    return slice(None, None, max(1, len(term.steps) // _MOST_POINTS))


def build_training(request: FigureRequest) -> Built:
    """Build one plate a run that has a training log."""

    def plate(run: CollectedRun) -> Plate:
        result = training_figure(run)
        panels = []
        if result.terms:
            panels.append(partial(draw_terms, result))
        if result.distances:
            panels.append(partial(draw_distances, result))
        title = f"Training of {run.label}: loss terms, mean pair margin and ablated gap"
        height = 0.3 + 1.9 * len(panels)
        return Plate(run_stem("training", run), title, tuple(panels), height=height)

    return each_run(request, plate)
