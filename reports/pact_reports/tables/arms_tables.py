"""Arms beside each other: mean and deviation over seeds, and the paired tests by seed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pact_eval.evaluation import (
    METRICS,
    Arm,
    ArmPair,
    ArmsComparison,
    GroupComparison,
    MetricSpec,
    Unit,
)
from pact_eval.stats import SeedSummary
from pact_reports.numbers import estimate_text, p_value_text, value_text
from pact_reports.plain_text import cell, lines, one_line, visible
from pact_reports.tables.comparison_tables import (
    detectable_line,
    difference_text,
    item_lists,
    notes_on_tests,
    reason_lines,
    verdict_lines,
)
from pact_reports.writers.terminal import new_table, whole

__all__ = ["arms_report"]

_ARROW = {1: " ↑", -1: " ↓", 0: ""}


def arms_report(
    comparison: ArmsComparison, *, show_holm: bool, show_items: bool, plain: bool
) -> Iterator[RenderableType]:
    """Lay out arms over seeds.

    Args:
        comparison: the arms.
        show_holm: show p-values adjusted over the seeds, and over groups and seeds.
        show_items: list the items that only one of two arms gets right, by seed.
        plain: ASCII rules.

    Yields:
        Means and deviations of all items, with the best of each metric marked; accuracy by group;
        then the first arm against each of the others, seed by seed.
    """
    yield Text("Mean over seeds ± sample standard deviation; * is the best of a metric.")
    yield _arms_table(comparison, plain=plain)
    for arm in comparison.arms:
        yield from reason_lines(
            (f"{spec.title} of {arm.name}", arm.summaries["all"][spec.name].reason)
            for spec in METRICS
            if not math.isfinite(arm.summaries["all"][spec.name].mean)
        )
    yield _groups_table(comparison, plain=plain)
    for pair in comparison.pairs:
        if pair.seeds:
            yield from _pair(pair, show_holm=show_holm, plain=plain)
        for seed, each in pair.seeds.items() if show_items else ():
            yield from item_lists(each, (pair.a, pair.b), f"Seed {seed}: ")
    for note in comparison.notes:
        yield Text(f"Note: {visible(note)}", style="yellow")


def _pair(pair: ArmPair, *, show_holm: bool, plain: bool) -> Iterator[RenderableType]:
    yield Text(f"\n{one_line(f'{pair.a} - {pair.b}')}, seed by seed", style="bold")
    yield Text(f"A = {one_line(pair.a)}, B = {one_line(pair.b)}; {_signs_line(len(pair.seeds))}")
    yield _metrics_table(pair, plain=plain)
    yield _groups_by_seed(pair, plain=plain)
    yield Text("\nAccuracy of all items: exact tests", style="bold")
    yield _tests_table(pair, plain=plain, show_holm=show_holm)
    if show_holm and pair.group_holm:
        yield _holm_table(pair, plain=plain)
    for seed, comparison in pair.seeds.items():
        everything = comparison.groups[0]
        yield from verdict_lines(everything, f"Seed {seed}: ")
    yield Text("Smallest difference that the holdout shows with 80% power:")
    for seed, comparison in pair.seeds.items():
        yield Text(f"  seed {seed}: {detectable_line(comparison.groups[0])}")
    for seed, comparison in pair.seeds.items():
        for note in notes_on_tests(comparison.groups):
            yield Text(f"Note: seed {seed}: {note}", style="yellow")


def _signs_line(seeds: int) -> str:
    if seeds < 2:
        return "one seed agrees with nothing."
    chance = f"{seeds} seeds do so one time in {2 ** (seeds - 1):,} by chance"
    return f"= marks one sign at every seed ({chance}), * an interval without 0."


def _metrics_table(pair: ArmPair, *, plain: bool) -> Table:
    """Every metric of all items: the difference at each seed."""
    table = new_table("all items, A - B", plain=plain)
    everything = [comparison.groups[0] for comparison in pair.seeds.values()]
    _add_seeds(table, pair)
    for spec in METRICS:
        differences = [difference_text(group.metrics[spec.name]) for group in everything]
        mark = "=" if pair.signs["all"][spec.name].same else ""
        table.add_row(spec.title + _ARROW[spec.better], *differences, mark)
    return whole(table)


def _groups_by_seed(pair: ArmPair, *, plain: bool) -> Table:
    """Accuracy of every group: the difference at each seed."""
    table = new_table("accuracy, A - B", plain=plain)
    _add_seeds(table, pair)
    for group, found in _by_group(pair).items():
        differences = [difference_text(each.metrics["accuracy"]) for each in found]
        mark = "=" if pair.signs[group]["accuracy"].same else ""
        table.add_row(cell(group), *differences, mark)
    return whole(table)


def _holm_table(pair: ArmPair, *, plain: bool) -> Table:
    tests = sum(map(len, pair.group_holm.values()))
    table = new_table(f"sign flip, Holm over {tests:,} tests", plain=plain)
    _add_seeds(table, pair)
    for group, adjusted in pair.group_holm.items():
        found = [each.accuracy.families.p_value for each in _by_group(pair)[group]]
        table.add_row(
            cell(group),
            *(
                f"{p_value_text(raw)}, Holm {p_value_text(p_value)}"
                for raw, p_value in zip(found, adjusted.values(), strict=True)
            ),
            "",
        )
    return whole(table)


def _by_group(pair: ArmPair) -> dict[str, list[GroupComparison]]:
    """Return the groups after the first, each at every seed."""
    found: dict[str, list[GroupComparison]] = {}
    for comparison in pair.seeds.values():
        for group in comparison.groups[1:]:
            found.setdefault(group.name, []).append(group)
    return found


def _add_seeds(table: Table, pair: ArmPair) -> None:
    for seed in pair.seeds:
        table.add_column(f"seed {seed}", justify="right")
    table.add_column("")


def _arms_table(comparison: ArmsComparison, *, plain: bool) -> Table:
    table = new_table("all items", plain=plain)
    for arm in comparison.arms:
        table.add_column(lines([arm.name, _seeds(arm)]))
    for spec in METRICS:
        row = [arm.summaries["all"][spec.name] for arm in comparison.arms]
        table.add_row(spec.title + _ARROW[spec.better], *_marked(row, spec))
    return whole(table)


def _groups_table(comparison: ArmsComparison, *, plain: bool) -> Table:
    table = new_table("accuracy", plain=plain)
    for arm in comparison.arms:
        table.add_column(cell(arm.name))
    for group in comparison.groups[1:]:
        row = [arm.summaries[group]["accuracy"] for arm in comparison.arms]
        table.add_row(cell(group), *_marked(row, METRICS[0]))
    return whole(table)


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


def _tests_table(pair: ArmPair, *, plain: bool, show_holm: bool) -> Table:
    table = new_table("seed", plain=plain)
    for title in (
        "accuracy, A - B",
        "fam. A, B ahead",
        "sign flip",
        *(["Holm"] if show_holm else []),
        "only A, only B right",
        "McNemar",
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
        )
    return whole(table)


def _seeds(arm: Arm) -> str:
    return f"seed{'s' if len(arm.seeds) > 1 else ''} {', '.join(map(str, arm.seeds))}"
