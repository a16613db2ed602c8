"""Outcomes of pairs: both right, one, or neither; by field kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pact_eval.errors import InputError
from pact_eval.evaluation.curves.distributions import RunMargins, run_margins
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.report import Group
from pact_eval.metrics.pairs import PairOutcomes
from pact_eval.numbers import UNDEFINED
from pact_eval.stats.estimate import Estimate
from pact_reports.figures.axes import headed, line_mark, row_axis, whiskers, with_legend
from pact_reports.figures.figure import Built, FigureFile, each_run, run_stem
from pact_reports.figures.style import INK, MUTED, OUTCOME_COLOURS, PAPER, RIGHT, WRONG, shown
from pact_reports.request import Request

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_NAMES = ("both right", "only base", "only counterfactual", "neither")
_TEXT = (PAPER, INK, INK, PAPER)
_SMALLEST_LABELLED = 6.0


def draw_pairs(groups: Sequence[Group], ax: Axes, title: str = "") -> Axes:
    """Draw stacked bars of the outcomes of pairs; the whisker is the interval of both right.

    Args:
        groups: of an evaluation, with complete pairs.
        ax: the panel.
        title: label of the run.
    """
    entries: dict[str, Any] = {}
    shares = [_shares(group) for group in groups]
    for number, colour in enumerate(OUTCOME_COLOURS):
        starts = [sum(bars[:number]) for bars in shares]
        widths = [bars[number] for bars in shares]
        look: dict[str, Any] = {
            "height": 0.66,
            "color": colour,
            "edgecolor": PAPER,
            "linewidth": 0.5,
        }
        entries[_NAMES[number]] = ax.barh(range(len(groups)), widths, left=starts, **look)
        for place, (start, width) in enumerate(zip(starts, widths, strict=True)):
            if width >= _SMALLEST_LABELLED:
                # The whisker ends near the end of the first bar, so its number is at the left.
                x = start + (6 if number == 0 else width / 2)
                ax.text(x, place, f"{width:.0f}", color=_TEXT[number], ha="center", va="center")
    for number, group in enumerate(groups):
        _draw_row(ax, number, group)
    row_axis(ax, [f"{group.name}\nn = {_pairs(group):,}" for group in groups])
    ax.text(106, -0.62, "same\nanswer", ha="center", va="bottom")
    ax.set(xlim=(0, 110), xticks=[0, 25, 50, 75, 100], xlabel="Share of pairs (%)")
    headed(ax, shown(title), f"n = {_pairs(groups[0]):,} complete pairs")
    return with_legend(ax, entries | {"95% over families": line_mark(ax)})


def _draw_row(ax: Axes, number: int, group: Group) -> None:
    """Draw the interval of pair accuracy, and the share of pairs with the same answer."""
    accuracy = group.estimates["pair_accuracy"]
    if not math.isnan(accuracy.low):
        at = number - 0.33
        ax.hlines(at, 100 * accuracy.low, 100 * accuracy.high, color=INK, linewidth=1.1, zorder=3)
    same = _outcomes(group).same_answer
    text = UNDEFINED if same is None else f"{100 * same / _pairs(group):.0f}"
    ax.text(106, number, text, ha="center", va="center")


def _outcomes(group: Group) -> PairOutcomes:
    if group.pairs is None:
        raise InputError(f"{group.name}: ablated contexts have no pairs")
    return group.pairs


def _pairs(group: Group) -> int:
    return sum(_counts(group))


def _counts(group: Group) -> tuple[int, int, int, int]:
    pairs = _outcomes(group)
    return pairs.both_right, pairs.only_base, pairs.only_counterfactual, pairs.neither


def _shares(group: Group) -> list[float]:
    return [100 * (count / _pairs(group)) for count in _counts(group)]


def build_pairs(request: Request) -> Built:
    """Build one file per run."""

    def file(run: ExperimentRun, name: str) -> FigureFile:
        evaluation = request.experiment.evaluation(run, calibrated=False)
        groups = [group for group in evaluation.groups if _pairs(group)]
        if not groups:
            raise InputError("no complete pairs")
        panel = partial(draw_pairs, groups, title=name)
        title = f"Outcomes of the pairs of {name}, by field kind"
        inches = 0.75 + 0.34 * len(groups)
        return FigureFile(run_stem("pairs", run.arm, run.seed), title, (panel,), inches=inches)

    return each_run(request, request.experiment.runs, file)


_BINS: Final = 40
_DASHED: Final = (0, (4, 2))
_DOTTED: Final = (0, (1, 1.2))


def draw_margins(result: RunMargins, ax: Axes, title: str = "") -> Axes:
    """Draw the histogram of the margins, with 0, the trained margin, and the mean."""
    margins = result.margins
    low, high = min(float(margins.min()), 0.0), max(float(margins.max()), result.trained)
    width = (high - low) / _BINS
    # 0 is an edge, so no bar counts pairs of both sides.
    bins = np.arange(np.floor(low / width), np.ceil(high / width) + 1) * width
    counts, edges, _ = ax.hist(
        margins, bins=bins.tolist(), color=RIGHT, alpha=0.85, edgecolor=PAPER
    )
    top = 1.18 * float(np.max(counts))
    zero = ax.axvline(0, color=WRONG, linewidth=1.1)
    trained = ax.axvline(result.trained, color=MUTED, linewidth=1.1, linestyle=_DASHED)
    mean = ax.errorbar(
        result.mean.value,
        0.93 * top,
        xerr=whiskers(result.mean.value, result.mean.low, result.mean.high),
        marker="o",
        markersize=4.5,
        color=INK,
        capsize=2,
        elinewidth=1,
    )
    ax.set(ylim=(0, top), xlim=(edges[0], edges[-1]))
    ax.set(xlabel="Margin d of a pair (nats)", ylabel="Pairs")
    headed(ax, shown(title), f"n = {margins.size:,} pairs; whiskers: 95% over families")
    entries = {
        f"mean {result.mean.value:.2f}": mean,
        f"at or below 0: {_share(result.not_positive)}": zero,
        f"below m = {result.trained:g}: {_share(result.below_trained)}": trained,
    }
    return with_legend(ax, entries)


def draw_leads(result: RunMargins, ax: Axes) -> Axes:
    """Draw the lead of each base against that of its counterfactual; d is constant on diagonals."""
    positive = result.margins > 0
    entries = {
        label: ax.scatter(
            result.base[rows],
            result.counterfactual[rows],
            s=9,
            marker=marker,
            color=colour,
            alpha=0.75,
            linewidths=0.6,
        )
        for label, rows, colour, marker in (
            ("d above 0", positive, RIGHT, "o"),
            ("d at or below 0", ~positive, WRONG, "x"),
        )
    }
    leads = np.concatenate([result.base, result.counterfactual])
    low, high = float(leads.min()), float(leads.max())
    room = 0.05 * max(high - low, 1.0)
    ends = np.array([low - room, high + room])
    for d, colour, style in ((0.0, WRONG, "-"), (result.trained, MUTED, _DASHED)):
        ax.plot(ends, d - ends, color=colour, linewidth=0.9, linestyle=style, marker="", zorder=0)
    ax.axhline(0, color=MUTED, linewidth=0.6, linestyle=_DOTTED, zorder=0)
    ax.axvline(0, color=MUTED, linewidth=0.6, linestyle=_DOTTED, zorder=0)
    ax.set(xlim=tuple(ends), ylim=tuple(ends))
    ax.set(xlabel="Lead of the base (nats)", ylabel="Lead of counterfactual (nats)")
    headed(ax, "", "lead: log-odds of one right answer against the other")
    return with_legend(ax, entries)


def _share(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.1f}%"


def build_margins(request: Request) -> Built:
    """Build one file per run."""

    def file(run: ExperimentRun, name: str) -> FigureFile:
        result = run_margins(request.experiment, run)
        name_of_file = run_stem("margins", run.arm, run.seed)
        panels = (partial(draw_margins, result, title=name), partial(draw_leads, result))
        return FigureFile(name_of_file, f"Margins of the pairs of {name}", panels, 2.3)

    return each_run(request, request.experiment.runs, file)
