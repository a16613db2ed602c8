"""Curves of arms over their items: risk against coverage with marks of gates, and view TV."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pact_eval.evaluation.arms.arm_metrics import ArmMetrics
from pact_eval.evaluation.arms.released_folder import FigureData
from pact_eval.evaluation.arms.released_results import released_figures, released_risk_coverage
from pact_eval.evaluation.curves.distributions import (
    ArmCurve,
    ArmCurves,
    RiskCoverageCurves,
    risk_coverage,
    view_tv_distribution,
)
from pact_eval.thresholds.checking import GateMark, gate_marks
from pact_reports.figures.axes import (
    band_mark,
    beside,
    counts_text,
    fill_band,
    headed,
    log_decades,
    percents,
    with_legend,
    with_whiskers,
)
from pact_reports.figures.figure import Built, FigureFile, Panel, run_stem
from pact_reports.figures.style import INK, MUTED, PAPER, Looks, shown
from pact_reports.request import Request
from pact_reports.views.thresholds import gate_notes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes


_DASHED = (0, (4, 2))
_DOTTED = (0, (1, 1.5))
_DASHDOT = (0, (5, 1.5, 1, 1.5))
_SHOWN_FROM = 0.05
_MARKS = (
    "Diamonds are chosen gates: accepted share and error, with 95% intervals over families. Items "
    "without an answer count as escalated. A hollow one was chosen on families of the run."
)


def _gate_marks(marks: Sequence[GateMark], ax: Axes, looks: Looks) -> dict[str, Any]:
    """Draw chosen gates on a panel of risk against coverage; return their legend entries.

    A gate is a diamond at the accepted share and the error, with 95% intervals; it is hollow if it
    was chosen on families of the run. A line shows its target.
    """
    entries: dict[str, Any] = {}
    for mark in (mark for mark in marks if mark.accepted.value > 0):
        colour, target = looks.arms[mark.arm].colour, mark.file.target
        face = PAPER if mark.own_families else colour
        look = {"marker": "D", "markerfacecolor": face, "elinewidth": 0.8, "zorder": 5}
        drawn = with_whiskers(ax, percents(mark.accepted), percents(mark.error), colour, **look)
        if target.limits_error:
            ax.axhline(100 * target.rate, color=INK, linewidth=0.6, linestyle=_DOTTED)
        what = f"target {100 * target.rate:.3g}%" if target.limits_error else "escalation"
        entries[f"{shown(looks.names.run(mark.run), 20)}: gate, {what}"] = drawn
    return entries


def draw_risk_coverage(
    result: RiskCoverageCurves, ax: Axes, looks: Looks, marks: Sequence[GateMark] = ()
) -> Axes:
    """Draw every arm's mean curve, between the curves of random and of oracle order.

    Thin lines are seeds. The curve of a single arm has its band; those of several arms have the
    band of their difference in the next panel. Diamonds are chosen gates.
    """
    x = 100 * result.x
    entries: dict[str, Any] = {}
    for arm, reference in zip(result.arms, result.references, strict=True):
        style = looks.arms[arm.arm]
        _draw_arm(ax, x, arm, looks)
        ax.axhline(100 * reference.random, color=style.colour, linewidth=0.7, linestyle=_DASHED)
        ax.plot(x, 100 * reference.oracle, color=style.colour, linewidth=0.7, linestyle=_DOTTED)
        label = f"{shown(looks.names.arm(arm.arm), 20)}: AURC {100 * arm.mean_summary:.1f}%"
        look: dict[str, Any] = {"color": style.colour, "marker": style.marker}
        (entries[label],) = ax.plot(x, 100 * arm.mean, markevery=max(1, len(x) // 6), **look)
    styles: dict[str, Any] = {"random order": _DASHED, "oracle order": _DOTTED}
    if not math.isnan(result.guessing):
        ax.axhline(100 * result.guessing, color=MUTED, linewidth=0.7, linestyle=_DASHDOT)
        styles[f"guessing: {100 * result.guessing:.1f}%"] = _DASHDOT
    for label, style in styles.items():
        (entries[label],) = ax.plot([], [], color=MUTED, linewidth=0.7, linestyle=style)
    if result.arms[0].band is not None:
        entries["95% over families"] = band_mark(ax)
    entries |= _gate_marks(marks, ax, looks)
    random = [reference.random for reference in result.references]
    ax.set(
        xlim=(0, 100),
        ylim=(0, 105 * float(np.nanmax([result.guessing, *random]))),
        xlabel="Coverage: most confident items kept (%)",
        ylabel="Error rate among them (%)",
    )
    headed(ax, "", counts_text(result.items, result.families))
    return with_legend(ax, entries)


def draw_risk_difference(result: RiskCoverageCurves, ax: Axes, looks: Looks) -> Axes:
    """Draw the main arm minus each other arm at every coverage, with 95% bands over families."""
    x = 100 * result.x
    # From a few items on: the first ones differ by whole percents of very little.
    seen = result.x >= _SHOWN_FROM
    entries: dict[str, Any] = {}
    for difference in result.differences:
        # Two arms have one difference, in the colour of the main arm.
        named = difference.a if len(result.differences) == 1 else difference.b
        colour = looks.arms[named].colour
        low, high = 100 * difference.band.low[seen], 100 * difference.band.high[seen]
        ax.fill_between(x[seen], low, high, color=colour, alpha=0.16, linewidth=0)
        a, b = looks.names.arm(difference.a), looks.names.arm(difference.b)
        label, value = f"{shown(a, 18)} − {shown(b, 18)}", 100 * difference.value[seen]
        (entries[label],) = ax.plot(x[seen], value, color=colour, linestyle="-")
    entries["95% over families"] = band_mark(ax)
    ax.axhline(0, color=INK, linewidth=0.6)
    ax.set(
        xlim=(0, 100),
        xlabel="Coverage: most confident items kept (%)",
        ylabel="Difference in\nerror rate (points)",
    )
    others = {looks.names.arm(difference.b) for difference in result.differences}
    other = shown(others.pop(), 20) if len(others) == 1 else "other arm"
    main = shown(looks.names.arm(result.differences[0].a), 20)
    for y, side, text in ((1.0, "top", f"↑ {other} better"), (0.0, "bottom", f"↓ {main} better")):
        beside(ax, text, (1.0, y), -2 if side == "top" else 2, ha="right", va=side)
    ax.margins(y=0.2)
    return with_legend(ax, entries)


def draw_view_tv(result: ArmCurves, ax: Axes, looks: Looks) -> Axes:
    """Draw cumulative shares against view TV on a log axis, with a marker at an arm's mean TV."""
    entries: dict[str, Any] = {}
    for arm in result.arms:
        style = looks.arms[arm.arm]
        _draw_arm(ax, result.x, arm, looks)
        (line,) = ax.plot(result.x, 100 * arm.mean, color=style.colour)
        mean = arm.mean_summary
        if mean > 0:
            height = float(np.interp(np.log(mean), np.log(result.x), 100 * arm.mean))
            look: dict[str, Any] = {"markersize": 5, "markeredgecolor": PAPER}
            look |= {"color": style.colour, "marker": style.marker, "markeredgewidth": 0.5}
            (line,) = ax.plot([mean], [height], **look)
        entries[f"{shown(looks.names.arm(arm.arm), 20)}: mean {100 * mean:.1f}%"] = line
    ax.set_xscale("log")
    log_decades(ax.xaxis, percent=True)
    ax.set(
        xlim=(float(result.x[0]), 1.0),
        ylim=(0, 101),
        xlabel="View TV of an item (%, log scale)",
        ylabel="Items with that TV or less (%)",
    )
    headed(ax, "", f"{counts_text(result.items, result.families)}; bands: 95%")
    return with_legend(ax, entries)


