"""Difference in accuracy between two arms, by kind and by domain, seed by seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from pact_eval.errors import InputError
from pact_eval.evaluation import CollectedRun, group_rows, label_codes
from pact_eval.stats import SignAgreement, bootstrap_intervals, mean_statistic, same_sign
from pact_reports.figures.axes import counts_text, headed, inert, legend_below, row_axis
from pact_reports.figures.figure import Built, FigureRequest, Plate, reason
from pact_reports.figures.names import stem
from pact_reports.figures.risk_coverage import shared_items
from pact_reports.figures.style import INK, RunStyles, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "DifferenceFigure",
    "GroupDifference",
    "build_differences",
    "difference_figure",
    "draw_differences",
    "matched_runs",
]

_ROW_INCHES = 0.17
_SEED_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


@dataclass(frozen=True)
class GroupDifference:
    """A minus B on one group of items, in accuracy; fractions.

    Attributes:
        by: "all", "kind" or "domain".
        name: of the group.
        items: in it.
        values: at each pair of runs.
        mean: over them.
        low: lower end of the 95% bootstrap interval of the mean over families; NaN for one family.
        high: upper end.
        sign: whether all pairs of runs differ in one direction.
    """

    by: str
    name: str
    items: int
    values: tuple[float, ...]
    mean: float
    low: float
    high: float
    sign: SignAgreement


@dataclass(frozen=True)
class DifferenceFigure:
    """Two arms, group by group.

    Attributes:
        a: name of the first arm.
        b: name of the second.
        pairs: labels of the runs that were laid against each other.
        groups: all items, then kinds, then domains.
        items: all of them.
        families: that they form.
        styles: looks of the arms.
    """

    a: str
    b: str
    pairs: tuple[str, ...]
    groups: tuple[GroupDifference, ...]
    items: int
    families: int
    styles: RunStyles


def matched_runs(
    a: Sequence[CollectedRun], b: Sequence[CollectedRun]
) -> tuple[tuple[CollectedRun, CollectedRun], ...]:
    """Match the runs of two arms by seed; an arm of one run without seed meets every seed.

    Raises:
        InputError: no seed is in both.
    """
    for one, other, swapped in ((a, b, False), (b, a, True)):
        if len(one) == 1 and one[0].seed is None:
            return tuple((each, one[0]) if swapped else (one[0], each) for each in other)
    of_b = {run.seed: run for run in b}
    found = tuple((run, of_b[run.seed]) for run in a if run.seed is not None and run.seed in of_b)
    if not found:
        message = f"{a[0].arm} and {b[0].arm} have no seed in common"
        raise InputError(message)
    return found


def difference_figure(request: FigureRequest, a: str, b: str) -> DifferenceFigure:
    """Compute the difference in accuracy between two arms, by kind and domain.

    Args:
        request: with the runs of both.
        a: name of the first arm.
        b: name of the second; differences are a minus b.

    Raises:
        InputError: the runs hold other items, or no seed is in both arms.
    """
    predictions = shared_items(request).predictions
    arms = request.collection.arms
    pairs = matched_runs(arms[a], arms[b])
    lead = np.array(
        [
            request.scored(one).correct.astype(np.float64) - request.scored(other).correct
            for one, other in pairs
        ]
    )
    groups = []
    for by, names in (
        ("kind", group_rows(predictions, "kind")),
        ("domain", group_rows(predictions, "domain")),
    ):
        for name, rows in names.items():
            first = next(iter(names)) == name
            if first and by == "domain":
                continue
            here = lead[:, rows]
            family = label_codes(predictions.family[rows])
            n_families = int(family.max()) + 1
            estimate = bootstrap_intervals(
                {"lead": mean_statistic(here.mean(axis=0), family, n_families)},
                n_clusters=n_families,
                n=len(rows),
                rng=request.rng,
                resamples=request.resamples_for(len(rows)),
            )["lead"]
            values = tuple(here.mean(axis=1).tolist())
            groups.append(
                GroupDifference(
                    by="all" if first else by,
                    name=name,
                    items=len(rows),
                    values=values,
                    mean=estimate.value,
                    low=estimate.low,
                    high=estimate.high,
                    sign=same_sign(values),
                )
            )
    labels = tuple(_seed(one if one.seed is not None else other) for one, other in pairs)
    families = len(set(predictions.family.tolist()))
    return DifferenceFigure(a, b, labels, tuple(groups), len(predictions), families, request.styles)


def _seed(run: CollectedRun) -> str:
    return "one run" if run.seed is None else f"seed {run.seed}"


def draw_differences(result: DifferenceFigure, ax: Axes) -> Axes:
    """Draw the mean as a bar in the colour of the arm that leads, seeds as markers, intervals.

    An asterisk marks groups in which every seed leads in one direction.
    """
    for row, group in enumerate(result.groups):
        leader = result.a if group.mean >= 0 else result.b
        colour = result.styles.arms[leader].colour
        ax.barh(row, 100 * group.mean, height=0.7, color=colour, alpha=0.5, linewidth=0)
        if not math.isnan(group.low):
            ends = [[100 * (group.mean - group.low)], [100 * (group.high - group.mean)]]
            ax.errorbar(
                100 * group.mean,
                row,
                xerr=ends,
                fmt="none",
                ecolor=INK,
                elinewidth=0.8,
                capsize=1.8,
                zorder=3,
            )
        spread = len(group.values)
        for number, value in enumerate(group.values if spread > 1 else ()):
            ax.scatter(
                [100 * value],
                [row + 0.2 * (number - (spread - 1) / 2) / max(1, spread / 3)],
                s=10,
                marker=_SEED_MARKERS[number % len(_SEED_MARKERS)],
                facecolors="white",
                edgecolors=INK,
                linewidths=0.6,
                zorder=4,
            )
    ax.axvline(0, color=INK, linewidth=0.6)
    row_axis(ax, [_row_label(group) for group in result.groups])
    for number in range(1, len(result.groups)):
        if result.groups[number].by != result.groups[number - 1].by:
            ax.axhline(number - 0.5, color="#CCCCCC", linewidth=0.6)
    ax.set_xlabel("Difference in accuracy (points)")
    names = f"{shown(result.a, 18)} − {shown(result.b, 18)}"
    headed(ax, names, counts_text(result.items, result.families), wide=True)
    if len(result.pairs) > 1:
        handles = [
            ax.scatter(
                [],
                [],
                s=10,
                marker=_SEED_MARKERS[number % len(_SEED_MARKERS)],
                facecolors="white",
                edgecolors=INK,
                linewidths=0.6,
            )
            for number in range(len(result.pairs))
        ]
        legend_below(ax, handles, result.pairs, ncols=4)
    return inert(ax)


def _row_label(group: GroupDifference) -> str:
    mark = "* " if group.sign.same else ""
    return f"{mark}{shown(group.name, 18)} ({group.items:,})"


def build_differences(request: FigureRequest) -> Built:
    """Build one plate for the first arm against each of the others."""
    arms = list(request.collection.arms)
    if len(arms) < 2:
        message = "one arm only: there is nothing to differ from"
        raise InputError(message)
    plates, missing = [], []
    for other in arms[1:]:
        try:
            result = difference_figure(request, arms[0], other)
        except InputError as error:
            missing.append(reason(error))
            continue
        title = f"Difference in accuracy, {arms[0]} minus {other}, by kind and domain"
        height = 1.3 + _ROW_INCHES * len(result.groups)
        name = stem("differences", arms[0], other)
        note = "whiskers: 95% interval over families"
        if len(result.pairs) > 1:
            note = f"* one sign at every seed; {note}"
        panel = partial(draw_differences, result)
        plates.append(Plate(name, title, (panel,), height=height, note=note))
    return Built(tuple(plates), tuple(missing))
