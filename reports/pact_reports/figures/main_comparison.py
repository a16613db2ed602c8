"""Main comparison: mean over seeds, every seed, and how far apart they are."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from pact_eval.errors import InputError
from pact_eval.evaluation import METRICS, CollectedRun, MetricSpec, group_statistics, point_values
from pact_eval.stats import bootstrap_intervals, seed_summary
from pact_reports.figures.axes import counts_text, inert, row_axis
from pact_reports.figures.figure import ECE_LEANS, Built, FigureRequest, Plate
from pact_reports.figures.style import INK, RunStyles, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ArmBar", "MetricBars", "build_main", "draw_metric_bars", "main_comparison"]

_METRICS = ("accuracy", "pair_accuracy", "ece", "view_tv")
_ROW_INCHES = 0.17
_LONGEST_TITLE = 14

Whisker = Literal["deviation", "interval", "none"]


@dataclass(frozen=True)
class ArmBar:
    """One metric of one arm; fractions.

    Attributes:
        arm: its name.
        seeds: of its runs, in order; None for a run without.
        values: of its runs, likewise.
        mean: over runs; NaN where it is undefined.
        low: lower end of the whisker; NaN where there is none.
        high: upper end.
        whisker: mean ± 1 sample standard deviation over seeds; of one run the 95% bootstrap
            interval over families.
        calibrated: mean after T(x); NaN where a run has no calibrator, or T(x) changes nothing.
    """

    arm: str
    seeds: tuple[int | None, ...]
    values: tuple[float, ...]
    mean: float
    low: float
    high: float
    whisker: Whisker
    calibrated: float = math.nan


@dataclass(frozen=True)
class MetricBars:
    """One metric of every arm.

    Attributes:
        spec: which metric, a rate.
        bars: one an arm, in the order of the runs.
        items: behind every run.
        families: that they form.
        styles: looks of the arms.
    """

    spec: MetricSpec
    bars: tuple[ArmBar, ...]
    items: int
    families: int
    styles: RunStyles


def main_comparison(request: FigureRequest) -> tuple[MetricBars, ...]:
    """Compute accuracy, pair accuracy, ECE and TV of every arm.

    Returns:
        One result a metric; a metric that no run has (TV of one view) is left out.

    Raises:
        InputError: there is no run, or the runs hold other items.
    """
    collection = request.collection
    if not collection.runs or not collection.same_items:
        message = "the runs hold other items" if collection.runs else "no run on whole contexts"
        raise InputError(message)
    bars: dict[str, list[ArmBar]] = {name: [] for name in _METRICS}
    for arm, runs in collection.arms.items():
        values = [point_values(group_statistics(request.scored(run))) for run in runs]
        for name in _METRICS:
            bars[name].append(_bar(request, arm, runs, name, tuple(v[name] for v in values)))
    first = collection.runs[0].predictions
    return tuple(
        MetricBars(spec, tuple(bars[spec.name]), len(first), len(set(first.family)), request.styles)
        for spec in METRICS
        if spec.name in _METRICS and not all(math.isnan(bar.mean) for bar in bars[spec.name])
    )


def _bar(
    request: FigureRequest,
    arm: str,
    runs: tuple[CollectedRun, ...],
    metric: str,
    values: tuple[float, ...],
) -> ArmBar:
    summary = seed_summary(values)
    bar = ArmBar(arm, tuple(run.seed for run in runs), values, summary.mean, *_NO_WHISKER)
    if not math.isnan(summary.deviation):
        low, high = summary.mean - summary.deviation, summary.mean + summary.deviation
        bar = replace(bar, low=low, high=high, whisker="deviation")
    elif len(runs) == 1 and not math.isnan(summary.mean):
        low, high = _interval(request, runs[0], metric)
        if not math.isnan(low):
            bar = replace(bar, low=low, high=high, whisker="interval")
    if metric == "ece" and all(run.calibrator is not None for run in runs):
        after = [
            point_values(group_statistics(request.scored(run, calibrated=True)))["ece"]
            for run in runs
        ]
        bar = replace(bar, calibrated=seed_summary(after).mean)
    return bar


_NO_WHISKER: tuple[float, float, Whisker] = (math.nan, math.nan, "none")


def _marks(results: tuple[MetricBars, ...]) -> str:
    """Say what the marks mean that are drawn."""
    bars = [bar for each in results for bar in each.bars]
    whiskers = {bar.whisker for bar in bars}
    marks = []
    if "deviation" in whiskers:
        marks.append("dots: seeds; whiskers: ± 1 s.d. of seeds")
    if "interval" in whiskers:
        marks.append("whiskers without caps: 95% interval over families")
    if not all(math.isnan(bar.calibrated) for bar in bars):
        marks.append("◇ after T(x)")
    return f"{marks[0]}\n{'; '.join(marks[1:])}".rstrip() if marks else ""


def _interval(request: FigureRequest, run: CollectedRun, metric: str) -> tuple[float, float]:
    drawn = group_statistics(request.scored(run)).sets[0]
    estimate = bootstrap_intervals(
        {metric: drawn.statistics[metric]},
        n_clusters=drawn.n_clusters,
        n=drawn.n,
        rng=request.rng,
        resamples=request.resamples_for(drawn.n),
    )[metric]
    return estimate.low, estimate.high


def draw_metric_bars(result: MetricBars, ax: Axes, *, names: bool = True) -> Axes:
    """Draw a bar an arm, a dot a seed, whiskers, and hollow diamonds for what T(x) makes of it.

    Args:
        result: one metric of every arm.
        ax: where.
        names: write the arms beside their bars.
    """
    for row, bar in enumerate(result.bars):
        style = result.styles.arms[bar.arm]
        ax.barh(row, 100 * bar.mean, height=0.72, color=style.colour, alpha=0.55, linewidth=0)
        count = len(bar.values)
        spread = [row + 0.3 * (number / max(1, count - 1) - 0.75) for number in range(count)]
        if count > 1:
            ax.scatter(
                [100 * value for value in bar.values],
                spread,
                s=9,
                marker=style.marker,
                color=style.colour,
                edgecolors="white",
                linewidths=0.4,
                zorder=4,
            )
        if bar.whisker != "none":
            # About the middle of the interval: that of ECE can lie wholly above its value.
            ax.errorbar(
                50 * (bar.low + bar.high),
                row,
                xerr=50 * (bar.high - bar.low),
                fmt="none",
                ecolor=INK,
                elinewidth=0.9,
                capsize=2 if bar.whisker == "deviation" else 0,
                zorder=5,
            )
        if not math.isnan(bar.calibrated):
            ax.scatter(
                [100 * bar.calibrated],
                [row + 0.22],
                s=15,
                marker="D",
                facecolors="white",
                edgecolors=INK,
                linewidths=0.8,
                zorder=6,
            )
    row_axis(ax, [shown(bar.arm, 18) if names else "" for bar in result.bars])
    ax.set_xlim(0, None)
    title, arrow = result.spec.title, "↑" if result.spec.better > 0 else "↓"
    between = "\n" if len(title) > _LONGEST_TITLE else " "
    ax.set_xlabel(f"{title}{between}(%) {arrow}")
    return inert(ax)


def build_main(request: FigureRequest) -> Built:
    """Build the plate of the main comparison."""
    results = main_comparison(request)
    panels = [
        partial(draw_metric_bars, result, names=number % 2 == 0)
        for number, result in enumerate(results)
    ]
    rows = (len(results) + 1) // 2
    height = 0.7 + rows * (0.62 + _ROW_INCHES * len(results[0].bars))
    title = "Main comparison of arms: mean over seeds, seeds, whiskers; hollow: ECE after T(x)"
    missing: tuple[str, ...] = (
        () if len(results) == len(_METRICS) else ("TV: one view only (K is 1)",)
    )
    if all(math.isnan(bar.calibrated) for each in results for bar in each.bars):
        missing += ("calibrated ECE: not every run of an arm has a calibrator",)
    note = f"{counts_text(results[0].items, results[0].families)}\n{_marks(results)}"
    plate = Plate(
        "main", title, tuple(panels), columns=2, height=height, note=note, caption=ECE_LEANS
    )
    return Built((plate,), missing)
