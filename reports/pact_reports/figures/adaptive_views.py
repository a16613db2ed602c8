"""Views one by one: mean views of an item against agreement with all views of the run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_reports.figures.axes import counts_text, headed, inert, legend_below, whiskers
from pact_reports.figures.figure import Built, FigureFile, each_run, run_stem
from pact_reports.figures.style import MUTED, NEUTRAL, PAPER, Looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pact_eval.remedies.sequential import FixedPoint, SequentialPoint, SequentialReplay

_RULE: Final = (NEUTRAL.colours[4], "o")
_FIXED: Final = (NEUTRAL.colours[0], "s")
_MARGIN: Final = 1.08
"""From the first and the last mark to the edges of the panel, as a factor."""


def draw_adaptive_views(replay: SequentialReplay, ax: Axes) -> Axes:
    """Draw the rule at every risk, and the same number of views for every item, on a log axis.

    Args:
        replay: with one point or more.
        ax: the panel.
    """
    from matplotlib.ticker import FixedLocator, NullLocator

    k = f"K = {replay.k}"
    fixed = [(point, f"K = {point.k}") for point in replay.fixed]
    rule = [(point, f"{point.risk:.0%}") for point in replay.points]
    for marks, (colour, _) in ((fixed, _FIXED), (rule, _RULE)):
        at = sorted((point.views.value, 100 * point.agreement.value) for point, _ in marks)
        at += [(replay.most, 100.0)]
        ax.plot(*zip(*at, strict=True), color=colour, marker="", linewidth=0.9)
    handles = [_draw_point(ax, point, name, _FIXED, filled=False) for point, name in fixed]
    for point, name in rule:
        marked = point.risk == replay.risk
        handles.append(_draw_point(ax, point, name, _RULE, filled=marked))
    (all_views,) = ax.plot(replay.most, 100.0, color=MUTED, marker="D", linestyle="none")
    ax.set_xscale("log")
    ax.set_xlim(1 / _MARGIN, replay.most * _MARGIN)
    ax.xaxis.set_major_locator(FixedLocator([1, 2, 4, 8, 16, 32]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set_xlabel("Views per item")
    ax.set_ylabel(f"Answer of {k} (%)")
    headed(ax, "", counts_text(replay.items, replay.families))
    entries = [(handles[-1], "rule, by risk"), (handles[0], "fixed"), (all_views, f"all, {k}")]
    legend_below(ax, [handle for handle, _ in entries], [label for _, label in entries])
    return inert(ax)


def _draw_point(
    ax: Axes,
    point: SequentialPoint | FixedPoint,
    name: str,
    look: tuple[str, str],
    *,
    filled: bool,
) -> object:
    """Draw a point with the intervals of both means, and its name; return the entry of a legend."""
    colour, marker = look
    views, agreement = point.views, point.agreement
    x, y = views.value, 100 * agreement.value
    ax.errorbar(
        x,
        y,
        xerr=whiskers(x, views.low, views.high),
        yerr=whiskers(y, 100 * agreement.low, 100 * agreement.high),
        marker=marker,
        markersize=6 if filled else 4.5,
        color=colour,
        markerfacecolor=colour if filled else PAPER,
        elinewidth=0.7,
        linestyle="none",
        zorder=3,
    )
    above = look == _RULE
    ax.annotate(
        name,
        (x, y),
        xytext=(-4, 4) if above else (4, -4),
        textcoords="offset points",
        ha="right" if above else "left",
        va="bottom" if above else "top",
        color=colour,
    )
    (entry,) = ax.plot([], [], color=colour, marker=marker, markersize=4.5, linestyle="none")
    return entry


def build_adaptive_views(experiment: Experiment, looks: Looks) -> Built:
    """Build one file per run: its views one by one, and the same number for every item."""
    from pact_eval.remedies.sequential import replay_run

    def file(run: ExperimentRun) -> FigureFile:
        settings = experiment.settings
        key = ("views one by one", settings.unit, settings.seed, settings.resamples)
        replay = run.once(key, lambda: replay_run(experiment, run))
        note = f"filled: the rule at a risk of {replay.risk:.0%}; intervals hold thresholds fixed"
        return FigureFile(
            run_stem("adaptive-views", run),
            f"Views one by one in {looks.names.run(run.label)}",
            (partial(draw_adaptive_views, replay),),
            inches=2.4,
            basis=counts_text(replay.items, replay.families),
            note=note,
            shows=f"mean views against agreement with {replay.k} views, with 95% intervals over "
            "families",
        )

    return each_run(experiment, looks, file)
