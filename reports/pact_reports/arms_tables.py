"""Arms beside each other: mean and deviation over seeds, and the paired tests by seed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.box import ASCII2, SIMPLE_HEAD, Box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pact_eval.arms import Arm, ArmPair, ArmsComparison
from pact_eval.evaluation import METRICS, MetricSpec, Unit
from pact_eval.stats import SeedSummary
from pact_reports.numbers import estimate_text, p_value_text, value_text
from pact_reports.plain_text import cell, lines, one_line, visible

__all__ = ["arms_report"]

_ARROW = {1: " ↑", -1: " ↓", 0: ""}
_POINTS: dict[Unit, Unit] = {"percent": "points"}


def arms_report(
    comparison: ArmsComparison, *, show_holm: bool, plain: bool
) -> Iterator[RenderableType]:
    """Lay out arms over seeds.

    Args:
        comparison: the arms.
        show_holm: show p-values adjusted over the seeds.
        plain: ASCII rules.

    Yields:
        Means and deviations of all items, with the best of each metric marked; accuracy by group;
        then the first arm against each of the others, seed by seed.
    """
    box = ASCII2 if plain else SIMPLE_HEAD
    yield Text("Mean over seeds ± sample standard deviation; * is the best of a metric.")
    yield _arms_table(comparison, box)
    yield _groups_table(comparison, box)
    for pair in comparison.pairs:
        yield Text(f"\n{one_line(f'{pair.a} - {pair.b}')}, seed by seed", style="bold")
        yield _seeds_table(pair, box, show_holm=show_holm)
        yield Text("= marks one sign at every seed (two seeds or more).")
        yield _signs_table(pair, box)
    for note in comparison.notes:
        yield Text(f"Note: {visible(note)}", style="yellow")


def _arms_table(comparison: ArmsComparison, box: Box) -> Table:
    table = _table("all items", box)
    for arm in comparison.arms:
        table.add_column(lines([arm.name, _seeds(arm)]))
    for spec in METRICS:
        row = [arm.summaries["all"][spec.name] for arm in comparison.arms]
        table.add_row(spec.title + _ARROW[spec.better], *_marked(row, spec))
    return table


def _groups_table(comparison: ArmsComparison, box: Box) -> Table:
    table = _table("accuracy", box)
    for arm in comparison.arms:
        table.add_column(cell(arm.name))
    for group in comparison.groups[1:]:
        row = [arm.summaries[group]["accuracy"] for arm in comparison.arms]
        table.add_row(cell(group), *_marked(row, METRICS[0]))
    return table


def _marked(row: list[SeedSummary], spec: MetricSpec) -> list[Text]:
    means = [each.mean for each in row if not math.isnan(each.mean)]
    best = None
    if spec.better and len(means) > 1:
        best = max(means) if spec.better > 0 else min(means)
    return [_summary(each, spec.unit, best=each.mean == best) for each in row]


def _summary(summary: SeedSummary, unit: Unit, *, best: bool) -> Text:
    text = value_text(summary.mean, unit)
    if not math.isnan(summary.deviation):
        text += f" ± {value_text(summary.deviation, unit).lstrip('+')}"
    return Text(f"{text} *" if best else text, style="bold" if best else "")


def _seeds_table(pair: ArmPair, box: Box, *, show_holm: bool) -> Table:
    table = _table("seed", box)
    for title in (
        "accuracy, A - B",
        "families A, B ahead",
        "sign flip",
        *(["Holm"] if show_holm else []),
        "only A, only B right",
        "McNemar",
        "pair accuracy, A - B",
    ):
        table.add_column(title, justify="right")
    for number, (seed, comparison) in enumerate(pair.seeds.items()):
        everything = comparison.groups[0]
        tests = everything.accuracy
        adjusted = p_value_text(pair.holm.adjusted[number])
        table.add_row(
            str(seed),
            estimate_text(everything.metrics["accuracy"].difference, "points"),
            f"{tests.families.clusters_a:,}, {tests.families.clusters_b:,}",
            p_value_text(tests.families.p_value),
            *([adjusted] if show_holm else []),
            f"{tests.items.b:,}, {tests.items.c:,}",
            p_value_text(tests.items.p_value),
            estimate_text(everything.metrics["pair_accuracy"].difference, "points"),
        )
    return table


def _signs_table(pair: ArmPair, box: Box) -> Table:
    table = _table("accuracy, A - B", box)
    for seed in pair.seeds:
        table.add_column(f"seed {seed}", justify="right")
    table.add_column("")
    for group, signs in pair.signs.items():
        differences = [
            next(each for each in comparison.groups if each.name == group).metrics["accuracy"]
            for comparison in pair.seeds.values()
        ]
        table.add_row(
            cell(group),
            *(estimate_text(each.difference, "points") for each in differences),
            "=" if signs["accuracy"].same else "",
        )
    return table


def _table(first: str, box: Box) -> Table:
    table = Table(box=box, pad_edge=False, header_style="bold")
    table.add_column(first)
    return table


def _seeds(arm: Arm) -> str:
    return f"seed{'s' if len(arm.seeds) > 1 else ''} {', '.join(map(str, arm.seeds))}"
