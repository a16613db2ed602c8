"""Arms next to each other: means over seeds with every seed, by metric, kind, views and domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pact_eval.errors import InputError
from pact_eval.evaluation import Experiment
from pact_eval.evaluation.curves import (
    ArmDifferences,
    ArmMean,
    EceByKind,
    GroupDifference,
    MetricMeans,
    ViewsSweep,
    arm_differences,
    ece_by_kind,
    main_comparison,
    views_sweep,
)
from pact_reports.calibration_sentences import CALIBRATION_ERROR
from pact_reports.figures.axes import (
    counts_text,
    headed,
    inert,
    legend_below,
    legend_inches,
    row_axis,
    whiskers,
)
from pact_reports.figures.curves import single_views
from pact_reports.figures.figure import Built, FigureFile, reason, stem, uncalibrated
from pact_reports.figures.style import INK, Looks, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW_INCHES = 0.17
_LONGEST_TITLE = 14
_BAR_WIDTH = 0.8
_VIEW_SHIFT = 0.07
_SEED_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def draw_means(result: MetricMeans, ax: Axes, looks: Looks, *, names: bool = True) -> Axes:
    """Draw a bar per arm, a dot per seed, whiskers, and a hollow diamond for the value after T(x).

    Args:
        result: one metric of every arm.
        ax: the panel.
        looks: of the arms.
        names: write the arms next to their bars.
    """
    for row, arm in enumerate(result.arms):
        colour = looks.arms[arm.arm].colour
        ax.barh(row, 100 * arm.mean, height=0.72, color=colour, alpha=0.55, linewidth=0)
        count = len(arm.values)
        if count > 1:
            ax.scatter(
                [100 * value for value in arm.values],
                [row + 0.3 * (number / (count - 1) - 0.75) for number in range(count)],
                s=9,
                marker=looks.arms[arm.arm].marker,
                color=colour,
                edgecolors="white",
                linewidths=0.4,
                zorder=4,
            )
        middle, half = _spread(arm)
        if half is not None:
            caps = 2 if arm.spread == "deviation" else 0
            _errorbar(ax, middle, row, xerr=half, elinewidth=0.9, capsize=caps, zorder=5)
        if not math.isnan(arm.calibrated):
            ax.scatter(
                [100 * arm.calibrated],
                [row + 0.22],
                s=15,
                marker="D",
                facecolors="white",
                edgecolors=INK,
                linewidths=0.8,
                zorder=6,
            )
    row_axis(ax, [shown(arm.arm, 18) if names else "" for arm in result.arms])
    ax.set_xlim(0, None)
    title, arrow = result.spec.title, "↑" if result.spec.better > 0 else "↓"
    between = "\n" if len(title) > _LONGEST_TITLE else " "
    ax.set_xlabel(f"{title}{between}(%) {arrow}")
    return inert(ax)


def _spread(arm: ArmMean) -> tuple[float, float | None]:
    """Return the middle and half the width of the whisker in %; None if there is none.

    The whisker is around its own middle: the whole interval of ECE can lie above its value.
    """
    if arm.spread == "none":
        return math.nan, None
    return 50 * (arm.low + arm.high), 50 * (arm.high - arm.low)


def _errorbar(ax: Axes, x: float, y: float, **options: Any) -> None:
    ax.errorbar(x, y, fmt="none", ecolor=INK, **options)


def draw_ece_by_kind(result: EceByKind, ax: Axes, looks: Looks) -> Axes:
    """Draw a wide light bar raw and a narrow dark one after T(x), seeds as dots, whiskers."""
    handles, labels = [], []
    n_arms = len(next(iter(result.kinds.values()))[1])
    width = _BAR_WIDTH / n_arms
    for place, (_, arms) in enumerate(result.kinds.values()):
        for number, arm in enumerate(arms):
            x = place + width * (number - (n_arms - 1) / 2)
            bar = _draw_ece(ax, x, width, arm, looks)
            if place == 0:
                handles.append(bar)
                labels.append(shown(arm.arm, 20))
    names = [f"{name}\nn = {items:,}" for name, (items, _) in result.kinds.items()]
    ax.set_xticks(range(len(names)), labels=names)
    ax.tick_params(axis="x", length=0)
    ax.set_ylim(0, None)
    ax.set_ylabel("ECE (%) ↓")
    headed(ax, "", counts_text(result.items, result.families))
    legend_below(ax, handles, labels)
    return inert(ax)


def _draw_ece(ax: Axes, x: float, width: float, arm: ArmMean, looks: Looks) -> Any:
    style = looks.arms[arm.arm]
    bar = ax.bar(x, 100 * arm.mean, width=0.9 * width, color=style.colour, alpha=0.4)
    if not math.isnan(arm.calibrated):
        ax.bar(x, 100 * arm.calibrated, width=0.4 * width, color=style.colour)
    middle, half = _spread(arm)
    if half is not None:
        caps = 1.5 if arm.spread == "deviation" else 0
        _errorbar(ax, x, middle, yerr=half, elinewidth=0.8, capsize=caps, zorder=3)
    if len(arm.values) > 1:
        ax.scatter(
            [x] * len(arm.values),
            [100 * value for value in arm.values],
            s=7,
            marker=style.marker,
            facecolors="white",
            edgecolors=INK,
            linewidths=0.4,
            zorder=4,
        )
    return bar


def draw_sweep(result: ViewsSweep, ax: Axes, looks: Looks, *, names: bool = True) -> Axes:
    """Draw the mean of every arm against K, its seeds as dots, and whiskers.

    Args:
        result: one metric.
        ax: the panel.
        looks: of the arms.
        names: add the legend; otherwise write the counts above.
    """
    handles, labels = [], []
    for number, arm in enumerate(result.arms):
        style = looks.arms[arm.arm]
        shift = _VIEW_SHIFT * (number - (len(result.arms) - 1) / 2)
        x = [view + shift for view in arm.views]
        seeds = len(arm.means[0].values)
        for seed in range(seeds if seeds > 1 else 0):
            dots = [100 * mean.values[seed] for mean in arm.means]
            ax.scatter(x, dots, s=4, color=style.colour, alpha=0.6, linewidths=0)
        handles.append(
            ax.errorbar(
                x,
                [100 * mean.mean for mean in arm.means],
                yerr=[
                    [100 * (mean.mean - mean.low) for mean in arm.means],
                    [100 * (mean.high - mean.mean) for mean in arm.means],
                ],
                color=style.colour,
                marker=style.marker,
                elinewidth=0.7,
                capsize=1.5,
                linestyle="-" if seeds > 1 else (0, (4, 1.5)),
            )
        )
        labels.append(shown(arm.arm, 20))
    most = max(arm.views[-1] for arm in result.arms)
    ax.set_xticks(range(1, most + 1, 1 if most <= 8 else math.ceil(most / 8)))
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


def draw_differences(result: ArmDifferences, ax: Axes, looks: Looks) -> Axes:
    """Draw the mean as a bar in the colour of the arm that leads, seeds as markers, intervals.

    An asterisk marks groups in which every seed differs in the same direction.
    """
    for row, group in enumerate(result.groups):
        _draw_difference(
            ax, row, group, looks.arms[result.a if group.mean.value >= 0 else result.b]
        )
    ax.axvline(0, color=INK, linewidth=0.6)
    row_axis(ax, [_row_label(group) for group in result.groups])
    for number in range(1, len(result.groups)):
        if result.groups[number].by != result.groups[number - 1].by:
            ax.axhline(number - 0.5, color="#CCCCCC", linewidth=0.6)
    ax.set_xlabel("Difference in accuracy (points)")
    names = f"{shown(result.a, 18)} − {shown(result.b, 18)}"
    headed(ax, names, counts_text(result.items, result.families), wide=True)
    if len(result.seeds) > 1:
        handles = [_seed_marker(ax, [], [], number) for number in range(len(result.seeds))]
        legend_below(ax, handles, [f"seed {seed}" for seed in result.seeds], ncols=4)
    return inert(ax)


def _draw_difference(ax: Axes, row: int, group: GroupDifference, leader: Any) -> None:
    mean = group.mean
    ax.barh(row, 100 * mean.value, height=0.7, color=leader.colour, alpha=0.5, linewidth=0)
    ends = whiskers(100 * mean.value, 100 * mean.low, 100 * mean.high)
    if ends is not None:
        _errorbar(ax, 100 * mean.value, row, xerr=ends, elinewidth=0.8, capsize=1.8, zorder=3)
    seeds = len(group.values)
    for number, value in enumerate(group.values if seeds > 1 else ()):
        y = row + 0.2 * (number - (seeds - 1) / 2) / max(1, seeds / 3)
        _seed_marker(ax, [100 * value], [y], number)


def _seed_marker(ax: Axes, x: Sequence[float], y: Sequence[float], number: int) -> Any:
    return ax.scatter(
        x,
        y,
        s=10,
        marker=_SEED_MARKERS[number % len(_SEED_MARKERS)],
        facecolors="white",
        edgecolors=INK,
        linewidths=0.6,
        zorder=4,
    )


def _row_label(group: GroupDifference) -> str:
    mark = "* " if group.sign.same else ""
    return f"{mark}{shown(group.name, 18)} ({group.items:,})"


def build_main(experiment: Experiment, looks: Looks) -> Built:
    """Build the file of the main comparison."""
    results = main_comparison(experiment)
    panels = tuple(
        partial(draw_means, result, looks=looks, names=number % 2 == 0)
        for number, result in enumerate(results)
    )
    arms = [arm for each in results for arm in each.arms]
    missing: tuple[str, ...] = ()
    if all(each.spec.name != "view_tv" for each in results):
        missing += ("TV: one view only (K is 1)",)
    if all(math.isnan(arm.calibrated) for arm in arms):
        missing += ("calibrated ECE: no arm has a calibrator for each of its runs",)
    rows = (len(results) + 1) // 2
    file = FigureFile(
        "main",
        "Main comparison of arms: mean over seeds, seeds, whiskers; hollow: ECE after T(x)",
        panels,
        columns=2,
        height=0.7 + rows * (0.62 + _ROW_INCHES * len(results[0].arms)),
        note=f"{counts_text(results[0].items, results[0].families)}\n{_marks(arms)}",
        caption=CALIBRATION_ERROR,
    )
    return Built((file,), missing)


def _marks(arms: Sequence[ArmMean]) -> str:
    """Explain the marks that are drawn."""
    spreads = {arm.spread for arm in arms}
    marks = []
    if "deviation" in spreads:
        marks.append("dots: seeds; whiskers: ± 1 s.d. of seeds")
    if "interval" in spreads:
        marks.append("whiskers without caps: 95% interval over families")
    if not all(math.isnan(arm.calibrated) for arm in arms):
        marks.append("◇ after T(x)")
    return f"{marks[0]}\n{'; '.join(marks[1:])}".rstrip() if marks else ""


def build_ece_by_kind(experiment: Experiment, looks: Looks) -> Built:
    """Build the file of ECE by kind."""
    panel = partial(draw_ece_by_kind, ece_by_kind(experiment), looks=looks)
    file = FigureFile(
        "ece-kind",
        "ECE by field kind: wide light bars uncalibrated, narrow dark bars after T(x)",
        (panel,),
        height=2.5 + legend_inches([shown(arm, 20) for arm in experiment.arms]),
        note=(
            "narrow bars: after T(x); dots: seeds, raw\n"
            "whiskers: ± 1 s.d. of seeds, without caps 95% interval over families"
        ),
        caption=CALIBRATION_ERROR,
    )
    return Built((file,), uncalibrated(experiment))


def build_views(experiment: Experiment, looks: Looks) -> Built:
    """Build the file of accuracy and view TV against the number of views."""
    accuracy, tv = views_sweep(experiment)
    file = FigureFile(
        "views",
        "Accuracy and View TV against the number of views K, with whiskers",
        (
            partial(draw_sweep, accuracy, looks=looks, names=False),
            partial(draw_sweep, tv, looks=looks),
        ),
        height=3.6 + legend_inches([shown(arm.arm, 20) for arm in tv.arms]),
        note="whiskers: ± 1 s.d. of seeds\ndashed lines: one run, 95% interval over families",
    )
    return Built((file,), single_views(experiment))


def build_differences(experiment: Experiment, looks: Looks) -> Built:
    """Build one file for the first arm against each of the others."""
    arms = list(experiment.arms)
    if len(arms) < 2:
        message = "one arm only: there is nothing to compare it with"
        raise InputError(message)
    files, missing = [], []
    for other in arms[1:]:
        try:
            result = arm_differences(experiment, arms[0], other)
        except InputError as error:
            missing.append(reason(error))
            continue
        note = "whiskers: 95% interval over families"
        files.append(
            FigureFile(
                stem("differences", arms[0], other),
                f"Difference in accuracy, {arms[0]} minus {other}, by kind and domain",
                (partial(draw_differences, result, looks=looks),),
                height=1.3 + _ROW_INCHES * len(result.groups),
                note=note if len(result.seeds) < 2 else f"* same sign at every seed; {note}",
            )
        )
    return Built(tuple(files), tuple(missing))
