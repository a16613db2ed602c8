"""Two runs beside each other: every metric, the exact tests, and what such a holdout can show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pact_eval.evaluation import METRICS, Comparison, GroupComparison, MetricComparison, Unit
from pact_eval.stats import McNemarTest
from pact_reports.numbers import UNDEFINED, estimate_text, p_value_text, value_text
from pact_reports.plain_text import cell, lines, one_line, visible
from pact_reports.writers.terminal import new_table, whole

__all__ = [
    "comparison_report",
    "detectable_line",
    "difference_text",
    "item_lists",
    "notes_on_tests",
    "reason_lines",
    "verdict_lines",
]

_POINTS: dict[Unit, Unit] = {"percent": "points"}
_JUDGED = ("accuracy", "pair_accuracy")  # JSON has the verdict of every rate
_ARROW = {1: " ↑", -1: " ↓", 0: ""}


def comparison_report(
    comparison: Comparison, *, names: tuple[str, str], show_holm: bool, plain: bool
) -> Iterator[RenderableType]:
    """Lay out the comparison of two runs.

    Args:
        comparison: the two runs.
        names: what they are called.
        show_holm: show the p-values of the groups adjusted together.
        plain: ASCII rules.

    Yields:
        The metrics of all items; accuracy by group with its tests; what to know beside it; the
        other metrics by group.
    """
    everything = comparison.groups[0]
    for letter, name in zip("AB", names, strict=True):
        yield cell(f"{letter} = {name}", style="bold")
    method = everything.metrics["accuracy"].difference.method.replace("clusters", "families")
    yield Text(
        f"{everything.items:,} items, {everything.families:,} families; differences are A - B, in "
        f"brackets the {method}."
    )
    yield _metric_table(everything, plain=plain)
    yield from reason_lines(
        (spec.title, everything.metrics[spec.name].difference.reason) for spec in METRICS
    )
    yield from verdict_lines(everything)
    yield Text("\nAccuracy: exact tests", style="bold")
    yield _accuracy_table(comparison, plain=plain, show_holm=show_holm)
    yield from _remarks(everything)
    for note in notes_on_tests(comparison.groups):
        yield Text(f"Note: {note}", style="yellow")
    if len(comparison.groups) > 2:  # one group is all items once more
        by = comparison.by.replace("_", " ")
        yield Text(f"\nA - B by {by}", style="bold")
        yield _differences_table(comparison.groups[1:], plain=plain)
        yield from reason_lines(
            (f"{spec.title} ({group.name})", group.metrics[spec.name].difference.reason)
            for spec in METRICS[1:]
            for group in comparison.groups[1:]
            if math.isnan(group.metrics[spec.name].difference.value)
            and not math.isnan(everything.metrics[spec.name].difference.value)
        )


def _differences_table(groups: Sequence[GroupComparison], *, plain: bool) -> Table:
    """Every metric but accuracy, which has a table with its tests: A - B in every group."""
    table = new_table("", plain=plain)
    for group in groups:
        items = f"{group.items:,} items, {group.families:,} fam."
        table.add_column(lines([group.name, items]))
    for spec in METRICS[1:]:
        differences = [difference_text(group.metrics[spec.name]) for group in groups]
        table.add_row(spec.title + _ARROW[spec.better], *differences)
    return whole(table)


def _metric_table(group: GroupComparison, *, plain: bool) -> Table:
    table = new_table("", "A", "B", "A - B", plain=plain)
    for spec in METRICS:
        metric = group.metrics[spec.name]
        table.add_row(
            spec.title + _ARROW[spec.better],
            estimate_text(metric.a, spec.unit),
            estimate_text(metric.b, spec.unit),
            difference_text(metric),
        )
    return whole(table)


def difference_text(metric: MetricComparison) -> Text:
    """Write a difference with its interval, in colour and marked * where that leaves 0 out."""
    unit = _POINTS.get(metric.spec.unit, metric.spec.unit)
    text = Text(estimate_text(metric.difference, unit))
    low, high, better = metric.difference.low, metric.difference.high, metric.spec.better
    if better and (low > 0 or high < 0):
        text.stylize("bold green" if (low > 0) == (better > 0) else "bold red")
        text.append(" *")
    return text


def reason_lines(reasons: Iterable[tuple[str, str | None]]) -> Iterator[RenderableType]:
    """Say, once a reason, which numbers of a table are undefined or qualified.

    Args:
        reasons: what is shown, and why it is undefined; None where all is well.
    """
    titles: dict[str, list[str]] = {}
    for title, reason in reasons:
        if reason is not None:
            titles.setdefault(reason, []).append(title)
    for reason, named in titles.items():
        yield Text(one_line(f"{UNDEFINED} {', '.join(named)}: {reason}"), style="dim")


def verdict_lines(group: GroupComparison, where: str = "") -> Iterator[RenderableType]:
    """Say what the intervals of accuracy and pair accuracy say of the margin, if one was given.

    Args:
        group: of both runs.
        where: stands before it, such as "seed 17: ".
    """
    for name in _JUDGED:
        metric = group.metrics[name]
        verdict = metric.verdict
        if verdict is None:
            continue
        margin = f"margin {value_text(verdict.margin, 'percent')} points"
        reason = _of_families(verdict.reason)
        why = "" if math.isnan(verdict.low) or not reason else f" ({reason})"
        yield Text(f"{where}{metric.spec.title}, {margin}: {verdict.sentence}{why}")


def _accuracy_table(comparison: Comparison, *, plain: bool, show_holm: bool) -> Table:
    table = new_table("", plain=plain)
    for title in (
        "A - B, by family",
        "fam. A, B ahead",
        "sign flip",
        *(["Holm"] if show_holm else []),
        "only A, only B right",
        "McNemar",
        "over items",
    ):
        table.add_column(title, justify="right")
    for number, group in enumerate(comparison.groups):
        tests = group.accuracy
        adjusted = comparison.holm.adjusted[number - 1] if number else float("nan")
        table.add_row(
            cell(group.name),
            difference_text(group.metrics["accuracy"]),
            f"{tests.families.clusters_a:,}, {tests.families.clusters_b:,}",
            p_value_text(tests.families.p_value),
            *([p_value_text(adjusted) if number else ""] if show_holm else []),
            f"{tests.items.b:,}, {tests.items.c:,}",
            p_value_text(tests.items.p_value),
            _interval(group),
        )
    return whole(table)


def _interval(group: GroupComparison) -> str:
    item = group.accuracy.item_interval
    if math.isnan(item.low):
        return UNDEFINED
    return f"[{value_text(item.low, 'points')}, {value_text(item.high, 'points')}]"


def _remarks(group: GroupComparison) -> Iterator[RenderableType]:
    tests = group.accuracy
    yield Text(
        "The sign flip and the first interval take families as the units; McNemar and the last one "
        "take items for independent, as papers do."
    )
    if tests.pairs is not None:
        yield Text(f"Pair accuracy, over pairs: {_mcnemar_line(tests.pairs)}.")
    yield Text(
        f"Smallest difference that this holdout shows with 80% power: {detectable_line(group)}."
    )


def detectable_line(group: GroupComparison) -> str:
    """Write the smallest difference that a holdout shows with 80% power, and what it rests on."""
    found, items = group.accuracy.detectable, group.accuracy.items
    share = (items.b + items.c) / items.n
    return (
        f"{value_text(found.value, 'percent')} points ({found.n:,} items, worth "
        f"{found.n_effective:,} independent ones; {100 * share:.1f}% of them differ)"
    )


def notes_on_tests(groups: Sequence[GroupComparison]) -> Iterator[str]:
    """Say where a test could show nothing, since too few items or families differ.

    Args:
        groups: all items first, then the groups.

    Yields:
        The reasons of all items, then one sentence that names the groups; safe to print.
    """
    everything, *others = groups
    tests = everything.accuracy
    reasons = (
        tests.items.reason,
        _of_families(tests.families.reason),
        tests.detectable.reason,
    )
    yield from dict.fromkeys(visible(reason) for reason in reasons if reason)
    few = {
        "items": {
            each.name: each.accuracy.items.b + each.accuracy.items.c
            for each in others
            if each.accuracy.items.reason
        },
        "families": {
            each.name: each.accuracy.families.discordant_clusters
            for each in others
            if each.accuracy.families.reason and not each.accuracy.items.reason
        },
    }
    for unit, counts in few.items():
        if counts:
            named = ", ".join(f"{one_line(name)} ({count:,})" for name, count in counts.items())
            level = tests.detectable.level
            yield f"too few {unit} differ for any p-value below {level:g}: {named}"


def _mcnemar_line(test: McNemarTest) -> str:
    return f"only A {test.b:,}, only B {test.c:,}, {p_value_text(test.p_value)}"


def _of_families(reason: str | None) -> str:
    """Families are what clusters are here."""
    return (reason or "").replace("clusters", "families").replace("cluster", "family")


def item_lists(
    comparison: Comparison, names: tuple[str, str] = ("A", "B"), where: str = ""
) -> Iterator[RenderableType]:
    """List the items that only one of the two runs gets right.

    Args:
        comparison: the two runs.
        names: what they are called.
        where: stands before it, such as "Seed 17: ".
    """
    for name, ids in zip(names, (comparison.only_a, comparison.only_b), strict=True):
        title = one_line(f"{where}Only {name} is right ({len(ids):,}):")
        yield Text(f"\n{title}", style="bold")
        yield lines(f"  {item}" for item in ids) if ids else Text(UNDEFINED)
