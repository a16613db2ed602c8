"""Probabilities against correctness: reliability, and the confidence of right and wrong answers."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pact_eval.evaluation import CONFIDENT, Experiment, ExperimentRun
from pact_eval.evaluation.curves import (
    AnswerConfidence,
    ReliabilityCurve,
    RunConfidence,
    RunReliability,
    answer_confidence,
    reliability,
)
from pact_reports.calibration_sentences import CALIBRATION_ERROR
from pact_reports.figures.axes import counts_text, headed, inert, legend_below, whiskers
from pact_reports.figures.figure import (
    Built,
    FigureFile,
    each_run,
    run_stem,
    uncalibrated,
)
from pact_reports.figures.style import INK, MUTED, RIGHT, WRONG, Looks, shown
from pact_reports.numbers import has_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pact_eval.evaluation import Estimate

CONSISTENCY: Final = (
    "The lower panel needs no bins: isotonic regression pools items until accuracy rises with "
    "confidence (CORP). 95% of the regressions of a calibrated model with the same confidences and "
    "families lie in the band, point by point. Miscalibration is what recalibration would gain in "
    "the Brier score of a right answer; chance alone makes it as large as the number in brackets, "
    "on average."
)
"""Shown next to the figure of reliability."""

_LARGEST_AREA = 70.0
_SMALLEST_AREA = 3.0
_FLOOR = 0.7


def draw_reliability(result: RunReliability, ax: Axes, looks: Looks) -> Axes:
    """Draw accuracy against mean confidence; marker area grows with the items in a bin."""
    largest = max(int(curve.bins.count.max()) for curve in result.curves)
    ax.plot([0, 100], [0, 100], color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)), zorder=1)
    handles: list[Any] = []
    labels, left = [], 100.0
    for curve in result.curves:
        own = curve.calibrated or len(result.curves) == 1
        colour = looks.arms[result.arm].colour if own else MUTED
        handles.append(_draw_curve(ax, curve, colour, largest))
        name = "after T(x)" if curve.calibrated else "raw"
        labels.append(f"{name}: ECE {_percent_with_interval(curve.ece)}")
        filled = curve.bins.count > 0
        left = min(left, 100 * float(curve.bins.mean_confidence[filled].min(initial=1.0)))
    handles.append(ax.scatter([], [], s=_LARGEST_AREA, facecolors="white", edgecolors=MUTED))
    labels.append(f"largest bin, {largest:,} items")
    ax.set_xlim(max(0.0, left - 5), 102)
    ax.set_ylim(-3, 103)
    ax.set_xlabel("Confidence: probability of the answer given (%)")
    ax.set_ylabel("Accuracy (%)")
    headed(ax, shown(result.run), f"{counts_text(result.items, result.families)}; bands: 95%")
    legend_below(ax, handles, labels, ncols=1)
    return inert(ax)


def _draw_curve(ax: Axes, curve: ReliabilityCurve, colour: str, largest: int) -> Any:
    filled = curve.bins.count > 0
    x, y = 100 * curve.bins.mean_confidence[filled], 100 * curve.bins.accuracy[filled]
    low, high = 100 * curve.low[filled], 100 * curve.high[filled]
    ax.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0, zorder=1)
    ax.vlines(x, low, high, color=colour, linewidth=0.6, alpha=0.4, zorder=2)
    dash: Any = "-" if curve.calibrated else (0, (4, 1.5))
    (line,) = ax.plot(x, y, color=colour, linestyle=dash, marker="", zorder=3)
    ax.scatter(
        x,
        y,
        s=_SMALLEST_AREA + _LARGEST_AREA * curve.bins.count[filled] / largest,
        facecolors=colour if curve.calibrated else "white",
        edgecolors=colour,
        linewidths=0.9,
        zorder=4,
    )
    return line


def draw_recalibration(result: RunReliability, ax: Axes, looks: Looks) -> Axes:
    """Draw accuracy by isotonic regression; marker area grows with the items in a pool."""
    largest = max(int(curve.isotonic.pools.count.max()) for curve in result.curves)
    ax.plot([0, 100], [0, 100], color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)), zorder=1)
    handles: list[Any] = []
    labels = []
    for curve in result.curves:
        own = curve.calibrated or len(result.curves) == 1
        colour = looks.arms[result.arm].colour if own else MUTED
        handles.append(_draw_isotonic(ax, curve, colour, largest))
        found = curve.isotonic
        name = "after T(x)" if curve.calibrated else "raw"
        score = f"{found.scores.brier.miscalibration:.3f} (by chance {found.chance.brier:.3f})"
        labels.append(f"{name}: miscalibration {score}")
    handles.append(ax.scatter([], [], s=_LARGEST_AREA, facecolors="white", edgecolors=MUTED))
    labels.append(f"largest pool, {largest:,} items")
    left = min(100 * float(curve.isotonic.confidence[0]) for curve in result.curves)
    ax.set_xlim(max(0.0, left - 5), 102)
    ax.set_ylim(-3, 103)
    ax.set_xlabel("Confidence: probability of the answer given (%)")
    ax.set_ylabel("Accuracy (%)")
    headed(ax, "Isotonic regression (CORP)", "bands: 95% of calibrated models")
    legend_below(ax, handles, labels, ncols=1)
    return inert(ax)


def _draw_isotonic(ax: Axes, curve: ReliabilityCurve, colour: str, largest: int) -> Any:
    found = curve.isotonic
    x, low, high = 100 * found.confidence, 100 * found.band.low, 100 * found.band.high
    ax.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0, zorder=1)
    ends = np.ravel([found.pools.lowest, found.pools.highest], order="F")
    dash: Any = "-" if curve.calibrated else (0, (4, 1.5))
    (line,) = ax.plot(
        100 * ends,
        100 * np.repeat(found.pools.accuracy, 2),
        color=colour,
        linestyle=dash,
        marker="",
        zorder=3,
    )
    ax.scatter(
        50 * (found.pools.lowest + found.pools.highest),
        100 * found.pools.accuracy,
        s=_SMALLEST_AREA + _LARGEST_AREA * found.pools.count / largest,
        facecolors=colour if curve.calibrated else "white",
        edgecolors=colour,
        linewidths=0.9,
        zorder=4,
        # Accuracies of 0% and 100% are common here.
        clip_on=False,
    )
    return line


def draw_confidence(result: RunConfidence, ax: Axes) -> Axes:
    """Draw both histograms on a log axis, and the medians with their intervals above them."""
    most = max(int(result.right.count.max()), int(result.wrong.count.max()), 1)
    handles = [
        _draw_answers(ax, result.right, 100 * result.edges, RIGHT, 2.0 * most),
        _draw_answers(ax, result.wrong, 100 * result.edges, WRONG, 3.4 * most),
    ]
    labels = [
        f"{name} ({answers.items:,}): median {_median(answers)}"
        for name, answers in (("right", result.right), ("wrong", result.wrong))
    ]
    ax.axvline(100 * CONFIDENT, color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)), zorder=0)
    filled = np.flatnonzero(result.right.count + result.wrong.count)
    ax.set_xlim(100 * result.edges[filled[0]] - 1 if filled.size else 0, 101)
    ax.set_yscale("log")
    ax.set_ylim(_FLOOR, most * 6)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel("Confidence: probability of the answer given (%)")
    ax.set_ylabel("Items per bin of 5 points (log scale)")
    below = f"{counts_text(result.items, result.families)}; whiskers: 95% over families"
    headed(ax, shown(result.run), below)
    handles.append(ax.plot([], [], color=INK, linestyle="none")[0])
    share = _percent_with_interval(result.confident_errors)
    of_errors = "" if math.isnan(result.confident_errors.value) else " of errors"
    labels.append(f"errors at 90% or more: {share}{of_errors}")
    legend_below(ax, handles, labels, ncols=1)
    return inert(ax)


def _draw_answers(
    ax: Axes, answers: AnswerConfidence, edges: Any, colour: str, height: float
) -> Any:
    right = colour == RIGHT
    stairs = ax.stairs(
        np.maximum(answers.count, _FLOOR),
        edges,
        baseline=_FLOOR,
        color=colour,
        alpha=0.9,
        linewidth=1.1,
        hatch="" if right else "//////",
        fill=False,
    )
    if not math.isnan(answers.median):
        ax.errorbar(
            100 * answers.median,
            height,
            xerr=whiskers(100 * answers.median, 100 * answers.low, 100 * answers.high),
            marker="o" if right else "X",
            markersize=4.5,
            color=colour,
            capsize=2,
            elinewidth=1,
        )
    return stairs


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f}%"


def _percent_with_interval(estimate: Estimate) -> str:
    value = _percent(estimate.value)
    if math.isnan(estimate.value) or not has_width(estimate):
        return value
    return f"{value} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def _median(answers: AnswerConfidence) -> str:
    """Write a median with its interval; a zero-width interval does not mean certainty."""
    value = _percent(answers.median)
    if math.isnan(answers.low) or answers.low == answers.high:
        return value
    return f"{value} [{100 * answers.low:.1f}, {100 * answers.high:.1f}]"


def build_reliability(experiment: Experiment, looks: Looks) -> Built:
    """Build one file per run."""

    def file(run: ExperimentRun) -> FigureFile:
        result = reliability(experiment, run)
        panels = tuple(
            partial(draw, result, looks=looks) for draw in (draw_reliability, draw_recalibration)
        )
        title = (
            f"Reliability of {run.label}: accuracy against confidence in 15 bins with 95% "
            "intervals, and by isotonic regression with consistency bands"
        )
        caption = f"{CALIBRATION_ERROR} {CONSISTENCY}"
        return FigureFile(run_stem("reliability", run), title, panels, height=5.9, caption=caption)

    built = each_run(experiment, file)
    return Built(built.files, built.missing + uncalibrated(experiment))


def build_confidence(experiment: Experiment, _: Looks) -> Built:
    """Build one file per run."""

    def file(run: ExperimentRun) -> FigureFile:
        panel = partial(draw_confidence, answer_confidence(experiment, run))
        title = f"Confidence of right and wrong answers of {run.label}, uncalibrated"
        return FigureFile(run_stem("confidence", run), title, (panel,), height=2.8)

    return each_run(experiment, file)
