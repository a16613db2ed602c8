"""Margins of pairs: their distribution, and the lead of the base against the counterfactual."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from pact_eval.evaluation.curves.margins import RunMargins, run_margins
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.stats.estimate import Estimate
from pact_reports.figures.axes import headed, inert, legend_below, whiskers
from pact_reports.figures.figure import Built, FigureFile, each_run, run_stem
from pact_reports.figures.style import INK, MUTED, PAPER, RIGHT, WRONG, Looks, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    ax.set_ylim(0, top)
    ax.set_xlim(edges[0], edges[-1])
    ax.set_xlabel("Margin d of a pair (nats)")
    ax.set_ylabel("Pairs")
    headed(ax, shown(title), f"n = {margins.size:,} pairs; whiskers: 95% over families")
    legend_below(
        ax,
        [mean, zero, trained],
        [
            f"mean {result.mean.value:.2f}",
            f"at or below 0: {_share(result.not_positive)}",
            f"below m = {result.trained:g}: {_share(result.below_trained)}",
        ],
    )
    return inert(ax)


def draw_leads(result: RunMargins, ax: Axes) -> Axes:
    """Draw the lead of each base against that of its counterfactual; d is constant on diagonals."""
    positive = result.margins > 0
    marks = [
        ax.scatter(
            result.base[rows],
            result.counterfactual[rows],
            s=9,
            marker=marker,
            color=colour,
            alpha=0.75,
            linewidths=0.6,
        )
        for rows, colour, marker in ((positive, RIGHT, "o"), (~positive, WRONG, "x"))
    ]
    leads = np.concatenate([result.base, result.counterfactual])
    low, high = float(leads.min()), float(leads.max())
    room = 0.05 * max(high - low, 1.0)
    ends = np.array([low - room, high + room])
    for d, colour, style in ((0.0, WRONG, "-"), (result.trained, MUTED, _DASHED)):
        ax.plot(ends, d - ends, color=colour, linewidth=0.9, linestyle=style, marker="", zorder=0)
    ax.axhline(0, color=MUTED, linewidth=0.6, linestyle=_DOTTED, zorder=0)
    ax.axvline(0, color=MUTED, linewidth=0.6, linestyle=_DOTTED, zorder=0)
    ax.set_xlim(*ends)
    ax.set_ylim(*ends)
    ax.set_xlabel("Lead of the base (nats)")
    ax.set_ylabel("Lead of counterfactual (nats)")
    headed(ax, "", "lead: log-odds of one right answer against the other")
    legend_below(ax, marks, ["d above 0", "d at or below 0"])
    return inert(ax)


def _share(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.1f}%"


def build_margins(experiment: Experiment, looks: Looks) -> Built:
    """Build one file per run."""

    def file(run: ExperimentRun) -> FigureFile:
        result = run_margins(experiment, run)
        name = looks.names.run(run.label)
        panels = (partial(draw_margins, result, title=name), partial(draw_leads, result))
        return FigureFile(run_stem("margins", run), f"Margins of the pairs of {name}", panels, 2.3)

    return each_run(experiment, looks, file)
