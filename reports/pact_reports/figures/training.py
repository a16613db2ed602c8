"""Training: loss terms, mean pair margin and ablated gap; selection of checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pact_eval.evaluation.arms.released_results import released_curves, released_figures
from pact_eval.evaluation.curves.training import (
    DECAY,
    TERMS,
    Smoothed,
    TrainingCurves,
    Trajectory,
    training_curves,
)
from pact_reports.figures.axes import (
    arms_and_seeds,
    counts_text,
    headed,
    log_decades,
    percents,
    with_legend,
    with_whiskers,
)
from pact_reports.figures.figure import Built, FigureFile, each_run, run_stem
from pact_reports.figures.style import MUTED, PAPER, Looks, shown
from pact_reports.request import Request

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARGIN_NATS: Final = 2.0
"""The margin m of the pair term, as in the paper."""

_TERM_LABELS: Final[Mapping[str, str]] = {
    "ce": "CE (nats)",
    "cf": "CF (nats)",
    "pc": "PC (nats)",
    "nr": "NR (nats²)",
    "emd": "EMD (no unit)",
}
_DISTANCE_LABELS: Final[Mapping[str, str]] = {
    "pair_margin": "mean d",
    "ablated_gap": "mean ablated gap",
}
_TERM_OF: Final[Mapping[str, str]] = {"pair_margin": "cf", "ablated_gap": "nr"}
"""The loss term that acts on a distance, whose colour it has."""

_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (4, 1, 1, 1)), (0, (7, 1.5, 1.5, 1.5)))
_MOST_POINTS = 1_500
_FEW_DECADES = 30  # powers of ten alone would label one tick or none


def draw_terms(result: TrainingCurves, ax: Axes, looks: Looks) -> Axes:
    """Draw the smoothed loss terms on a log axis; values of 0 are left out."""
    entries: dict[str, Any] = {}
    for number, (name, term) in enumerate(result.terms.items()):
        every = _every(term)
        (entries[_TERM_LABELS[name]],) = ax.plot(
            term.steps[every],
            np.where(term.average > 0, term.average, np.nan)[every],
            color=looks.palette.term_colour(name, TERMS.index(name)),
            linestyle=_DASHES[number % len(_DASHES)],
        )
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    if high < _FEW_DECADES * low:
        from matplotlib.ticker import LogLocator

        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    log_decades(ax.yaxis)
    ax.set(xlabel="Training step", ylabel="Loss term, unweighted\n(log scale)")
    below = f"n = {result.steps:,} steps; moving average, decay {DECAY}"
    headed(ax, shown(looks.names.run(result.run)), below)
    return with_legend(ax, entries)


def draw_distances(result: TrainingCurves, ax: Axes, looks: Looks) -> Axes:
    """Draw mean pair margin and ablated gap: every step faint, the average on top."""
    entries: dict[str, Any] = {}
    for number, (name, distance) in enumerate(result.distances.items()):
        term = _TERM_OF[name]
        colour = looks.palette.term_colour(term, TERMS.index(term))
        every = _every(distance)
        steps = distance.steps[every]
        ax.plot(steps, distance.values[every], color=colour, alpha=0.25, linewidth=0.5)
        (entries[_DISTANCE_LABELS[name]],) = ax.plot(
            steps, distance.average[every], color=colour, linestyle=_DASHES[number % len(_DASHES)]
        )
    if "pair_margin" in result.distances:
        entries[f"m = {MARGIN_NATS:g}"] = ax.axhline(
            MARGIN_NATS, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)), zorder=0
        )
    ax.axhline(0, color=MUTED, linewidth=0.5, zorder=0)
    ax.set(xlabel="Training step", ylabel="Distance of answers\n(nats)")
    if not result.terms:
        below = f"n = {result.steps:,} steps; average, decay {DECAY}"
        headed(ax, shown(looks.names.run(result.run)), below)
    return with_legend(ax, entries)


def _every(term: Smoothed) -> slice:
    """Thin out a long training, since a column has no room for more points."""
    return slice(None, None, max(1, len(term.steps) // _MOST_POINTS))


def draw_trajectories(
    runs: Sequence[Trajectory], ax: Axes, looks: Looks, *, accuracy: bool = False
) -> Axes:
    """Draw selection NLL against training steps; a star marks the selected checkpoint.

    Args:
        runs: the trainings.
        ax: the panel.
        looks: of arms and seeds.
        accuracy: draw the selection accuracy instead, of the runs that know it.
    """
    drawn = [run for run in runs if not accuracy or run.selection_accuracy is not None]
    for run in drawn:
        colour, dash = looks.arms[run.arm].colour, looks.dash(run.seed)
        values = 100 * np.asarray(run.selection_accuracy) if accuracy else run.nll_nats
        ax.plot(run.steps, values, color=colour, linestyle=dash, linewidth=0.9)
        star: dict[str, Any] = {"s": 45, "marker": "*", "edgecolors": PAPER, "linewidths": 0.4}
        best = values[run.steps == run.selected_step][:1]
        ax.scatter([run.selected_step], best, color=colour, zorder=4, **star)
    ax.set_ylabel("Selection accuracy (%)" if accuracy else "Selection NLL (nats)")
    ax.set_xlabel("Training step")
    headed(ax, "", f"n = {len(drawn)} training runs; stars: selected checkpoints")
    return with_legend(ax, arms_and_seeds(ax, [(run.arm, run.seed) for run in drawn], looks))


def draw_holdout(runs: Sequence[Trajectory], ax: Axes, looks: Looks) -> Axes:
    """Draw holdout accuracy against the lowest selection NLL; whiskers are 95% over families."""
    for run in runs:
        style = looks.arms[run.arm]
        look = {"marker": style.marker, "elinewidth": 0.8, "capsize": 1.5}
        nll, accuracy = run.selected_nll_nats, percents(run.accuracy)
        with_whiskers(ax, nll, accuracy, style.colour, **look)
    n = {(run.accuracy.n, run.accuracy.clusters) for run in runs}
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel("Selection NLL of the selected checkpoint (nats)")
    ax.set_ylabel("Holdout accuracy (%)")
    items, families = n.pop() if len(n) == 1 else (0, 0)
    counts = counts_text(items, families or None) if items else "n differs between runs"
    headed(ax, "", f"{counts}; whiskers: 95% over families" if families else counts)
    return with_legend(ax, {})


def build_training(request: Request) -> Built:
    """Build one file per run that has a training log."""
    looks = request.looks

    def file(label: str, result: TrainingCurves, name: str = "training") -> FigureFile:
        drawn = ((draw_terms, result.terms), (draw_distances, result.distances))
        panels = tuple(partial(draw, result, looks=looks) for draw, curves in drawn if curves)
        title = f"Training of {looks.names.run(label)}"
        shows = "loss terms, mean pair margin and ablated gap"
        return FigureFile(name, title, panels, inches=1.75, shows=shows)

    if request.published is None:
        runs = request.experiment.runs
        return each_run(request, runs, lambda run, _: file(run.label, training_curves(run)))
    return Built(
        tuple(
            file(data.label, released_curves(data), run_stem("training", *data.run))
            for data in released_figures(request.published)
        )
    )


def build_selection(request: Request) -> Built:
    """Build the file of trajectories and holdout accuracy."""
    runs, missing = request.trajectories
    panels = [partial(draw_trajectories, runs, looks=request.looks)]
    if any(run.selection_accuracy is not None for run in runs):
        panels.append(partial(draw_trajectories, runs, looks=request.looks, accuracy=True))
    panels.append(partial(draw_holdout, runs, looks=request.looks))
    title = "Selection NLL over training, and holdout accuracy of the selected checkpoints"
    return Built((FigureFile("selection", title, tuple(panels), inches=1.95),), missing)
