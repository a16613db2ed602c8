"""Remedies of order effects: value against cost, one panel per metric."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.remedies.comparison import RemedyComparison, RemedyRow, remedies_of_run
from pact_reports.figures.axes import counts_text, headed, whiskers, with_legend
from pact_reports.figures.figure import Built, FigureFile, each_run, run_stem
from pact_reports.figures.style import NEUTRAL, PAPER, Looks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes


_METRICS: Final = ("nll_nats", "accuracy", "pair_accuracy", "flip_rate", "ece")
_VIEWS: Final = "K views"
_LOOKS: Final[Mapping[str, tuple[str, str]]] = {
    _VIEWS: (NEUTRAL.colours[0], "o"),
    "prior removed": (NEUTRAL.colours[4], "s"),
    "batch calibrated": (NEUTRAL.colours[3], "^"),
    "contextual": (NEUTRAL.colours[5], "X"),
}
_FILE: Final = (NEUTRAL.colours[2], "*")
"""Look of remedies of a file, whatever they are."""

_APART: Final = 0.035
"""Between marks of one cost, as a share of the logarithmic range."""

_MARGIN: Final = 1.06
"""From the first and the last mark to the edges of a panel, as a factor."""

_FILLED: Final = "filled: shown to help over one view; numbers: K; long whiskers are cut"


def draw_remedies(comparison: RemedyComparison, name: str, ax: Axes) -> Axes:
    """Draw one metric of remedies against their cost per item, on a log axis.

    Args:
        comparison: the remedies.
        name: the metric.
        ax: the panel.
    """
    from matplotlib.ticker import MaxNLocator, NullLocator

    cost_of, words = _cost(comparison)
    spec = comparison.rows[0].metric(name).spec
    scale = 100.0 if spec.unit == "percent" else 1.0
    rows = [row for row in comparison.rows if not math.isnan(row.metric(name).value.value)]
    # All panels have the places of all remedies, also those that a metric leaves out.
    places = _places(comparison.rows, cost_of)
    views = [row for row in rows if _group(row) == _VIEWS]
    ax.set_xscale("log")
    ax.plot(
        [places[row.remedy.name] for row in views],
        [scale * row.metric(name).value.value for row in views],
        color=_LOOKS[_VIEWS][0],
        marker="",
        linewidth=0.9,
    )
    ends = _ends(rows, views, name, scale)
    entries = {
        _group(row): _draw_mark(ax, row, name, places[row.remedy.name], (scale, ends))
        for row in rows
    }
    ax.xaxis.set_major_locator(MaxNLocator(2, integer=True))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set(
        xlim=(min(places.values()) / _MARGIN, max(places.values()) * _MARGIN),
        ylim=ends,
        xlabel=f"{words} per item",
        ylabel=f"{spec.title} ({'%' if spec.unit == 'percent' else spec.unit})",
    )
    headed(ax, spec.title)
    return with_legend(ax, entries)


def _draw_mark(
    ax: Axes, row: RemedyRow, name: str, x: float, axis: tuple[float, tuple[float, float]]
) -> object:
    """Draw a value, or its number at the edge of the panel if it is far beyond."""
    estimate = row.metric(name).value
    scale, (bottom, top) = axis
    colour, marker = _FILE if row.remedy.from_file else _LOOKS[_group(row)]
    y = scale * estimate.value
    beyond = not bottom <= y <= top
    if beyond:
        above = y > top
        ax.annotate(
            f"{y:.3g} {'↑' if above else '↓'}",
            (x, top if above else bottom),
            xytext=(-4, -3 if above else 3),
            textcoords="offset points",
            ha="right",
            va="top" if above else "bottom",
            color=colour,
        )
    ax.errorbar(
        x,
        min(max(y, bottom), top),
        yerr=None
        if beyond
        else whiskers(y, *_around(y, scale * estimate.low, scale * estimate.high)),
        clip_on=not beyond,
        marker=marker,
        markersize=5,
        color=colour,
        markerfacecolor=colour if row.helps("k1") else PAPER,
        elinewidth=0.7,
        linestyle="none",
        zorder=3,
    )
    if _group(row) == _VIEWS:
        ax.annotate(
            str(row.remedy.views), (x, y), xytext=(-9, 3), textcoords="offset points", color=colour
        )
    # The legend says what a mark is, whether or not it helps.
    (entry,) = ax.plot([], [], color=colour, marker=marker, markersize=5, linestyle="none")
    return entry


def _ends(
    rows: Sequence[RemedyRow], views: Sequence[RemedyRow], name: str, scale: float
) -> tuple[float, float]:
    """Return the ends of the vertical axis: the intervals of K views, and values not far from them.

    One remedy that is far off, or has a very wide interval, would flatten all others.
    """
    ends = [
        end for row in views for end in (row.metric(name).value.low, row.metric(name).value.high)
    ]
    core = [scale * end for end in ends if math.isfinite(end)]
    values = [scale * row.metric(name).value.value for row in rows]
    core = core or values
    span = max(core) - min(core)
    near = [value for value in values if min(core) - span <= value <= max(core) + span]
    shown = [*core, *near]
    free = 0.06 * ((max(shown) - min(shown)) or 1.0)
    return min(shown) - free, max(shown) + free


def _around(value: float, low: float, high: float) -> tuple[float, float]:
    """Return ends of a whisker that do not lie on the wrong side: an ECE is biased upwards."""
    return (low, high) if math.isnan(low) else (min(low, value), max(high, value))


def _cost(comparison: RemedyComparison) -> tuple[Callable[[RemedyRow], float], str]:
    """Return the cost of the horizontal axis: the best one that is known, and its name."""
    if not any(math.isnan(row.cost.tokens) for row in comparison.rows):
        return (lambda row: row.cost.tokens), "Computed tokens"
    if not any(math.isnan(row.cost.sent_tokens) for row in comparison.rows):
        return (lambda row: row.cost.sent_tokens), "Sent tokens"
    return (lambda row: row.cost.prompts), "Prompts"


def _places(rows: Sequence[RemedyRow], cost_of: Callable[[RemedyRow], float]) -> dict[str, float]:
    """Return where marks are drawn: those of one cost next to each other, K views at their cost."""
    costs = [cost_of(row) for row in rows]
    step = _APART * max(math.log(max(costs) / min(costs)), 0.1)
    places: dict[str, float] = {}
    for cost in dict.fromkeys(costs):
        alike = [row for row in rows if cost_of(row) == cost]
        alike.sort(key=lambda row: _group(row) != _VIEWS)
        for rank, row in enumerate(alike):
            places[row.remedy.name] = cost * math.exp(rank * step)
    return places


def _group(row: RemedyRow) -> str:
    """Return the entry of the legend that a remedy belongs to."""
    remedy = row.remedy
    removed = {"additive": "prior removed", "batch": "batch calibrated"}
    if remedy.contextual:
        kind = "contextual"
    else:
        kind = _VIEWS if remedy.prior is None else removed[remedy.prior]
    return f"{kind} (file)" if remedy.from_file else kind


def build_remedies(experiment: Experiment, looks: Looks) -> Built:
    """Build one file per run: a panel for each metric against the cost of remedies."""

    def file(run: ExperimentRun, name: str) -> FigureFile:
        if run.predictions.k == 1:
            raise InputError(f"{run.label}: one view per item; score it with --k 4")
        settings = experiment.settings
        key = ("raw remedies", settings.unit, settings.seed, settings.resamples)
        comparison = run.once(key, lambda: remedies_of_run(experiment, run, scope="raw"))
        drawn = [
            name
            for name in _METRICS
            if any(not math.isnan(row.metric(name).value.value) for row in comparison.rows)
        ]
        basis = counts_text(comparison.items, comparison.families)
        return FigureFile(
            run_stem("remedies", run),
            f"Remedies of order effects in {name}",
            tuple(partial(draw_remedies, comparison, name) for name in drawn),
            inches=1.9,
            panel_inches=1.5,
            basis=basis,
            note=f"{basis}; {_FILLED}",
            shows="cost against worth, with 95% intervals over families",
        )

    return each_run(experiment, looks, file)
