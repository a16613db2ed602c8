"""Figures of arms: means over seeds with their intervals, by metric, kind, K and domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_differences import ArmSummary
from pact_eval.evaluation.arms.figure_results import (
    ArmDifferences,
    EceByKind,
    MetricMeans,
    ViewsSweep,
    arm_differences,
    ece_by_kind,
    main_comparison,
    views_sweep,
)
from pact_eval.evaluation.arms.released_results import released_sweep
from pact_reports.figures.axes import (
    SIDES_POINTS,
    counts_text,
    dot,
    dot_mark,
    headed,
    line_mark,
    name_sides,
    row_axis,
    seed_dots,
    span,
    with_legend,
)
from pact_reports.figures.curves import single_views
from pact_reports.figures.figure import Built, FigureFile, run_stem, uncalibrated
from pact_reports.figures.style import INK, MUTED, PAPER, ArmStyle, Looks, shown
from pact_reports.request import Request, reason
from pact_reports.tables.cells import CALIBRATION_ERROR

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INTERVAL: Final = "95% over families"
"""The only kind of interval in figures of arms."""

_PUBLISHED: Final = "published values without intervals"
_TRUE_ERROR: Final = "the interval of ECE is that of the true error, which a sample overstates"
_ROW_INCHES = 0.19
_MOST_ARMS = 16
_MOST_GROUPS = 24
"""Rows of a panel; more are drawn in further panels."""

_LONGEST_TITLE = 14
_DODGED = 0.7
_VIEW_SHIFT = 0.07


def draw_means(result: MetricMeans, ax: Axes, looks: Looks) -> Axes:
    """Draw the mean of every arm as a dot with its interval, and its seeds as small dots.

    A hollow dot below is the value after T(x).

    Args:
        result: one metric of every arm.
        ax: the panel.
        looks: of the arms.
    """
    for row, arm in enumerate(result.arms):
        style, after = looks.arms[arm.arm], arm.calibrated
        span(ax, row, arm, style.colour)
        dot(ax, 100 * arm.mean, row, style)
        if len(arm.values) > 1:
            seeds = [100 * value for value in arm.values]
            seed_dots(ax, seeds, [row - 0.22] * len(seeds), style)
        if after is not None:
            span(ax, row + 0.27, after, style.colour)
            dot(ax, 100 * after.mean, row + 0.27, style, hollow=True)
    row_axis(ax, [shown(looks.names.arm(arm.arm), 18) for arm in result.arms])
    title, arrow = result.spec.title, "↑" if result.spec.better > 0 else "↓"
    between = "\n" if len(title) > _LONGEST_TITLE else " "
    ax.set_xlabel(f"{title}{between}(%) {arrow}")
    ax.margins(x=0.08)
    return with_legend(ax, _marks(ax, result.arms, intervals=result.families is not None))


def _marks(ax: Axes, arms: Sequence[ArmSummary], *, intervals: bool = True) -> dict[str, Any]:
    """Return the marks that the figures of arms have, whatever the arm, for a legend."""
    several = any(len(arm.values) > 1 for arm in arms)
    marks = {"mean over seeds": dot_mark(ax)} if several else {}
    if intervals:
        marks[INTERVAL] = line_mark(ax)
    if several:
        marks["one seed"] = dot_mark(ax, small=True)
    if any(arm.calibrated is not None for arm in arms):
        marks["after T(x)"] = dot_mark(ax, hollow=True)
    return marks


def draw_ece_by_kind(result: EceByKind, ax: Axes, looks: Looks) -> Axes:
    """Draw the ECE of every arm by kind as a bar, and across it the noise floor as a line.

    The hollow bar beside it is the value after T(x); small dots are seeds.
    """
    arms = next(iter(result.kinds.values()))[1]
    width = _DODGED / len(arms)
    for place, (_, of_kind) in enumerate(result.kinds.values()):
        for number, arm in enumerate(of_kind):
            x = place + width * (number - (len(arms) - 1) / 2)
            _bars(ax, x, width, arm, looks.arms[arm.arm])
    names = [
        f"{name}\nn = {items:,}" if items else name for name, (items, _) in result.kinds.items()
    ]
    ax.set_xticks(range(len(names)), labels=names)
    ax.tick_params(axis="x", length=0)
    ax.set(ylim=(0, None), ylabel="ECE (%) ↓")
    headed(ax, "", counts_text(result.items, result.families))
    entries: dict[str, Any] = {
        shown(looks.names.arm(arm.arm), 20): ax.bar([0], [0], color=looks.arms[arm.arm].colour)
        for arm in arms
    }
    if any(arm.chance is not None for arm in arms):
        (entries["noise floor: if calibrated"],) = ax.plot([], [], color=INK, linewidth=1.4)
    if any(not math.isnan(arm.low) for arm in arms):
        entries[INTERVAL] = line_mark(ax)
    if any(len(arm.values) > 1 for arm in arms):
        entries["one seed"] = dot_mark(ax, small=True)
    if any(arm.calibrated is not None for arm in arms):
        entries["after T(x)"] = ax.bar([0], [0], facecolor=PAPER, edgecolor=MUTED, linewidth=0.8)
    return with_legend(ax, entries)


def _bars(ax: Axes, x: float, width: float, arm: ArmSummary, style: ArmStyle) -> None:
    """Draw an ECE, its noise floor, its interval and its seeds; and the ECE after T(x)."""
    after = arm.calibrated
    # Two bars share the room if there is a value after T(x).
    bars = [(x, arm)] if after is None else [(x - width / 4, arm), (x + width / 4, after)]
    wide = 0.9 * width / len(bars)
    for place, summary in bars:
        face, alpha = (PAPER, 1.0) if summary is after else (style.colour, 0.55)
        look: dict[str, Any] = {"edgecolor": style.colour, "linewidth": 0.8, "zorder": 2}
        ax.bar(place, 100 * summary.mean, wide, facecolor=face, alpha=alpha, **look)
        span(ax, place, summary, style.colour, upright=True, zorder=3)
        if summary.chance is not None:
            floor = 100 * summary.chance.floor
            ax.hlines(floor, place - wide / 2, place + wide / 2, color=INK, linewidth=1.4, zorder=5)
        if len(summary.values) > 1:
            seeds = [100 * value for value in summary.values]
            seed_dots(ax, [place - 0.25 * wide] * len(seeds), seeds, style)


def draw_sweep(result: ViewsSweep, ax: Axes, looks: Looks) -> Axes:
    """Draw the mean of every arm against K with its intervals, and its seeds as small dots.

    Args:
        result: one metric.
        ax: the panel.
        looks: of the arms.
    """
    entries: dict[str, Any] = {}
    for number, arm in enumerate(result.arms):
        style = looks.arms[arm.arm]
        shift = _VIEW_SHIFT * (number - (len(result.arms) - 1) / 2)
        x = [view + shift for view in arm.views]
        seeds = len(arm.means[0].values)
        for seed in range(seeds if seeds > 1 else 0):
            seed_dots(ax, x, [100 * mean.values[seed] for mean in arm.means], style)
        low = [100 * (mean.mean - mean.low) for mean in arm.means]
        high = [100 * (mean.high - mean.mean) for mean in arm.means]
        means = [100 * mean.mean for mean in arm.means]
        look: dict[str, Any] = {"color": style.colour, "marker": style.marker, "elinewidth": 0.7}
        drawn = ax.errorbar(x, means, yerr=[low, high], **look)
        entries[shown(looks.names.arm(arm.arm), 20)] = drawn
    most = max(arm.views[-1] for arm in result.arms)
    ax.set_xticks(range(1, most + 1, 1 if most <= 8 else math.ceil(most / 8)))
    ax.set(xlim=(0.7, most + 0.3), xlabel="Views K", ylabel=f"{result.spec.title} (%)")
    if result.spec.name == "view_tv":
        ax.set_ylim(0, None)
    else:
        headed(ax, "", counts_text(result.items, result.families))
    every = [mean for arm in result.arms for mean in arm.means]
    return with_legend(ax, entries | _marks(ax, every, intervals=result.families is not None))


def draw_differences(result: ArmDifferences, ax: Axes, looks: Looks) -> Axes:
    """Draw the mean difference of every group as a dot with its interval, and seeds as small dots.

    A dot has the look of the arm that leads, and is filled if the difference is shown. An asterisk
    marks groups in which every seed differs in the same direction.
    """
    labels = []
    for row, group in enumerate(result.groups):
        mean = group.mean
        style = looks.arms[result.a if mean.value >= 0 else result.b]
        span(ax, row, mean, style.colour)
        dot(ax, 100 * mean.value, row, style, hollow=not group.shown)
        if len(group.values) > 1:
            seeds = [100 * value for value in group.values]
            seed_dots(ax, seeds, [row - 0.28] * len(seeds), style)
        same = "* " if group.sign.same else ""
        labels.append(f"{same}{shown(group.name, 18)} ({group.items:,})")
    ax.axvline(0, color=INK, linewidth=0.6)
    row_axis(ax, labels)
    for number in range(1, len(result.groups)):
        if result.groups[number].by != result.groups[number - 1].by:
            ax.axhline(number - 0.5, color="#CCCCCC", linewidth=0.6)
    ax.set_xlabel("Difference in accuracy (points)")
    a, b = looks.names.arm(result.a), looks.names.arm(result.b)
    name_sides(ax, b, a)
    names = f"{shown(a, 18)} − {shown(b, 18)}"
    below = counts_text(result.items, result.families)
    headed(ax, names, below, wide=True, above=SIDES_POINTS)
    several = len(result.seeds) > 1
    name = "mean over seeds" if several else "difference"
    entries = {name: dot_mark(ax, hollow=True)}
    if result.families is not None:
        filled = sorted({group.shown for group in result.groups}, reverse=True)
        entries = {
            f"{name}, {'shown' if known else 'not shown'}": dot_mark(ax, hollow=not known)
            for known in filled
        }
        # Groups alike have one kind of interval.
        units = {group.mean.method.units for group in result.groups if group.mean.method} - {None}
        entries[f"95% over {units.pop()}" if units else INTERVAL] = line_mark(ax)
    if several:
        entries["one seed"] = dot_mark(ax, small=True)
    return with_legend(ax, entries)


def build_main(request: Request) -> Built:
    """Build the file of the main comparison; many arms have several."""
    results = main_comparison(request.source, request.decoding)
    published = results[0].families is None
    panels = [
        partial(
            draw_means,
            replace(result, arms=result.arms[at : at + _MOST_ARMS]),
            looks=request.looks,
        )
        for at in range(0, len(results[0].arms), _MOST_ARMS)
        for result in results
    ]
    arms = [arm for result in results for arm in result.arms]
    missing: tuple[str, ...] = ()
    if all(result.spec.name != "view_tv" for result in results):
        missing += ("TV: no run has the probabilities of more views than one",)
    if all(arm.calibrated is None for arm in arms):
        missing += ("calibrated ECE: no arm has a calibrator for each of its runs",)
    basis = counts_text(results[0].items, results[0].families)
    file = FigureFile(
        "main",
        "Main comparison of arms",
        tuple(panels),
        shows=_PUBLISHED if published else "means with 95% intervals over families",
        inches=0.55 + (_ROW_INCHES + 0.06) * min(len(results[0].arms), _MOST_ARMS),
        panel_inches=1.35,
        shared_rows=True,
        note="; ".join(filter(None, (basis, _PUBLISHED if published else _TRUE_ERROR))),
        caption="" if published else CALIBRATION_ERROR,
    )
    return Built(file.split(len(results)), missing)


def build_ece_by_kind(request: Request) -> Built:
    """Build the file of ECE by kind."""
    result = ece_by_kind(request.source, request.decoding)
    published = result.families is None
    panel = partial(draw_ece_by_kind, result, looks=request.looks)
    file = FigureFile(
        "ece-kind",
        f"ECE by field kind, {_PUBLISHED if published else 'with 95% intervals over families'}",
        (panel,),
        inches=2.1,
        note=_PUBLISHED if published else _TRUE_ERROR,
        caption="" if published else CALIBRATION_ERROR,
    )
    return Built((file,), uncalibrated(request))


def build_views(request: Request) -> Built:
    """Build the file of accuracy and view TV against the number of views."""
    if request.published is None:
        results, note = views_sweep(request.experiment), ""
        shows = "with 95% intervals over families"
    else:
        released, shows = released_sweep(request.published), _PUBLISHED
        results, note = released.sweeps, "; ".join((_PUBLISHED, *released.notes))
    # Without an item that is shown in two orders, there is no view TV.
    swept = "Accuracy and view TV" if len(results) > 1 else results[0].spec.title
    file = FigureFile(
        "views",
        f"{swept} against the number of views K, {shows}",
        tuple(partial(draw_sweep, result, looks=request.looks) for result in results),
        inches=1.7,
        note=note,
    )
    return Built((file,), single_views(request))


def build_differences(request: Request) -> Built:
    """Build one file for the main arm against each of the others."""
    source, main = request.source, request.main_arm
    others = [arm for arm in source.arms if arm != main]
    if not others:
        raise InputError("one arm only: there is nothing to compare it with")
    files, missing = [], []
    for other in others:
        try:
            result = arm_differences(source, main, other, request.decoding)
            files.append(_file_of(result, request.looks))
        except InputError as error:
            missing.append(reason(error))
    return Built(tuple(files), tuple(missing))


def _file_of(result: ArmDifferences, looks: Looks) -> FigureFile:
    same = any(group.sign.same for group in result.groups) and len(result.seeds) > 1
    notes = (
        "* same sign at every seed" if same else "",
        _PUBLISHED if result.families is None else "",
    )
    return FigureFile(
        run_stem("differences", result.a, result.b),
        f"Difference in accuracy, {looks.names.arm(result.a)} minus {looks.names.arm(result.b)}, "
        "by kind and domain",
        tuple(
            partial(
                draw_differences,
                replace(result, groups=result.groups[at : at + _MOST_GROUPS]),
                looks=looks,
            )
            for at in range(0, len(result.groups), _MOST_GROUPS)
        ),
        inches=0.85 + _ROW_INCHES * min(len(result.groups), _MOST_GROUPS),
        panel_inches=3.0,
        note="; ".join(filter(None, notes)),
    )
