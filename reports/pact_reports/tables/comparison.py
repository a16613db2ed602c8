"""Comparisons: two runs on the same items, and arms over their seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pact_eval.evaluation import (
    Arm,
    ArmPair,
    ArmsComparison,
    Comparison,
    Estimate,
    GroupComparison,
    McNemarTest,
    MetricComparison,
    MetricSpec,
    SeedSummary,
    metric_spec,
)
from pact_reports.numbers import (
    UNDEFINED,
    generalisation_text,
    methods_text,
    p_value_text,
    units_text,
    value_text,
)
from pact_reports.plain_text import one_line
from pact_reports.sentences import note_sentence
from pact_reports.table import Cell, Column, Line, Part, Row, Table
from pact_reports.tables.cells import estimate_cell
from pact_reports.tables.report import items_and_units, titled

_JUDGED: Final = ("accuracy", "pair_accuracy")  # JSON has the verdict of every rate
_LEGEND: Final = (("significant", "the interval does not contain 0"),)


def comparison_parts(
    comparison: Comparison, *, names: tuple[str, str], show_holm: bool
) -> tuple[Part, ...]:
    """Lay out the comparison of two runs.

    Args:
        comparison: the two runs.
        names: what they are called.
        show_holm: show the p-values of the groups adjusted together.

    Returns:
        The metrics of all items; accuracy by group with its tests; notes; the other metrics by
        group.
    """
    everything = comparison.groups[0]
    method = methods_text(
        estimate
        for metric in everything.metrics.values()
        for estimate in (metric.a, metric.difference)
    )
    unit = comparison.unit
    sample = units_text(f"{everything.items:,} items, {everything.clusters:,} clusters", unit)
    parts: list[Part] = [
        *(
            Line(one_line(f"{letter} = {name}"), "strong")
            for letter, name in zip("AB", names, strict=True)
        ),
        Line(
            f"{sample}; differences are A - B, in brackets the {units_text(method, unit)}. "
            f"{generalisation_text(unit)}"
        ),
        _metrics_table(everything),
        *_verdicts(comparison),
        _accuracy_table(comparison, show_holm=show_holm),
        *(Line(f"Note: {note_sentence(note)}", "caution") for note in comparison.notes),
        *(Line(f"Note: {note}", "caution") for note in _notes_on_tests(comparison)),
    ]
    if len(comparison.groups) > 2:  # one group is all items once more
        by = comparison.by.replace("_", " ")
        parts.append(_by_group_table(comparison, f"A - B by {by}"))
    return tuple(parts)


def item_lists(
    comparison: Comparison, names: tuple[str, str] = ("A", "B"), where: str = ""
) -> tuple[Part, ...]:
    """List the items that only one of the two runs answers correctly.

    Args:
        comparison: the two runs.
        names: what they are called.
        where: precedes each heading, such as "Seed 17: ".
    """
    parts: list[Part] = []
    for name, ids in zip(names, (comparison.only_a, comparison.only_b), strict=True):
        heading = one_line(f"{where}Only {name} is correct ({len(ids):,}):")
        items = [one_line(f"  {item}") for item in ids] or [UNDEFINED]
        parts += [Line(heading, "strong"), Line("\n".join(items))]
    return tuple(parts)


def _metrics_table(group: GroupComparison) -> Table:
    rows = []
    for metric in group.metrics.values():
        spec = metric.spec
        sides = (estimate_cell(each, spec.unit, reasons=False) for each in (metric.a, metric.b))
        rows.append(Row((Cell(titled(spec)), *sides, _difference_cell(metric))))
    heads = ("A", "B", "A - B")
    return Table(
        name="metrics",
        title="",
        caption="",
        columns=(Column("", "left"), *(Column(head, "left") for head in heads)),
        rows=tuple(rows),
        legend=_LEGEND,
    )


def _by_group_table(comparison: Comparison, title: str) -> Table:
    """Lay out every metric but accuracy, which has a table with its tests: A - B in every group."""
    groups = comparison.groups[1:]
    columns = [Column("", "left")]
    columns += [
        Column(group.name, "left", below=items_and_units(group, comparison.unit))
        for group in groups
    ]
    rows = [
        Row((Cell(titled(metric.spec)), *(_difference_cell(g.metrics[name]) for g in groups)))
        for name, metric in groups[0].metrics.items()
        if name != "accuracy"
    ]
    return Table("by-group", title, "", tuple(columns), tuple(rows), legend=_LEGEND, keys=1)


def _difference_cell(metric: MetricComparison) -> Cell:
    return _marked_difference(metric.difference, metric.spec)


def _marked_difference(difference: Estimate, spec: MetricSpec) -> Cell:
    """Write a difference with its interval; marked and coloured if that does not contain 0."""
    cell = estimate_cell(difference, spec.difference_unit)
    if not spec.better or not (difference.low > 0 or difference.high < 0):
        return cell
    good = (difference.low > 0) == (spec.better > 0)
    return replace(cell, mark="significant", tone="good" if good else "bad")


def _verdicts(comparison: Comparison, where: str = "") -> Iterator[Line]:
    """Say what the intervals of accuracy and pair accuracy say about the margin, if one is given.

    Args:
        comparison: of both runs.
        where: precedes each line, such as "Seed 17: ".
    """
    for name in _JUDGED:
        metric = comparison.groups[0].metrics[name]
        verdict = metric.verdict
        if verdict is None:
            continue
        margin = f"margin {value_text(verdict.margin, 'percent')} points"
        reason = units_text(verdict.reason or "", comparison.unit)
        why = "" if math.isnan(verdict.low) or not reason else f" ({reason})"
        yield Line(f"{where}{metric.spec.title}, {margin}: {verdict.sentence}{why}")


def _accuracy_table(comparison: Comparison, *, show_holm: bool) -> Table:
    columns = [
        Column("", "left"),
        Column(units_text("A - B, by cluster", comparison.unit)),
        Column(units_text("fam. A, B ahead", comparison.unit)),
        Column("sign flip"),
        *([Column("Holm")] if show_holm else []),
        Column("only A, B correct"),
        Column("McNemar"),
        Column("over items"),
    ]
    rows = []
    for number, group in enumerate(comparison.groups):
        tests = group.accuracy
        adjusted = p_value_text(comparison.holm.adjusted[number - 1]) if number else ""
        rows.append(
            Row(
                (
                    Cell(group.name),
                    _difference_cell(group.metrics["accuracy"]),
                    Cell(f"{tests.families.clusters_a:,}, {tests.families.clusters_b:,}"),
                    Cell(p_value_text(tests.families.p_value)),
                    *([Cell(adjusted)] if show_holm else []),
                    Cell(f"{tests.items.b:,}, {tests.items.c:,}"),
                    Cell(p_value_text(tests.items.p_value)),
                    Cell(_item_interval(group)),
                )
            )
        )
    return Table(
        name="accuracy",
        title="Accuracy: exact tests",
        caption="",
        columns=tuple(columns),
        rows=tuple(rows),
        legend=_LEGEND,
        notes=tuple(_remarks(comparison)),
    )


def _item_interval(group: GroupComparison) -> str:
    item = group.accuracy.item_interval
    if math.isnan(item.low):
        return UNDEFINED
    return f"[{value_text(item.low, 'points')}, {value_text(item.high, 'points')}]"


def _remarks(comparison: Comparison) -> Iterator[str]:
    group = comparison.groups[0]
    tests = group.accuracy
    units = units_text("The sign flip and the first interval take clusters", comparison.unit)
    yield (
        f"{units} as the units; McNemar and the last interval treat items as independent, as "
        "papers do."
    )
    if tests.pairs is not None:
        yield f"Pair accuracy, over pairs: {_mcnemar_line(tests.pairs)}."
    yield f"Smallest difference that this holdout shows with 80% power: {_detectable(group)}."


def _detectable(group: GroupComparison) -> str:
    """Write the smallest difference that a holdout shows with 80% power, and its basis."""
    found, items = group.accuracy.detectable, group.accuracy.items
    share = (items.b + items.c) / items.n
    return (
        f"{value_text(found.value, 'percent')} points ({found.n:,} items, worth "
        f"{found.n_effective:,} independent ones; {100 * share:.1f}% of them differ)"
    )


def _notes_on_tests(comparison: Comparison) -> Iterator[str]:
    """Say which tests have no power because too few items or families differ.

    Args:
        comparison: of two runs.

    Yields:
        The reasons of all items, then one sentence that names the groups.
    """
    everything, *others = comparison.groups
    tests = everything.accuracy
    reasons = (
        tests.items.reason,
        units_text(tests.families.reason or "", comparison.unit),
        tests.detectable.reason,
    )
    yield from dict.fromkeys(reason for reason in reasons if reason)
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
            said = units_text(unit, comparison.unit)
            yield f"too few {said} differ for any p-value below {level:g}: {named}"


def _mcnemar_line(test: McNemarTest) -> str:
    return f"only A {test.b:,}, only B {test.c:,}, {p_value_text(test.p_value)}"


def arms_parts(
    comparison: ArmsComparison, *, show_holm: bool, show_items: bool
) -> tuple[Part, ...]:
    """Lay out arms over seeds.

    Args:
        comparison: the arms.
        show_holm: show p-values adjusted over the seeds, and over groups and seeds.
        show_items: list the items that only one of two arms answers correctly, by seed.

    Returns:
        Means and deviations of all items, with the best of each metric marked; accuracy by group;
        then the first arm against each of the others, seed by seed.
    """
    parts: list[Part] = [_arms_table(comparison), _arm_groups_table(comparison)]
    for pair in comparison.pairs:
        if pair.seeds:
            parts += _pair_parts(pair, show_holm=show_holm)
        for seed, each in pair.seeds.items() if show_items else ():
            parts += item_lists(each, (pair.a, pair.b), f"{_seed(seed).capitalize()}: ")
    parts += [Line(f"Note: {note_sentence(note)}", "caution") for note in comparison.notes]
    return tuple(parts)


def _arms_table(comparison: ArmsComparison) -> Table:
    columns = [Column(arm.name, "left", below=_seeds(arm)) for arm in comparison.arms]
    rows = []
    for name in comparison.arms[0].summaries["all"]:
        spec = metric_spec(name)
        found = [arm.summaries["all"][name] for arm in comparison.arms]
        rows.append(Row((Cell(titled(spec)), *_summary_cells(found, spec))))
    return Table(
        name="arms",
        title="Arms, all items",
        caption="Mean over seeds ± sample standard deviation. "
        + generalisation_text(comparison.unit),
        columns=(Column("", "left"), *columns),
        rows=tuple(rows),
        legend=(("best", "the best of a metric"),),
        keys=1,
    )


def _arm_groups_table(comparison: ArmsComparison) -> Table:
    rows = []
    for group in comparison.groups[1:]:
        found = [arm.summaries[group]["accuracy"] for arm in comparison.arms]
        rows.append(Row((Cell(group), *_summary_cells(found, metric_spec("accuracy")))))
    return Table(
        name="arm-groups",
        title="Accuracy by group",
        caption="",
        columns=(Column("", "left"), *(Column(arm.name, "left") for arm in comparison.arms)),
        rows=tuple(rows),
        legend=(("best", "the best of a group"),),
        keys=1,
    )


def _summary_cells(found: Sequence[SeedSummary], spec: MetricSpec) -> list[Cell]:
    means = [each.mean for each in found if not math.isnan(each.mean)]
    best = None
    if spec.better and len(means) > 1:
        best = max(means) if spec.better > 0 else min(means)
    cells = []
    for each in found:
        text = value_text(each.mean, spec.unit)
        if not math.isnan(each.deviation):
            text += f" ± {value_text(each.deviation, spec.unit).lstrip('+')}"
        why = None if math.isfinite(each.mean) else each.reason
        cells.append(Cell(text, mark="best" if each.mean == best else None, reason=why))
    return cells


def _pair_parts(pair: ArmPair, *, show_holm: bool) -> Iterator[Part]:
    yield Line(one_line(f"A = {pair.a}, B = {pair.b}; {_signs(len(pair.seeds))}"), "strong")
    everything = [comparison.groups[0] for comparison in pair.seeds.values()]
    yield _seeds_table(
        pair,
        f"{pair.a} - {pair.b}, all items, by seed",
        {
            titled(metric.spec): (
                [
                    *(_difference_cell(group.metrics[name]) for group in everything),
                    _marked_difference(pair.means["all"][name], metric.spec),
                ],
                pair.signs["all"][name].same,
            )
            for name, metric in everything[0].metrics.items()
        },
    )
    groups = _by_group(pair)
    yield _seeds_table(
        pair,
        f"{pair.a} - {pair.b}, accuracy by group and seed",
        {
            name: (
                [
                    *(_difference_cell(each.metrics["accuracy"]) for each in found),
                    _marked_difference(pair.means[name]["accuracy"], metric_spec("accuracy")),
                ],
                pair.signs[name]["accuracy"].same,
            )
            for name, found in groups.items()
        },
    )
    yield _tests_table(pair, show_holm=show_holm)
    if show_holm and pair.group_holm:
        yield _holm_table(pair, groups)
    for seed, comparison in pair.seeds.items():
        yield from _verdicts(comparison, f"{_seed(seed).capitalize()}: ")
    for seed, comparison in pair.seeds.items():
        for note in _notes_on_tests(comparison):
            yield Line(f"Note: {_seed(seed)}: {note}", "caution")


def _signs(seeds: int) -> str:
    if seeds < 2:
        return "one seed has nothing to agree with."
    chance = f"{seeds} seeds do so one time in {2 ** (seeds - 1):,} by chance"
    return f"= marks one sign at every seed ({chance})."


def _by_group(pair: ArmPair) -> dict[str, list[GroupComparison]]:
    """Return the groups after the first, each at every seed."""
    found: dict[str, list[GroupComparison]] = {}
    for comparison in pair.seeds.values():
        for group in comparison.groups[1:]:
            found.setdefault(group.name, []).append(group)
    return found


def _seeds_table(
    pair: ArmPair, title: str, rows: Mapping[str, tuple[Iterable[Cell], bool]]
) -> Table:
    """Lay out differences: a column per seed, their mean, and whether all have the same sign."""
    return Table(
        name="seeds",
        title=title,
        caption="",
        columns=(
            Column("A - B", "left"),
            *(Column(_seed(seed)) for seed in pair.seeds),
            Column("mean"),
            Column("", "left"),
        ),
        rows=tuple(
            Row((Cell(name), *cells, Cell("=" if same else "")))
            for name, (cells, same) in rows.items()
        ),
        legend=_LEGEND,
    )


def _tests_table(pair: ArmPair, *, show_holm: bool) -> Table:
    rows = []
    for number, (seed, comparison) in enumerate(pair.seeds.items()):
        everything = comparison.groups[0]
        tests = everything.accuracy
        adjusted = [Cell(p_value_text(pair.holm.adjusted[number]))] if show_holm else []
        rows.append(
            Row(
                (
                    Cell("–" if seed is None else str(seed)),
                    estimate_cell(everything.metrics["accuracy"].difference, "points"),
                    Cell(f"{tests.families.clusters_a:,}, {tests.families.clusters_b:,}"),
                    Cell(p_value_text(tests.families.p_value)),
                    *adjusted,
                    Cell(f"{tests.items.b:,}, {tests.items.c:,}"),
                    Cell(p_value_text(tests.items.p_value)),
                )
            )
        )
    power = [
        f"Smallest difference that the holdout shows with 80% power at {_seed(seed)}: "
        f"{_detectable(comparison.groups[0])}."
        for seed, comparison in pair.seeds.items()
    ]
    unit = next(iter(pair.seeds.values())).unit
    ahead = units_text("fam. A, B ahead", unit)
    titles = ["accuracy, A - B", ahead, "sign flip", *(["Holm"] if show_holm else [])]
    return Table(
        name="tests",
        title="Accuracy of all items: exact tests",
        caption="",
        columns=(
            Column("seed"),
            *map(Column, [*titles, "only A, B correct", "McNemar"]),
        ),
        rows=tuple(rows),
        notes=tuple(power),
    )


def _holm_table(pair: ArmPair, groups: Mapping[str, Sequence[GroupComparison]]) -> Table:
    tests = sum(map(len, pair.group_holm.values()))
    rows = []
    for name, adjusted in pair.group_holm.items():
        raw = [each.accuracy.families.p_value for each in groups[name]]
        texts = (
            f"{p_value_text(p_value)}, Holm {p_value_text(corrected)}"
            for p_value, corrected in zip(raw, adjusted.values(), strict=True)
        )
        rows.append(Row((Cell(name), *map(Cell, texts))))
    return Table(
        name="holm",
        title=f"Sign flip by group, Holm over {tests:,} tests",
        caption="",
        columns=(Column("", "left"), *(Column(_seed(seed)) for seed in pair.seeds)),
        rows=tuple(rows),
    )


def _seeds(arm: Arm) -> str:
    if arm.seeds == (None,):
        return "no seed"
    return f"seed{'s' if len(arm.seeds) > 1 else ''} {', '.join(map(str, arm.seeds))}"


def _seed(seed: int | None) -> str:
    return "no seed" if seed is None else f"seed {seed}"
