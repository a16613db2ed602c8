"""How far an item's answers move with the letters: the distribution of View TV."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pact_eval.errors import InputError
from pact_eval.evaluation import label_codes
from pact_reports.figures.axes import counts_text, headed, inert, legend_below, log_decades
from pact_reports.figures.bands import FloatArray, curve_band
from pact_reports.figures.figure import Built, FigureRequest, Plate
from pact_reports.figures.risk_coverage import (
    ArmCurves,
    CurvesFigure,
    curves_height,
    shared_items,
)
from pact_reports.figures.style import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["build_tv", "draw_tv", "tv_figure"]

_POINTS = 121
_LOWEST = 1e-4


def tv_figure(request: FigureRequest) -> CurvesFigure:
    """Compute the share of items whose View TV is x or less, for every run and arm.

    Returns:
        Curves over 121 values of TV from 0.0001 to 1, evenly spaced on a log axis; items below
        the first count there.

    Raises:
        InputError: there is no run, the runs hold other items, or none has two views.
    """
    first = shared_items(request)
    x = np.geomspace(_LOWEST, 1.0, _POINTS)
    x[-1] = 1.0
    family = label_codes(first.predictions.family)
    arms = []
    for arm, runs in request.collection.arms.items():
        several = [run for run in runs if run.predictions.k > 1]
        if not several:
            continue
        tv = np.array([request.scored(run).view_tv for run in several])
        reached = np.searchsorted(x + 1e-12, tv)
        items = len(family)
        band = curve_band(
            partial(_share, reached, _POINTS),
            family,
            rng=request.rng,
            resamples=request.band_resamples_for(items),
        )
        curves = np.array([_share(each[None], _POINTS, np.ones(items)) for each in reached])
        seeds = tuple(run.seed for run in several)
        means = tuple(tv.mean(axis=1).tolist())
        arms.append(ArmCurves(arm, seeds, curves, curves.mean(axis=0), band, means))
    if not arms:
        message = "one view only (K is 1): TV is between views"
        raise InputError(message)
    return CurvesFigure(x, tuple(arms), len(family), int(family.max()) + 1, request.styles)


def _share(reached: npt.NDArray[np.int64], points: int, weights: FloatArray) -> FloatArray:
    """Return the share of weight at or below each point, over runs.

    Args:
        reached: (runs, n) index of the first point that is not below an item's TV.
        points: how many there are.
        weights: (n,) of the items.
    """
    runs = len(reached)
    in_step = np.bincount(reached.ravel(), weights=np.tile(weights, runs), minlength=points)
    return np.asarray(np.cumsum(in_step)[:points] / (runs * weights.sum()), dtype=np.float64)


def draw_tv(result: CurvesFigure, ax: Axes) -> Axes:
    """Draw cumulative shares against TV on a log axis; a marker stands at an arm's mean TV."""
    handles, labels = [], []
    for arm in result.arms:
        style = result.styles.arms[arm.arm]
        ax.fill_between(
            result.x,
            100 * arm.band.low,
            100 * arm.band.high,
            color=style.colour,
            alpha=0.13,
            linewidth=0,
        )
        for seed, curve in zip(arm.seeds, arm.curves, strict=True):
            if len(arm.seeds) > 1:
                dash = result.styles.dash(seed)
                ax.plot(
                    result.x,
                    100 * curve,
                    color=style.colour,
                    alpha=0.6,
                    linewidth=0.5,
                    linestyle=dash,
                )
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


def build_tv(request: FigureRequest) -> Built:
    """Build the plate of the distribution of TV."""
    result = tv_figure(request)
    title = "Distribution of TV between the views of an item, 95% bands over families"
    single = [run.label for run in request.collection.runs if run.predictions.k == 1]
    missing = tuple(f"{label}: one view only (K is 1)" for label in single)
    panel = partial(draw_tv, result)
    return Built((Plate("tv", title, (panel,), height=curves_height(result)),), missing)
