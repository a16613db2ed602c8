"""ECE by field kind, before and after T(x), for every arm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pact_eval import metrics
from pact_eval.evaluation import CollectedRun, ScoredItems, group_rows, group_statistics
from pact_eval.stats import bootstrap_intervals, seed_summary
from pact_reports.figures.axes import counts_text, headed, inert, legend_below, legend_inches
from pact_reports.figures.figure import ECE_LEANS, Built, FigureRequest, Plate
from pact_reports.figures.risk_coverage import shared_items
from pact_reports.figures.style import INK, RunStyles, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ArmEce", "EceFigure", "build_ece_kind", "draw_ece_kind", "ece_figure"]

_WIDTH = 0.8


@dataclass(frozen=True)
class ArmEce:
    """ECE of one arm on one kind; fractions.

    Attributes:
        arm: its name.
        values: of its runs, raw.
        mean: over runs.
        low: lower end of the whisker: mean - 1 s.d. over seeds, of one run the 95% interval over
            families; NaN where there is none.
        high: upper end.
        calibrated: mean after T(x); NaN where a run has no calibrator.
    """

    arm: str
    values: tuple[float, ...]
    mean: float
    low: float
    high: float
    calibrated: float


@dataclass(frozen=True)
class EceFigure:
    """ECE by kind.

    Attributes:
        kinds: by name ("all" first) the number of items and one entry an arm.
        items: all of them.
        families: that they form.
        styles: looks of the arms.
    """

    kinds: dict[str, tuple[int, tuple[ArmEce, ...]]]
    items: int
    families: int
    styles: RunStyles


def ece_figure(request: FigureRequest) -> EceFigure:
    """Compute the ECE of every arm by kind.

    Raises:
        InputError: there is no run, or the runs hold other items.
    """
    first = shared_items(request).predictions
    kinds = {}
    for name, rows in group_rows(first, "kind").items():
        arms = []
        for arm, runs in request.collection.arms.items():
            raw = [request.scored(run).taken(rows) for run in runs]
            after = [
                request.scored(run, calibrated=True).taken(rows)
                for run in runs
                if run.calibrator is not None
            ]
            calibrated = seed_summary([_ece(each) for each in after]).mean
            low, high = _whisker(request, raw)
            values = tuple(_ece(each) for each in raw)
            mean = seed_summary(values).mean
            complete = calibrated if len(after) == len(raw) else math.nan
            arms.append(ArmEce(arm, values, mean, low, high, complete))
        kinds[name] = (len(rows), tuple(arms))
    return EceFigure(kinds, len(first), len(set(first.family.tolist())), request.styles)


def _ece(items: ScoredItems) -> float:
    return metrics.ece(items.confidence, items.correct)


def _whisker(request: FigureRequest, runs: list[ScoredItems]) -> tuple[float, float]:
    if len(runs) > 1:
        summary = seed_summary([_ece(each) for each in runs])
        return summary.mean - summary.deviation, summary.mean + summary.deviation
    drawn = group_statistics(runs[0]).sets[0]
    estimate = bootstrap_intervals(
        {"ece": drawn.statistics["ece"]},
        n_clusters=drawn.n_clusters,
        n=drawn.n,
        rng=request.rng,
        resamples=request.resamples_for(drawn.n),
    )["ece"]
    return estimate.low, estimate.high


def draw_ece_kind(result: EceFigure, ax: Axes) -> Axes:
    """Draw a wide light bar raw and a narrow dark one after T(x), seeds as dots, whiskers."""
    handles, labels = [], []
    arms = len(next(iter(result.kinds.values()))[1])
    width = _WIDTH / arms
    for place, (_, entries) in enumerate(result.kinds.values()):
        for number, entry in enumerate(entries):
            style = result.styles.arms[entry.arm]
            x = place + width * (number - (arms - 1) / 2)
            bar = ax.bar(x, 100 * entry.mean, width=0.9 * width, color=style.colour, alpha=0.4)
            if place == 0:
                handles.append(bar)
                labels.append(shown(entry.arm, 20))
            if not math.isnan(entry.calibrated):
                ax.bar(x, 100 * entry.calibrated, width=0.4 * width, color=style.colour)
            _whiskers(ax, x, entry)
            if len(entry.values) > 1:
                dots = [100 * value for value in entry.values]
                ax.scatter(
                    [x] * len(dots),
                    dots,
                    s=7,
                    marker=style.marker,
                    facecolors="white",
                    edgecolors=INK,
                    linewidths=0.4,
                    zorder=4,
                )
    names = [f"{name}\nn = {items:,}" for name, (items, _) in result.kinds.items()]
    ax.set_xticks(range(len(names)), labels=names)
    ax.tick_params(axis="x", length=0)
    ax.set_ylim(0, None)
    ax.set_ylabel("ECE (%) ↓")
    headed(ax, "", counts_text(result.items, result.families))
    legend_below(ax, handles, labels)
    return inert(ax)


def _whiskers(ax: Axes, x: float, entry: ArmEce) -> None:
    if math.isnan(entry.low):
        return
    over_seeds = len(entry.values) > 1
    ax.errorbar(
        x,
        50 * (entry.low + entry.high),  # that of ECE can lie wholly above its value
        yerr=50 * (entry.high - entry.low),
        fmt="none",
        ecolor=INK,
        elinewidth=0.8,
        capsize=1.5 if over_seeds else 0,
        zorder=3,
    )


def build_ece_kind(request: FigureRequest) -> Built:
    """Build the plate of ECE by kind."""
    result = ece_figure(request)
    title = "ECE by field kind: wide light bars uncalibrated, narrow dark bars after T(x)"
    without = [run for run in request.collection.runs if run.calibrator is None]
    missing = tuple(
        f"{_label(run)}: no calibrator, so that it is shown raw only" for run in without
    )
    legend = legend_inches([shown(arm, 20) for arm in request.collection.arms])
    panel = partial(draw_ece_kind, result)
    note = (
        "narrow bars: after T(x); dots: seeds, raw\n"
        "whiskers: ± 1 s.d. of seeds, without caps 95% interval over families"
    )
    height = 2.5 + legend
    plate = Plate("ece-kind", title, (panel,), height=height, note=note, caption=ECE_LEANS)
    return Built((plate,), missing)


def _label(run: CollectedRun) -> str:
    return run.label
