"""Risk-coverage: the error rate among the items that an arm is most sure of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval.errors import InputError
from pact_eval.evaluation import ScoredItems, label_codes
from pact_reports.figures.axes import counts_text, headed, inert, legend_below, legend_inches
from pact_reports.figures.bands import Band, FloatArray, curve_band
from pact_reports.figures.figure import Built, FigureRequest, Plate
from pact_reports.figures.style import RunStyles, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ArmCurves",
    "CurvesFigure",
    "build_risk_coverage",
    "curves_height",
    "draw_risk_coverage",
    "error_rate_curve",
    "risk_coverage_figure",
    "shared_items",
]

_MOST_POINTS = 400
_SHOWN_FROM = 0.05
_TIE = 1e-12


@dataclass(frozen=True, eq=False)
class ArmCurves:
    """The curves of one arm.

    Attributes:
        arm: its name.
        seeds: of its runs, in order; None for a run without.
        curves: (runs, points).
        mean: (points,) over runs.
        band: of that mean, over families.
        summary: one number a run: AURC, or mean TV.
    """

    arm: str
    seeds: tuple[int | None, ...]
    curves: FloatArray
    mean: FloatArray
    band: Band
    summary: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class CurvesFigure:
    """Curves of every arm over one axis.

    Attributes:
        x: (points,) coverage, or TV; fractions.
        arms: in the order of the runs.
        items: behind every curve.
        families: that they form.
        styles: looks of arms and seeds.
    """

    x: FloatArray
    arms: tuple[ArmCurves, ...]
    items: int
    families: int
    styles: RunStyles


def shared_items(request: FigureRequest) -> ScoredItems:
    """Return the items of the first run, once it is sure that all runs hold them.

    Raises:
        InputError: there is no run, or the runs hold other items.
    """
    if not request.collection.runs:
        message = "no run on whole contexts"
        raise InputError(message)
    if not request.collection.same_items:
        message = "the runs hold other items, so that nothing can be laid side by side"
        raise InputError(message)
    return request.scored(request.collection.runs[0])


def error_rate_curve(
    confidence: FloatArray, correct: npt.NDArray[np.bool_], coverage: FloatArray
) -> Callable[[FloatArray], FloatArray]:
    """Return the function from (n,) weights to the error rate at every coverage, (points,).

    Items of equal confidence count by their expected order, as in `metrics.risk_coverage`: within a
    group of ties the errors grow in a straight line.

    Args:
        confidence: (n,) top probabilities.
        correct: (n,) bool.
        coverage: (points,) shares of the weight that is kept, in (0, 1].
    """
    order = np.argsort(-confidence, kind="stable")
    ranked, wrong = confidence[order], ~correct[order]
    ends = np.flatnonzero(np.r_[ranked[:-1] - ranked[1:] > _TIE, True])

    def curve(weights: FloatArray) -> FloatArray:
        ranked_weights = weights[order]
        kept = np.r_[0.0, np.cumsum(ranked_weights)[ends]]
        errors = np.r_[0.0, np.cumsum(ranked_weights * wrong)[ends]]
        wanted = coverage * kept[-1]
        return np.asarray(np.interp(wanted, kept, errors) / wanted, dtype=np.float64)

    return curve


def risk_coverage_figure(request: FigureRequest) -> CurvesFigure:
    """Compute the risk-coverage curve of every run, and of every arm's mean a band over families.

    Raises:
        InputError: there is no run, or the runs hold other items.
    """
    first = shared_items(request)
    n = len(first.confidence)
    coverage = np.unique(np.linspace(1, n, min(n, _MOST_POINTS)).round()) / n
    family = label_codes(first.predictions.family)
    arms = []
    for arm, runs in request.collection.arms.items():
        scored = [request.scored(run) for run in runs]
        curves = [error_rate_curve(each.confidence, each.correct, coverage) for each in scored]
        values = np.array([curve(np.ones(n)) for curve in curves])

        def mean(weights: FloatArray, of: list[Callable[..., FloatArray]] = curves) -> FloatArray:
            return np.asarray(sum(curve(weights) for curve in of) / len(of), dtype=np.float64)

        band = curve_band(mean, family, rng=request.rng, resamples=request.band_resamples_for(n))
        area = tuple(metrics.aurc(each.confidence, each.correct) for each in scored)
        seeds = tuple(run.seed for run in runs)
        arms.append(ArmCurves(arm, seeds, values, values.mean(axis=0), band, area))
    return CurvesFigure(coverage, tuple(arms), n, int(family.max()) + 1, request.styles)


def draw_risk_coverage(result: CurvesFigure, ax: Axes) -> Axes:
    """Draw every arm's mean curve with its band, and thin curves of seeds."""
    handles, labels = [], []
    for arm in result.arms:
        style = result.styles.arms[arm.arm]
        ax.fill_between(
            100 * result.x,
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
                    100 * result.x,
                    100 * curve,
                    color=style.colour,
                    alpha=0.6,
                    linewidth=0.5,
                    linestyle=dash,
                )
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


def curves_height(result: CurvesFigure) -> float:
    """Return the height in inches of a plate of curves with its legend below."""
    return 2.3 + legend_inches([f"{shown(arm.arm, 20)}: AURC 00.0%" for arm in result.arms])


def build_risk_coverage(request: FigureRequest) -> Built:
    """Build the plate of risk against coverage."""
    result = risk_coverage_figure(request)
    title = "Risk-coverage: error rate among the most confident items, 95% bands over families"
    panel = partial(draw_risk_coverage, result)
    return Built((Plate("risk-coverage", title, (panel,), height=curves_height(result)),))
