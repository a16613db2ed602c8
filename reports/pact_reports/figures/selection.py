"""Selection trajectories, and what the selected checkpoints are worth on the holdout."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pact_eval.errors import InputError
from pact_eval.evaluation import CollectedRun, label_codes
from pact_eval.runs import SELECTION_NLL, training_log_of_run
from pact_eval.stats import Estimate, bootstrap_intervals, mean_statistic
from pact_reports.figures.axes import arms_and_seeds, counts_text, headed, inert
from pact_reports.figures.bands import FloatArray
from pact_reports.figures.figure import Built, FigureRequest, Plate, each_run
from pact_reports.figures.style import RunStyles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "SelectionFigure",
    "Trajectory",
    "build_selection",
    "draw_holdout",
    "draw_trajectories",
    "selection_figure",
]


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One run's way through the selection split.

    Attributes:
        arm: its name.
        seed: or None.
        steps: (m,) training steps at which the selection split was looked at.
        nll_nats: (m,) its NLL there.
        selected_step: that of the lowest.
        selected_nll_nats: the lowest.
        accuracy: on the holdout, a fraction, with its 95% bootstrap interval over families.
    """

    arm: str
    seed: int | None
    steps: npt.NDArray[np.int64]
    nll_nats: FloatArray
    selected_step: int
    selected_nll_nats: float
    accuracy: Estimate


@dataclass(frozen=True, eq=False)
class SelectionFigure:
    """The trajectories of all runs that have one.

    Attributes:
        runs: in their order.
        styles: looks of arms and seeds.
    """

    runs: tuple[Trajectory, ...]
    styles: RunStyles


def selection_figure(request: FigureRequest, run: CollectedRun) -> Trajectory:
    """Read a run's selection trajectory, and compute its accuracy on the holdout.

    Raises:
        InputError: the run has no training log, or one without selection NLL.
    """
    log = training_log_of_run(run.run)
    steps, nll = log.known(SELECTION_NLL)
    selected, lowest = log.selected
    items = request.scored(run)
    family = label_codes(items.predictions.family)
    n_families, n = int(family.max()) + 1, len(family)
    accuracy = bootstrap_intervals(
        {"accuracy": mean_statistic(items.correct, family, n_families)},
        n_clusters=n_families,
        n=n,
        rng=request.rng,
        resamples=request.resamples_for(n),
    )["accuracy"]
    return Trajectory(run.arm, run.seed, steps, nll, selected, lowest, accuracy)


def draw_trajectories(result: SelectionFigure, ax: Axes) -> Axes:
    """Draw selection NLL against training steps; a star stands at the selected checkpoint."""
    for run in result.runs:
        style = result.styles.arms[run.arm]
        dash = result.styles.dash(run.seed)
        ax.plot(run.steps, run.nll_nats, color=style.colour, linestyle=dash, linewidth=0.9)
        ax.scatter(
            [run.selected_step],
            [run.selected_nll_nats],
            s=45,
            marker="*",
            color=style.colour,
            edgecolors="white",
            linewidths=0.4,
            zorder=4,
        )
    ax.set_xlabel("Training step")
    ax.set_ylabel("Selection NLL (nats)")
    headed(ax, "", f"n = {len(result.runs)} training runs; stars: selected checkpoints")
    arms_and_seeds(ax, result.runs, result.styles)
    return inert(ax)


def draw_holdout(result: SelectionFigure, ax: Axes) -> Axes:
    """Draw holdout accuracy against the lowest selection NLL; whiskers are over families."""
    for run in result.runs:
        style = result.styles.arms[run.arm]
        accuracy = run.accuracy
        ends = [[100 * (accuracy.value - accuracy.low)], [100 * (accuracy.high - accuracy.value)]]
        ax.errorbar(
            run.selected_nll_nats,
            100 * accuracy.value,
            yerr=None if math.isnan(accuracy.low) else ends,
            color=style.colour,
            marker=style.marker,
            markersize=4.5,
            elinewidth=0.8,
            capsize=1.5,
        )
    n = {(run.accuracy.n, run.accuracy.clusters) for run in result.runs}
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel("Selection NLL of the selected checkpoint (nats)")
    ax.set_ylabel("Holdout accuracy (%)")
    counts = counts_text(*n.pop()) if len(n) == 1 else "n differs from run to run"
    headed(ax, "", f"{counts}; whiskers: 95% over families")
    return inert(ax)


def build_selection(request: FigureRequest) -> Built:
    """Build the plate of trajectories and holdout accuracy."""
    found: list[Trajectory] = []

    def gather(run: CollectedRun) -> Plate:
        found.append(selection_figure(request, run))
        return Plate("selection", "", ())

    missing = each_run(request, gather).missing
    if not found:
        raise InputError("; ".join(missing))
    result = SelectionFigure(tuple(found), request.styles)
    title = "Selection NLL over training, and holdout accuracy of the selected checkpoints"
    panels = (partial(draw_trajectories, result), partial(draw_holdout, result))
    return Built((Plate("selection", title, panels, height=4.3),), missing)
