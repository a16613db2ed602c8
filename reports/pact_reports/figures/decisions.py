"""Cost and value of gates on a run, and marks of chosen gates."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pact_eval.errors import InputError
from pact_eval.evaluation.curves.probabilities import Band
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.thresholds.decision_curves import CostCurve, GateMark, cost_curve
from pact_eval.thresholds.gates import SIGNAL_NAMES, gate_number
from pact_reports.figures.axes import band_mark, counts_text, headed, whiskers, with_legend
from pact_reports.figures.figure import Built, FigureFile, each_run, run_stem
from pact_reports.figures.style import INK, MUTED, PAPER, Looks, shown
from pact_reports.request import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes


_TICKS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
_DASHED = (0, (4, 2))
_DOTTED = (0, (1, 1.5))
_WRONG_WORTH = "#B3452C"


def draw_gate_marks(marks: Sequence[GateMark], ax: Axes, looks: Looks) -> dict[str, Any]:
    """Draw chosen gates on a panel of risk against coverage; return their legend entries.

    A gate is a diamond at the accepted share and the error, with 95% intervals; it is hollow if it
    was chosen on families of the run. A line shows its target.
    """
    entries: dict[str, Any] = {}
    for mark in marks:
        if mark.accepted.value == 0:
            continue
        colour = looks.arms[mark.arm].colour
        x, y = 100 * mark.accepted.value, 100 * mark.error.value
        drawn = ax.errorbar(
            x,
            y,
            xerr=whiskers(x, 100 * mark.accepted.low, 100 * mark.accepted.high),
            yerr=whiskers(y, 100 * mark.error.low, 100 * mark.error.high),
            marker="D",
            markersize=4.5,
            color=colour,
            markerfacecolor=PAPER if mark.own_families else colour,
            elinewidth=0.8,
            zorder=5,
        )
        target = mark.file.target
        if target.limits_error:
            ax.axhline(100 * target.rate, color=INK, linewidth=0.6, linestyle=_DOTTED)
        what = f"target {100 * target.rate:.3g}%" if target.limits_error else "escalation"
        entries[f"{shown(looks.names.run(mark.run), 20)}: gate, {what}"] = drawn
    return entries


def draw_cost(result: CostCurve, ax: Axes, looks: Looks) -> Axes:
    """Draw the expected cost of every gate, next to always answering and always asking."""
    colour = looks.arms[result.arm].colour
    entries = {"gate": _draw_band(ax, result, result.cost, colour)}
    for at, linestyle, label in ((0, _DASHED, "always answer"), (-1, _DOTTED, "always ask")):
        level = float(result.cost[0][at])
        line = ax.axhline(level, color=MUTED, linewidth=0.9, linestyle=linestyle)
        entries[f"{label}: {level:.3g}"] = line
    _set_gates(ax, result)
    ax.set_ylim(bottom=0)
    ax.set_ylabel("Expected cost per item")
    name = shown(looks.names.run(result.run))
    headed(ax, name, counts_text(result.items, result.families))
    return with_legend(ax, entries | _gate_entries(ax, result))


def draw_value(result: CostCurve, ax: Axes, looks: Looks) -> Axes:
    """Draw the savings of every gate per item, over always answering and over always asking."""
    colour = looks.arms[result.arm].colour
    entries = {
        "value over always answer": _draw_band(ax, result, result.over_answering, colour),
        "value over always ask": _draw_band(ax, result, result.over_asking, _WRONG_WORTH),
    }
    ax.axhline(0, color=INK, linewidth=0.6)
    _set_gates(ax, result)
    ax.set_ylabel("Saved per item")
    headed(ax, "", counts_text(result.items, result.families))
    return with_legend(ax, entries | _gate_entries(ax, result))


def _set_gates(ax: Axes, result: CostCurve) -> None:
    """Set the axis of gates, which are placed by the share that they escalate."""
    places = dict.fromkeys(result.nearest(share) for share in _TICKS)
    ticks = [100 * float(result.escalated[at]) for at in places]
    texts = [
        f"{tick:.0f}\n{gate_number(float(result.thresholds[at]), result.rule.signal)}"
        for tick, at in zip(ticks, places, strict=True)
    ]
    ax.set_xticks(ticks, labels=texts)
    ax.set_xlim(0, 100)
    ax.set_xlabel(f"Escalated items (%); below, the gate on {SIGNAL_NAMES[result.rule.signal]}")


def _gate_entries(ax: Axes, result: CostCurve) -> dict[str, Any]:
    """Return the entries of the chosen gate, if there is one, and of the bands."""
    entries: dict[str, Any] = {}
    if result.chosen is not None:
        look: dict[str, Any] = {"color": MUTED, "marker": "D", "markersize": 5, "linestyle": "none"}
        (entries["chosen gate"],) = ax.plot([], [], **look)
    entries["95% over families"] = band_mark(ax)
    return entries


def _draw_band(ax: Axes, result: CostCurve, curve: tuple[Any, Band], colour: str) -> Any:
    x, (value, band) = 100 * result.escalated, curve
    ax.fill_between(x, band.low, band.high, color=colour, alpha=0.15, linewidth=0)
    (line,) = ax.plot(x, value, color=colour, marker="")
    if result.chosen is not None:
        at = result.chosen
        ax.plot([x[at]], [value[at]], color=colour, marker="D", markersize=5, linestyle="none")
    return line


def build_costs(request: Request) -> Built:
    """Build one file per run: the costs of gates, and their value.

    Raises:
        InputError: there are no costs.
    """
    decisions, looks = request.decisions, request.looks
    if decisions is None or decisions.costs is None:
        raise InputError("no costs were given (--cost-wrong, or --thresholds of costs)")
    costs = decisions.costs

    def file(run: ExperimentRun, name: str) -> FigureFile:
        result = cost_curve(request.experiment, run, decisions)
        panels = (
            partial(draw_cost, result, looks=looks),
            partial(draw_value, result, looks=looks),
        )
        prices = f"a wrong decision costs {costs.cost_wrong:g}, a review {costs.cost_review:g}"
        return FigureFile(
            run_stem("costs", run.arm, run.seed),
            f"Costs of {name}",
            panels,
            inches=2.0,
            shows=f"what every gate costs, and its value; {prices}",
        )

    return each_run(request, request.experiment.runs, file)