def _draw_arm(ax: Axes, x: Any, arm: ArmCurve, looks: Looks) -> None:
    """Draw the band of an arm if it has one, and a thin line per run if there are several."""
    colour = looks.arms[arm.arm].colour
    if arm.band is not None:
        fill_band(ax, x, arm.band, colour, 0.13)
    for seed, curve in zip(arm.seeds, arm.by_run, strict=True):
        if len(arm.seeds) > 1:
            dash = looks.dash(seed)
            ax.plot(x, 100 * curve, color=colour, alpha=0.6, linewidth=0.5, linestyle=dash)


def build_risk_coverage(request: Request) -> Built:
    """Build the file of risk against coverage, with the chosen gates if there are any.

    Published metrics have one file per run of which a released folder has the curves.
    """
    if request.published is not None:
        figures = released_figures(request.published)
        return Built(tuple(_released_file(request, request.published, data) for data in figures))
    missing: tuple[str, ...] = ()
    marks: Sequence[GateMark] = ()
    if request.thresholds:
        marks, notes = gate_marks(request.experiment, request.thresholds)
        missing = gate_notes(notes, request.names)
    result, looks = risk_coverage(request.experiment), request.looks
    shows = "error rate among the most confident items"
    panels: tuple[Panel, ...] = (partial(draw_risk_coverage, result, looks=looks, marks=marks),)
    if result.differences:
        shows += ", and its difference between arms"
        panels += (partial(draw_risk_difference, result, looks=looks),)
    caption = _MARKS if marks else ""
    file = FigureFile("risk-coverage", "Risk-coverage", panels, caption=caption, shows=shows)
    return Built((file,), missing)


def _released_file(request: Request, metrics: ArmMetrics, data: FigureData) -> FigureFile:
    """Return the file of a released run, before and after T(x)."""
    curves = released_risk_coverage(metrics, data)
    panels = tuple(partial(draw_risk_coverage, curve, looks=request.looks) for curve in curves)
    title = f"Risk-coverage of {request.looks.names.run(data.label)}"
    shows = " and ".join(("before T(x)", "after T(x)")[: len(panels)])
    name = run_stem("risk-coverage", *data.run)
    return FigureFile(name, title, panels, note=f"published; {shows}", shows=shows)


def build_view_tv(request: Request) -> Built:
    """Build the file of the distribution of view TV."""
    result = view_tv_distribution(request.experiment)
    title = "Distribution of TV between the views of an item, 95% bands over families"
    panel = partial(draw_view_tv, result, looks=request.looks)
    file = FigureFile("tv", title, (panel,), inches=2.0)
    return Built((file,), single_views(request, view_tv=True))


def single_views(request: Request, *, view_tv: bool = False) -> tuple[str, ...]:
    """Return a note for every run with one view, which figures of views leave out.

    Args:
        request: has the runs.
        view_tv: whether the figure shows view TV, which a log may state of one view.
    """
    single = [
        run.label
        for run in request.experiment.runs
        if run.predictions.k == 1 and not (view_tv and run.predictions.view_tv is not None)
    ]
    return tuple(f"{request.names.run(label)}: one view only (K is 1)" for label in single)
