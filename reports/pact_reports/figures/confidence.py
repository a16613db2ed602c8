"""Confidence of right and of wrong answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pact_eval.evaluation import CONFIDENT, CollectedRun, label_codes
from pact_eval.stats import Estimate, bootstrap_intervals, ratio_statistic
from pact_reports.figures.axes import counts_text, headed, inert, legend_below
from pact_reports.figures.bands import FloatArray, curve_band
from pact_reports.figures.figure import Built, FigureRequest, Plate, each_run
from pact_reports.figures.names import run_stem
from pact_reports.figures.style import INK, MUTED, RIGHT, WRONG, shown
from pact_reports.numbers import has_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "AnswerConfidence",
    "ConfidenceFigure",
    "build_confidence",
    "confidence_figure",
    "draw_confidence",
    "weighted_median",
]

_BINS = 20
_FLOOR = 0.7


@dataclass(frozen=True, eq=False)
class AnswerConfidence:
    """Confidence of the right, or of the wrong answers.

    Attributes:
        count: (20,) items in each bin of width 0.05.
        median: of the confidences; NaN where there is no such answer.
        low: lower end of its 95% bootstrap interval over families; NaN where there is none.
        high: upper end.
    """

    count: npt.NDArray[np.int64]
    median: float
    low: float
    high: float

    @property
    def items(self) -> int:
        """Number of such answers."""
        return int(self.count.sum())


@dataclass(frozen=True, eq=False)
class ConfidenceFigure:
    """Confidence of one run's answers.

    Attributes:
        title: of the run.
        edges: (21,) of the bins, from 0 to 1.
        right: the right answers.
        wrong: the wrong ones.
        confident_errors: share of the errors made with confidence 0.9 or more.
        items: all answers.
        families: that the items form.
    """

    title: str
    edges: FloatArray
    right: AnswerConfidence
    wrong: AnswerConfidence
    confident_errors: Estimate
    items: int
    families: int


def weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """Return the median of values that count by whole weights; NaN where all weights are 0.

    Example:
        >>> weighted_median(np.array([0.2, 0.4, 0.9]), np.array([1.0, 1.0, 2.0]))
        0.65
    """
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    if not reached.size or not reached[-1]:
        return math.nan
    half = reached[-1] / 2
    middle = [np.searchsorted(reached, half, side=side) for side in ("left", "right")]
    ranked = values[order]
    return float((ranked[middle[0]] + ranked[min(middle[1], ranked.size - 1)]) / 2)


def confidence_figure(request: FigureRequest, run: CollectedRun) -> ConfidenceFigure:
    """Compute how sure a run is, uncalibrated, where it is right and where it is wrong.

    Raises:
        InputError: the run has no such decoding.
    """
    items = request.scored(run)
    family = label_codes(items.predictions.family)
    n_families, n = int(family.max()) + 1, len(family)
    wrong = ~items.correct
    errors = ratio_statistic(
        wrong & (items.confidence >= CONFIDENT - 1e-12), wrong, family, n_families
    )
    found = bootstrap_intervals(
        {"errors": errors},
        n_clusters=n_families,
        n=n,
        rng=request.rng,
        resamples=request.resamples_for(n),
    )
    return ConfidenceFigure(
        title=run.label,
        edges=np.linspace(0, 1, _BINS + 1),
        right=_answers(request, items.confidence, items.correct, family),
        wrong=_answers(request, items.confidence, wrong, family),
        confident_errors=found["errors"],
        items=n,
        families=n_families,
    )


def _answers(
    request: FigureRequest,
    confidence: FloatArray,
    which: npt.NDArray[np.bool_],
    family: npt.NDArray[np.int64],
) -> AnswerConfidence:
    index = np.minimum((confidence[which] * _BINS + 1e-9).astype(np.int64), _BINS - 1)

    # In order already, so that no resample has to sort.
    rows = np.flatnonzero(which)
    rows = rows[np.argsort(confidence[rows], kind="stable")]

    def median(weights: FloatArray) -> FloatArray:
        return np.array([weighted_median(confidence[rows], weights[rows])])

    resamples = request.band_resamples_for(len(family))
    band = curve_band(median, family, rng=request.rng, resamples=resamples)
    value = float(median(np.ones(len(family)))[0])
    if math.isnan(value):
        return AnswerConfidence(np.bincount(index, minlength=_BINS), value, value, value)
    low, high = float(band.low[0]), float(band.high[0])
    return AnswerConfidence(np.bincount(index, minlength=_BINS), value, low, high)


def draw_confidence(result: ConfidenceFigure, ax: Axes) -> Axes:
    """Draw both histograms on a log axis, and the medians with their intervals above them."""
    handles: list[Any] = []
    labels = []
    most = max(int(result.right.count.max()), int(result.wrong.count.max()), 1)
    for number, (name, answers, colour) in enumerate(
        (("right", result.right, RIGHT), ("wrong", result.wrong, WRONG))
    ):
        counts = np.maximum(answers.count, _FLOOR)
        handles.append(
            ax.stairs(
                counts,
                100 * result.edges,
                baseline=_FLOOR,
                color=colour,
                alpha=0.9,
                linewidth=1.1,
                hatch="" if name == "right" else "//////",
                fill=False,
            )
        )
        labels.append(f"{name} ({answers.items:,}): median {_median(answers)}")
        if not math.isnan(answers.median):
            ends = [[100 * (answers.median - answers.low)], [100 * (answers.high - answers.median)]]
            ax.errorbar(
                100 * answers.median,
                most * 2.0 * 1.7**number,
                xerr=None if math.isnan(answers.low) else ends,
                marker="o" if name == "right" else "X",
                markersize=4.5,
                color=colour,
                capsize=2,
                elinewidth=1,
            )
    ax.axvline(100 * CONFIDENT, color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)), zorder=0)
    filled = np.flatnonzero(result.right.count + result.wrong.count)
    ax.set_xlim(100 * result.edges[filled[0]] - 1 if filled.size else 0, 101)
    ax.set_yscale("log")
    ax.set_ylim(_FLOOR, most * 6)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel("Confidence: probability of the answer given (%)")
    ax.set_ylabel("Items a bin of 5 points (log scale)")
    below = f"{counts_text(result.items, result.families)}; whiskers: 95% over families"
    headed(ax, shown(result.title), below)
    handles.append(ax.plot([], [], color=INK, linestyle="none")[0])
    labels.append(f"errors at 90% or more: {_interval(result.confident_errors)}")
    legend_below(ax, handles, labels, ncols=1)
    return inert(ax)


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f}%"


def _median(answers: AnswerConfidence) -> str:
    """Write a median; an interval of no width would claim certainty, and is left out."""
    if math.isnan(answers.low) or answers.low == answers.high:
        return _percent(answers.median)
    return f"{_percent(answers.median)} [{100 * answers.low:.1f}, {100 * answers.high:.1f}]"


def _interval(estimate: Estimate) -> str:
    if math.isnan(estimate.value):
        return _percent(estimate.value)
    if not has_width(estimate):
        return f"{_percent(estimate.value)} of errors"
    low, high = 100 * estimate.low, 100 * estimate.high
    return f"{_percent(estimate.value)} [{low:.1f}, {high:.1f}] of errors"


def build_confidence(request: FigureRequest) -> Built:
    """Build one plate a run."""

    def plate(run: CollectedRun) -> Plate:
        panel = partial(draw_confidence, confidence_figure(request, run))
        title = f"Confidence of right and wrong answers of {run.label}, uncalibrated"
        return Plate(run_stem("confidence", run), title, (panel,), height=2.8)

    return each_run(request, plate)
