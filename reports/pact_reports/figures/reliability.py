"""Reliability: accuracy against confidence, before and after T(x)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pact_eval import metrics
from pact_eval.evaluation import CollectedRun, ScoredItems, group_statistics, label_codes
from pact_eval.stats import Estimate, bootstrap_intervals, ratio_statistic
from pact_reports.figures.axes import counts_text, headed, inert, legend_below
from pact_reports.figures.bands import FloatArray
from pact_reports.figures.figure import ECE_LEANS, Built, FigureRequest, Plate, each_run
from pact_reports.figures.names import run_stem
from pact_reports.figures.style import MUTED, shown
from pact_reports.numbers import has_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ReliabilityCurve",
    "ReliabilityFigure",
    "build_reliability",
    "draw_reliability",
    "reliability_figure",
]

_LARGEST_AREA = 70.0
_SMALLEST_AREA = 3.0


@dataclass(frozen=True)
class ReliabilityCurve:
    """One reliability curve; fractions.

    Attributes:
        label: "raw" or "after T(x)".
        bins: counts, mean confidence and accuracy of each bin.
        low: (bins,) lower end of the 95% bootstrap interval of the accuracy over families; NaN
            where there is none (an empty bin, or items of one family).
        high: (bins,) upper end.
        ece: with its interval.
    """

    label: str
    bins: metrics.Reliability
    low: FloatArray
    high: FloatArray
    ece: Estimate


@dataclass(frozen=True)
class ReliabilityFigure:
    """Reliability of one run.

    Attributes:
        title: of the run.
        colour: of its arm.
        curves: raw, then after T(x) where the run has a calibrator.
        items: behind every curve.
        families: that they form.
    """

    title: str
    colour: str
    curves: tuple[ReliabilityCurve, ...]
    items: int
    families: int


def reliability_figure(request: FigureRequest, run: CollectedRun) -> ReliabilityFigure:
    """Compute the reliability of a run in 15 equal-width bins, before and after T(x).

    Raises:
        InputError: the run has no such decoding, or its calibrator cannot be applied.
    """
    curves = [_curve(request, "raw", request.scored(run))]
    if run.calibrator is not None:
        curves.append(_curve(request, "after T(x)", request.scored(run, calibrated=True)))
    ece = curves[0].ece
    colour = request.styles.colour_of(run)
    return ReliabilityFigure(run.label, colour, tuple(curves), ece.n, ece.clusters)


def _curve(request: FigureRequest, label: str, items: ScoredItems) -> ReliabilityCurve:
    in_bin = metrics.bin_index(items.confidence)
    family = label_codes(items.predictions.family)
    n_families = int(family.max()) + 1
    statistics = {
        str(number): ratio_statistic(
            items.correct & (in_bin == number), in_bin == number, family, n_families
        )
        for number in range(metrics.BINS)
    }
    statistics["ece"] = group_statistics(items).sets[0].statistics["ece"]
    found = bootstrap_intervals(
        statistics,
        n_clusters=n_families,
        n=len(items.confidence),
        rng=request.rng,
        resamples=request.resamples_for(len(items.confidence)),
    )
    return ReliabilityCurve(
        label=label,
        bins=metrics.reliability(items.confidence, items.correct),
        low=np.array([found[str(number)].low for number in range(metrics.BINS)]),
        high=np.array([found[str(number)].high for number in range(metrics.BINS)]),
        ece=found["ece"],
    )


def draw_reliability(result: ReliabilityFigure, ax: Axes) -> Axes:
    """Draw accuracy against mean confidence; marker area grows with the items in a bin."""
    largest = max(int(curve.bins.count.max()) for curve in result.curves)
    ax.plot([0, 100], [0, 100], color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)), zorder=1)
    handles: list[Any] = []
    labels, left = [], 100.0
    for curve in result.curves:
        after = curve.label != "raw"
        filled = curve.bins.count > 0
        x, y = 100 * curve.bins.mean_confidence[filled], 100 * curve.bins.accuracy[filled]
        low, high = 100 * curve.low[filled], 100 * curve.high[filled]
        colour = result.colour if after or len(result.curves) == 1 else MUTED
        ax.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0, zorder=1)
        ax.vlines(x, low, high, color=colour, linewidth=0.6, alpha=0.4, zorder=2)
        (line,) = ax.plot(
            x, y, color=colour, linestyle="-" if after else (0, (4, 1.5)), marker="", zorder=3
        )
        area = _SMALLEST_AREA + _LARGEST_AREA * curve.bins.count[filled] / largest
        ax.scatter(
            x,
            y,
            s=area,
            facecolors=colour if after else "white",
            edgecolors=colour,
            linewidths=0.9,
            zorder=4,
        )
        handles.append(line)
        labels.append(f"{curve.label}: ECE {_percent(curve.ece)}")
        left = min(left, float(x.min(initial=100.0)))
    handles.append(ax.scatter([], [], s=_LARGEST_AREA, facecolors="white", edgecolors=MUTED))
    labels.append(f"largest bin, {largest:,} items")
    ax.set_xlim(max(0.0, left - 5), 102)
    ax.set_ylim(-3, 103)
    ax.set_xlabel("Confidence: probability of the answer given (%)")
    ax.set_ylabel("Accuracy (%)")
    counts = counts_text(result.items, result.families)
    headed(ax, shown(result.title), f"{counts}; bands: 95%")
    legend_below(ax, handles, labels, ncols=1)
    return inert(ax)


def _percent(ece: Estimate) -> str:
    value = f"{100 * ece.value:.1f}%"
    if not has_width(ece):
        return value
    return f"{value} [{100 * ece.low:.1f}, {100 * ece.high:.1f}]"


def build_reliability(request: FigureRequest) -> Built:
    """Build one plate a run."""

    def plate(run: CollectedRun) -> Plate:
        result = reliability_figure(request, run)
        title = f"Reliability of {run.label}: accuracy against confidence, with 95% intervals"
        panel = partial(draw_reliability, result)
        stem = run_stem("reliability", run)
        return Plate(stem, title, (panel,), height=3.1, caption=ECE_LEANS)

    built = each_run(request, plate)
    raw = [run.label for run in request.collection.runs if run.calibrator is None]
    missing = tuple(f"{label}: no calibrator, so that it is shown raw only" for label in raw)
    return Built(built.plates, built.missing + missing)
