"""Curves of arms over their items: risk against coverage, and the distribution of view TV."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pact_eval.evaluation import Experiment
from pact_eval.evaluation.curves import ArmCurve, ArmCurves, risk_coverage, view_tv_distribution
from pact_reports.figures.axes import (
    counts_text,
    headed,
    inert,
    legend_below,
    legend_inches,
    log_decades,
)
from pact_reports.figures.figure import Built, FigureFile
from pact_reports.figures.style import Looks, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN_FROM = 0.05


def draw_risk_coverage(result: ArmCurves, ax: Axes, looks: Looks) -> Axes:
    """Draw every arm's mean curve with its band, and thin curves of its seeds."""
    handles, labels = [], []
    for arm in result.arms:
        style = looks.arms[arm.arm]
        _draw_arm(ax, 100 * result.x, arm, looks)
        (line,) = ax.plot(
            100 * result.x,
            100 * arm.mean,
            color=style.colour,
            marker=style.marker,
            markevery=max(1, len(result.x) // 6),
        )
        handles.append(line)
        labels.append(f"{shown(arm.arm, 20)}: AURC {100 * float(np.mean(arm.summary)):.1f}%")
    seen = result.x >= _SHOWN_FROM
    tops = [np.nanmax(np.r_[arm.band.high[seen], arm.mean[seen]]) for arm in result.arms]
    ax.set_xlim(0, 100)
    ax.set_ylim(0, max(1.0, 105 * float(max(tops))))
    ax.set_xlabel("Coverage: most confident items kept (%)")
    ax.set_ylabel("Error rate among them (%)")
    headed(ax, "", f"{counts_text(result.items, result.families)}; bands: 95%")
    legend_below(ax, handles, labels)
    return inert(ax)


def draw_view_tv(result: ArmCurves, ax: Axes, looks: Looks) -> Axes:
    """Draw cumulative shares against view TV on a log axis, with a marker at an arm's mean TV."""
    handles, labels = [], []
    for arm in result.arms:
        style = looks.arms[arm.arm]
        _draw_arm(ax, result.x, arm, looks)
        (line,) = ax.plot(result.x, 100 * arm.mean, color=style.colour)
        mean = float(np.mean(arm.summary))
        if mean > 0:
            height = float(np.interp(np.log(mean), np.log(result.x), 100 * arm.mean))
            (line,) = ax.plot(
                [mean],
                [height],
                color=style.colour,
                marker=style.marker,
                markersize=5,
                markeredgecolor="white",
                markeredgewidth=0.5,
            )
        handles.append(line)
        labels.append(f"{shown(arm.arm, 20)}: mean {100 * mean:.1f}%")
    ax.set_xscale("log")
    ax.set_xlim(float(result.x[0]), 1.0)
    log_decades(ax.xaxis, percent=True)
    ax.set_ylim(0, 101)
    ax.set_xlabel("View TV of an item (%, log scale)")
    ax.set_ylabel("Items with that TV or less (%)")
    headed(ax, "", f"{counts_text(result.items, result.families)}; bands: 95%")
    legend_below(ax, handles, labels)
    return inert(ax)


def _draw_arm(ax: Axes, x: Any, arm: ArmCurve, looks: Looks) -> None:
    """Draw the band of an arm's mean and, if there are several, a thin line per run."""
    colour = looks.arms[arm.arm].colour
    low, high = 100 * arm.band.low, 100 * arm.band.high
    ax.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)
    for seed, curve in zip(arm.seeds, arm.by_run, strict=True):
        if len(arm.seeds) > 1:
            dash = looks.dash(seed)
            ax.plot(x, 100 * curve, color=colour, alpha=0.6, linewidth=0.5, linestyle=dash)


def _height(result: ArmCurves) -> float:
    """Return the height in inches of a file of curves with its legend below."""
    return 2.3 + legend_inches([f"{shown(arm.arm, 20)}: AURC 00.0%" for arm in result.arms])


def build_risk_coverage(experiment: Experiment, looks: Looks) -> Built:
    """Build the file of risk against coverage."""
    result = risk_coverage(experiment)
    title = "Risk-coverage: error rate among the most confident items, 95% bands over families"
    panel = partial(draw_risk_coverage, result, looks=looks)
    return Built((FigureFile("risk-coverage", title, (panel,), height=_height(result)),))


def build_view_tv(experiment: Experiment, looks: Looks) -> Built:
    """Build the file of the distribution of view TV."""
    result = view_tv_distribution(experiment)
    title = "Distribution of TV between the views of an item, 95% bands over families"
    panel = partial(draw_view_tv, result, looks=looks)
    file = FigureFile("tv", title, (panel,), height=_height(result))
    return Built((file,), single_views(experiment))


def single_views(experiment: Experiment) -> tuple[str, ...]:
    """Return a note for every run with one view, which figures of views leave out."""
    single = [run.label for run in experiment.runs if run.predictions.k == 1]
    return tuple(f"{label}: one view only (K is 1)" for label in single)
