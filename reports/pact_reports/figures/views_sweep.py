"""Accuracy and TV against the number of views."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pact_eval import metrics
from pact_eval.errors import InputError
from pact_eval.evaluation import METRICS, CollectedRun, MetricSpec, label_codes
from pact_eval.stats import Estimate, bootstrap_intervals, mean_statistic, seed_summary
from pact_reports.figures.axes import counts_text, headed, inert, legend_below, legend_inches
from pact_reports.figures.figure import Built, FigureRequest, Plate
from pact_reports.figures.risk_coverage import shared_items
from pact_reports.figures.style import RunStyles, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ArmSweep",
    "SweepFigure",
    "ViewEstimates",
    "build_views",
    "draw_sweep",
    "sweep_figure",
    "view_estimates",
]

_METRICS = ("accuracy", "view_tv")
_APART = 0.07


@dataclass(frozen=True)
class ViewEstimates:
    """A run as if it had been scored with fewer views.

    Attributes:
        k: the first so many views of every item.
        estimates: "accuracy" and "view_tv", fractions.
    """

    k: int
    estimates: Mapping[str, Estimate]


@dataclass(frozen=True)
class ArmSweep:
    """One metric of one arm at every number of views; fractions.

    Attributes:
        arm: its name.
        views: numbers of views at which the metric is defined.
        values: by run, at each of `views`.
        mean: over runs, likewise.
        low: lower ends of whiskers: mean - 1 s.d. over seeds, of one run its 95% interval over
            families; NaN where there is none.
        high: upper ends.
    """

    arm: str
    views: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class SweepFigure:
    """One metric of every arm against the number of views.

    Attributes:
        spec: which metric, a rate.
        arms: in the order of the runs.
        items: behind every point.
        families: that they form.
        styles: looks of the arms.
    """

    spec: MetricSpec
    arms: tuple[ArmSweep, ...]
    items: int
    families: int
    styles: RunStyles


def view_estimates(
    request: FigureRequest, run: CollectedRun, *, intervals: bool = True
) -> tuple[ViewEstimates, ...]:
    """Compute accuracy and TV of a run, raw, at every number of its views.

    The same numbers as `pact_eval.evaluation.sweep`, without its other metrics, whose intervals
    take minutes for 100,000 items.

    Args:
        request: of the figure.
        run: with two views or more.
        intervals: draw resamples; without them only the values count.

    Raises:
        InputError: the views of an item have no answer in common.
    """
    everything = run.predictions
    family = label_codes(everything.family)
    n_families, n = int(family.max()) + 1, len(family)
    found = []
    for k in range(1, everything.k + 1):
        views = replace(
            everything,
            logits=everything.logits[:, :k],
            code_order=everything.code_order[:, :k],
            answer_mass=everything.answer_mass[:, :k],
        )
        try:
            correct = metrics.correct(views.log_probs("ensemble"), views.reference)
        except ValueError as error:
            message = f"{run.label}: {error}"
            raise InputError(message) from None
        tv = metrics.pairwise_tv(views.log_probs_by_view)
        estimates = bootstrap_intervals(
            {
                "accuracy": mean_statistic(correct, family, n_families),
                "view_tv": mean_statistic(tv, family, n_families),
            },
            n_clusters=n_families,
            n=n,
            rng=request.rng,
            resamples=request.resamples_for(n) if intervals else 1,
        )
        found.append(ViewEstimates(k, estimates))
    return tuple(found)


def sweep_figure(request: FigureRequest) -> tuple[SweepFigure, ...]:
    """Compute accuracy and TV of every arm against the number of views.

    Raises:
        InputError: there is no run, the runs hold other items, or none has two views.
    """
    first = shared_items(request)
    arms = {
        arm: [run for run in runs if run.predictions.k > 1]
        for arm, runs in request.collection.arms.items()
    }
    found = {
        arm: [view_estimates(request, run, intervals=len(runs) == 1) for run in runs]
        for arm, runs in arms.items()
        if runs
    }
    if not found:
        message = "one view only (K is 1): there is nothing to sweep"
        raise InputError(message)
    families = len(set(first.predictions.family.tolist()))
    return tuple(
        SweepFigure(
            spec,
            tuple(_arm(arm, points, spec.name) for arm, points in found.items()),
            len(first.confidence),
            families,
            request.styles,
        )
        for spec in METRICS
        if spec.name in _METRICS
    )


def _arm(arm: str, runs: Sequence[Sequence[ViewEstimates]], metric: str) -> ArmSweep:
    most = min(len(points) for points in runs)
    views, mean, low, high = [], [], [], []
    by_view: list[list[float]] = []
    for number in range(most):
        estimates = [points[number].estimates[metric] for points in runs]
        values = [each.value for each in estimates]
        if any(math.isnan(value) for value in values):
            continue
        views.append(runs[0][number].k)
        by_view.append(values)
        ends = _whisker(estimates)
        mean.append(seed_summary(values).mean)
        low.append(ends[0])
        high.append(ends[1])
    by_run = tuple(zip(*by_view, strict=True))
    return ArmSweep(arm, tuple(views), by_run, tuple(mean), tuple(low), tuple(high))


def _whisker(estimates: Sequence[Estimate]) -> tuple[float, float]:
    if len(estimates) == 1:
        return estimates[0].low, estimates[0].high
    summary = seed_summary([each.value for each in estimates])
    return summary.mean - summary.deviation, summary.mean + summary.deviation


def draw_sweep(result: SweepFigure, ax: Axes, *, names: bool = True) -> Axes:
    """Draw the mean of every arm against K, its seeds as dots, and whiskers.

    Args:
        result: one metric.
        ax: where.
        names: add the legend, or else write n above.
    """
    handles, labels = [], []
    for number, arm in enumerate(result.arms):
        style = result.styles.arms[arm.arm]
        shift = _APART * (number - (len(result.arms) - 1) / 2)
        x = [view + shift for view in arm.views]
        for values in arm.values if len(arm.values) > 1 else ():
            dots = [100 * value for value in values]
            ax.scatter(x, dots, s=4, color=style.colour, alpha=0.6, linewidths=0)
        below = [100 * (mean - low) for mean, low in zip(arm.mean, arm.low, strict=True)]
        above = [100 * (high - mean) for mean, high in zip(arm.mean, arm.high, strict=True)]
        handles.append(
            ax.errorbar(
                x,
                [100 * mean for mean in arm.mean],
                yerr=[below, above],
                color=style.colour,
                marker=style.marker,
                elinewidth=0.7,
                capsize=1.5,
                linestyle="-" if len(arm.values) > 1 else (0, (4, 1.5)),
            )
        )
        labels.append(shown(arm.arm, 20))
    most = max(arm.views[-1] for arm in result.arms)
    step = 1 if most <= 8 else math.ceil(most / 8)
    ax.set_xticks(range(1, most + 1, step))
    ax.set_xlim(0.7, most + 0.3)
    ax.set_xlabel("Views K")
    ax.set_ylabel(f"{result.spec.title} (%)")
    if result.spec.name == "view_tv":
        ax.set_ylim(0, None)
    if names:
        legend_below(ax, handles, labels)
    else:
        headed(ax, "", counts_text(result.items, result.families))
    return inert(ax)


def build_views(request: FigureRequest) -> Built:
    """Build the plate of accuracy and TV against the number of views."""
    accuracy, tv = sweep_figure(request)
    title = "Accuracy and View TV against the number of views K, with whiskers"
    panels = (partial(draw_sweep, accuracy, names=False), partial(draw_sweep, tv))
    single = [run.label for run in request.collection.runs if run.predictions.k == 1]
    missing = tuple(f"{label}: one view only (K is 1)" for label in single)
    legend = legend_inches([shown(arm.arm, 20) for arm in tv.arms])
    note = "whiskers: ± 1 s.d. of seeds\ndashed lines: one run, 95% interval over families"
    return Built((Plate("views", title, panels, height=3.6 + legend, note=note),), missing)
