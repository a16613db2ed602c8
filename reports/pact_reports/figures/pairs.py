"""Outcomes of pairs: both right, one, or neither; by field kind."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pact_eval.errors import InputError
from pact_eval.evaluation.curves.distributions import RunMargins, run_margins
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.report import Group
from pact_eval.numbers import UNDEFINED
from pact_reports.figures.axes import headed, line_mark, row_axis, span, with_legend, with_whiskers
from pact_reports.figures.figure import Built, FigureFile, each_run
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
    counts = np.array([_counts(group) for group in groups])
    totals = counts.sum(axis=1)
    shares = 100 * (counts / totals[:, np.newaxis])
    starts = np.cumsum(shares, axis=1) - shares
    look: dict[str, Any] = {"height": 0.66, "edgecolor": PAPER, "linewidth": 0.5}
    for number, (name, colour) in enumerate(zip(_NAMES, OUTCOME_COLOURS, strict=True)):
        left, widths = starts[:, number], shares[:, number]
        entries[name] = ax.barh(range(len(groups)), widths, left=left, color=colour, **look)
        for place, (start, width) in enumerate(zip(left, widths, strict=True)):
            if width >= _SMALLEST_LABELLED:
                # The whisker ends near the end of the first bar, so its number is at the left.
                x = start + (6 if number == 0 else width / 2)
                ax.text(x, place, f"{width:.0f}", color=_TEXT[number], ha="center", va="center")
    for row, (group, total) in enumerate(zip(groups, totals.tolist(), strict=True)):
        span(ax, row - 0.33, group.estimates["pair_accuracy"], INK, zorder=3)
        same = None if group.pairs is None else group.pairs.same_answer
        text = UNDEFINED if same is None else f"{100 * same / total:.0f}"
        ax.text(106, row, text, ha="center", va="center")
    names = zip(groups, totals.tolist(), strict=True)
    row_axis(ax, [f"{group.name}\nn = {total:,}" for group, total in names])
    ax.text(106, -0.62, "same\nanswer", ha="center", va="bottom")
    ax.set(xlim=(0, 110), xticks=[0, 25, 50, 75, 100], xlabel="Share of pairs (%)")
    headed(ax, shown(title), f"n = {totals[0]:,} complete pairs")
    return with_legend(ax, entries | {"95% over families": line_mark(ax)})


def _counts(group: Group) -> tuple[int, int, int, int]:
    """Return the pairs by outcome, as `_NAMES` names them."""
    pairs = group.pairs
    if pairs is None:
        raise InputError(f"{group.name}: ablated contexts have no pairs")
    return pairs.both_right, pairs.only_base, pairs.only_counterfactual, pairs.neither


def build_pairs(request: Request) -> Built:
    """Build one file per run."""

    def file(run: ExperimentRun, name: str) -> FigureFile:
        evaluation = request.experiment.evaluation(run, calibrated=False)
        groups = [group for group in evaluation.groups if any(_counts(group))]
        if not groups:
            raise InputError("no complete pairs")
        panel = partial(draw_pairs, groups, title=name)
        title = f"Outcomes of the pairs of {name}, by field kind"
        return FigureFile("pairs", title, (panel,), inches=0.75 + 0.34 * len(groups))

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
    ends = (result.mean.value, result.mean.low, result.mean.high)
    mean = with_whiskers(ax, ends, 0.93 * top, INK, capsize=2, elinewidth=1)
    ax.set(ylim=(0, top), xlim=(edges[0], edges[-1]))
    ax.set(xlabel="Margin d of a pair (nats)", ylabel="Pairs")
    headed(ax, shown(title), f"n = {margins.size:,} pairs; whiskers: 95% over families")
    entries = {
        f"mean {result.mean.value:.2f}": mean,
        f"at or below 0: {100 * result.not_positive.value:.1f}%": zero,
        f"below m = {result.trained:g}: {100 * result.below_trained.value:.1f}%": trained,
    }
    return with_legend(ax, entries)


def draw_leads(result: RunMargins, ax: Axes) -> Axes:
    """Draw the lead of each base against that of its counterfactual; d is constant on diagonals."""
    positive = result.margins > 0
    entries = {}
    for label, rows, colour, marker in (
        ("d above 0", positive, RIGHT, "o"),
        ("d at or below 0", ~positive, WRONG, "x"),
    ):
        look: dict[str, Any] = {"s": 9, "marker": marker, "alpha": 0.75, "linewidths": 0.6}
        x, y = result.base[rows], result.counterfactual[rows]
        entries[label] = ax.scatter(x, y, color=colour, **look)
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


def build_margins(request: Request) -> Built:
    """Build one file per run."""

    def file(run: ExperimentRun, name: str) -> FigureFile:
        result = run_margins(request.experiment, run)
        panels = (partial(draw_margins, result, title=name), partial(draw_leads, result))
        return FigureFile("margins", f"Margins of the pairs of {name}", panels, 2.3)

    return each_run(request, request.experiment.runs, file)
