"""How pairs fail: both right, one, or neither; by field kind."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pact_eval import metrics
from pact_eval.errors import InputError
from pact_eval.evaluation import CollectedRun, group_rows, group_statistics
from pact_eval.metrics import PairOutcomes
from pact_eval.stats import Estimate, bootstrap_intervals
from pact_reports.figures.axes import headed, inert, legend_below, row_axis
from pact_reports.figures.figure import Built, FigureRequest, Plate, each_run
from pact_reports.figures.names import run_stem
from pact_reports.figures.style import INK, OUTCOME_COLOURS, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["KindPairs", "PairsFigure", "build_pairs", "draw_pairs", "pairs_figure"]

_NAMES = ("both right", "only base", "only counterfactual", "neither")
_TEXT = ("white", INK, INK, "white")
_WORTH_A_NUMBER = 6.0


@dataclass(frozen=True)
class KindPairs:
    """The pairs of one kind.

    Attributes:
        name: "all", or the kind.
        outcomes: how they came out.
        pairs: how many there are.
        pair_accuracy: share with both right, with its 95% bootstrap interval over families.
    """

    name: str
    outcomes: PairOutcomes
    pairs: int
    pair_accuracy: Estimate

    @property
    def shares(self) -> tuple[float, float, float, float]:
        """Fractions: both right, only base, only counterfactual, neither."""
        counts = self.outcomes
        each = (counts.both_right, counts.only_base, counts.only_counterfactual, counts.neither)
        return tuple(count / self.pairs for count in each)  # type: ignore[return-value]


@dataclass(frozen=True)
class PairsFigure:
    """The pairs of one run.

    Attributes:
        title: of the run.
        rows: all pairs first, then by kind; kinds without pairs are left out.
    """

    title: str
    rows: tuple[KindPairs, ...]


def pairs_figure(request: FigureRequest, run: CollectedRun) -> PairsFigure:
    """Compute how the complete pairs of a run come out, by kind.

    Raises:
        InputError: there are no complete pairs, or no such decoding.
    """
    items = request.scored(run)
    rows = []
    for name, taken in group_rows(run.predictions, "kind").items():
        group = group_statistics(items.taken(taken))
        if not len(group.pairs):
            continue
        drawn = group.sets[0]
        estimates = bootstrap_intervals(
            {"pair_accuracy": drawn.statistics["pair_accuracy"]},
            n_clusters=drawn.n_clusters,
            n=drawn.n,
            rng=request.rng,
            resamples=request.resamples_for(drawn.n),
        )
        outcomes = metrics.pair_outcomes(
            group.pairs,
            metrics.predicted(group.items.log_probs),
            group.items.predictions.reference,
        )
        rows.append(KindPairs(name, outcomes, len(group.pairs), estimates["pair_accuracy"]))
    if not rows:
        message = "no complete pairs"
        raise InputError(message)
    return PairsFigure(run.label, tuple(rows))


def draw_pairs(result: PairsFigure, ax: Axes) -> Axes:
    """Draw stacked bars of the outcomes; the whisker is the interval of both right."""
    handles = []
    for number, colour in enumerate(OUTCOME_COLOURS):
        starts = [100 * sum(row.shares[:number]) for row in result.rows]
        widths = [100 * row.shares[number] for row in result.rows]
        handles.append(
            ax.barh(
                range(len(result.rows)),
                widths,
                left=starts,
                height=0.66,
                color=colour,
                edgecolor="white",
                linewidth=0.5,
            )
        )
        for place, (start, width) in enumerate(zip(starts, widths, strict=True)):
            if width >= _WORTH_A_NUMBER:
                # The whisker ends about where the first bar does: its number stands at the left.
                x = start + (6 if number == 0 else width / 2)
                shown_number = f"{width:.0f}"
                ax.text(x, place, shown_number, color=_TEXT[number], ha="center", va="center")
    for number, row in enumerate(result.rows):
        estimate = row.pair_accuracy
        if not math.isnan(estimate.low):
            ends = [
                [100 * (estimate.value - estimate.low)],
                [100 * (estimate.high - estimate.value)],
            ]
            ax.errorbar(
                100 * estimate.value,
                number - 0.33,
                xerr=ends,
                fmt="none",
                ecolor=INK,
                elinewidth=0.9,
                capsize=1.8,
            )
        same = f"{100 * row.outcomes.same_answer / row.pairs:.0f}"
        ax.text(106, number, same, ha="center", va="center")
    row_axis(ax, [f"{row.name}\nn = {row.pairs:,}" for row in result.rows])
    ax.text(106, -0.62, "same\nanswer", ha="center", va="bottom")
    ax.set_xlim(0, 110)
    ax.set_xticks([0, 25, 50, 75, 100])
    ax.set_xlabel("Share of pairs (%)")
    headed(
        ax,
        shown(result.title),
        f"n = {result.rows[0].pairs:,} complete pairs; whiskers: 95% over families",
    )
    legend_below(ax, handles, _NAMES)
    return inert(ax)


def build_pairs(request: FigureRequest) -> Built:
    """Build one plate a run."""

    def plate(run: CollectedRun) -> Plate:
        result = pairs_figure(request, run)
        title = f"How the pairs of {run.label} come out, by field kind"
        height = 1.25 + 0.34 * len(result.rows)
        panel = partial(draw_pairs, result)
        return Plate(run_stem("pairs", run), title, (panel,), height=height)

    return each_run(request, plate)
