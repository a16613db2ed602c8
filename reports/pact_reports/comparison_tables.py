"""Two runs beside each other: every metric, the exact tests, and what such a holdout can show."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import ASCII2, SIMPLE_HEAD, Box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pact_eval.comparison import Comparison, GroupComparison, MetricComparison
from pact_eval.evaluation import METRICS, Unit
from pact_eval.stats import McNemarTest
from pact_reports.numbers import UNDEFINED, estimate_text, p_value_text, value_text
from pact_reports.plain_text import cell, lines, visible

__all__ = ["comparison_report", "item_lists"]

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
        The metrics of all items; accuracy by group with its tests; what to know beside it.
    """
    box = ASCII2 if plain else SIMPLE_HEAD
    everything = comparison.groups[0]
    for letter, name in zip("AB", names, strict=True):
        yield cell(f"{letter} = {name}", style="bold")
    method = everything.metrics["accuracy"].difference.method.replace("clusters", "families")
    yield Text(
        f"{everything.items:,} items, {everything.families:,} families; differences are A - B, in "
        f"brackets the {method}."
    )
    yield _metric_table(everything, box)
    yield from _verdicts(everything)
    yield Text("\nAccuracy: exact tests", style="bold")
    yield _accuracy_table(comparison, box, show_holm=show_holm)
    yield from _remarks(everything)


def _metric_table(group: GroupComparison, box: Box) -> Table:
    table = Table(box=box, pad_edge=False, header_style="bold")
    for title in ("", "A", "B", "A - B"):
        table.add_column(title)
    for spec in METRICS:
        metric = group.metrics[spec.name]
        table.add_row(
            spec.title + _ARROW[spec.better],
            estimate_text(metric.a, spec.unit),
            estimate_text(metric.b, spec.unit),
            _difference(metric),
        )
    return table


def _difference(metric: MetricComparison) -> Text:
    unit = _POINTS.get(metric.spec.unit, metric.spec.unit)
    text = Text(estimate_text(metric.difference, unit))
    low, high, better = metric.difference.low, metric.difference.high, metric.spec.better
    if better and (low > 0 or high < 0):
        text.stylize("bold green" if (low > 0) == (better > 0) else "bold red")
        text.append(" *")
    return text


def _verdicts(group: GroupComparison) -> Iterator[RenderableType]:
    for name in _JUDGED:
        metric = group.metrics[name]
        verdict = metric.verdict
        if verdict is None:
            continue
        margin = f"margin {value_text(verdict.margin, 'percent')} points"
        why = f" ({verdict.reason})" if verdict.reason else ""
        yield Text(f"{metric.spec.title}, {margin}: {verdict.sentence}{why}")


def _accuracy_table(comparison: Comparison, box: Box, *, show_holm: bool) -> Table:
    table = Table(box=box, pad_edge=False, header_style="bold")
    table.add_column("")
    for title in (
        "A - B, by family",
        "families A, B ahead",
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
            _difference(group.metrics["accuracy"]),
            f"{tests.families.clusters_a:,}, {tests.families.clusters_b:,}",
            p_value_text(tests.families.p_value),
            *([p_value_text(adjusted) if number else ""] if show_holm else []),
            f"{tests.items.b:,}, {tests.items.c:,}",
            p_value_text(tests.items.p_value),
            _interval(group),
        )
    return table


def _interval(group: GroupComparison) -> str:
    item = group.accuracy.item_interval
    return f"[{value_text(item.low, 'points')}, {value_text(item.high, 'points')}]"


def _remarks(group: GroupComparison) -> Iterator[RenderableType]:
    tests = group.accuracy
    yield Text(
        "The sign flip and the first interval take families as the units; McNemar and the last one "
        "take items for independent, as papers do."
    )
    if tests.pairs is not None:
        yield Text(f"Pair accuracy, over pairs: {_mcnemar_line(tests.pairs)}.")
    found = tests.detectable
    share = (tests.items.b + tests.items.c) / tests.items.n
    yield Text(
        f"Smallest difference that this holdout shows with 80% power: "
        f"{value_text(found.value, 'percent')} points ({found.n:,} items, worth "
        f"{found.n_effective:,} independent ones; {100 * share:.1f}% of them differ)."
    )
    for reason in dict.fromkeys([tests.items.reason, tests.families.reason, found.reason]):
        if reason:
            yield Text(f"Note: {visible(reason)}", style="yellow")


def _mcnemar_line(test: McNemarTest) -> str:
    return f"only A {test.b:,}, only B {test.c:,}, {p_value_text(test.p_value)}"


def item_lists(comparison: Comparison) -> Iterator[RenderableType]:
    """List the items that only one of the two runs gets right."""
    for name, ids in (("A", comparison.only_a), ("B", comparison.only_b)):
        yield Text(f"\nOnly {name} is right ({len(ids):,}):", style="bold")
        yield lines(f"  {item}" for item in ids) if ids else Text(UNDEFINED)
