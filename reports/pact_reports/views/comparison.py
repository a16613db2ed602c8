"""Two runs compared, or one with each of several others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Final, cast

from pact_eval._json import Json
from pact_eval.drift.run_comparison import RunComparison
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.arms.comparison import Arm, ArmDifference, ArmPair, ArmsComparison
from pact_eval.evaluation.comparison import Comparison, GroupComparison, MetricComparison
from pact_eval.evaluation.conclusions.data import with_leak_warning
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.notes import named
from pact_eval.evaluation.registry import MetricSpec, metric_spec
from pact_eval.evaluation.resampled_groups import sign_of
from pact_eval.evaluation.run_records import NO_TEXTS, ItemTexts
from pact_eval.evaluation.wrong_items import differing_items
from pact_eval.numbers import (
    CLUSTER,
    CLUSTERS,
    GENERALISATION,
    UNDEFINED,
    ends_text,
    generalisation_text,
    methods_text,
    p_value_number,
    p_value_text,
    reason_text,
    short_clusters,
    value_text,
)
from pact_eval.plain_text import one_line
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_reports.table import (
    Cell,
    Column,
    Legend,
    Line,
    Mark,
    Part,
    Row,
    Table,
    right_columns,
    table_row,
)
from pact_reports.tables.brief_comparison import (
    brief_comparison,
    brief_comparisons,
    cautions,
    comparison_headline,
    decoding_text,
    spending_words,
)
from pact_reports.tables.cells import NOISE, STANDING_LEGEND, chance_text, estimate_cell, leak_lines
from pact_reports.tables.item_lists import advice_on_texts, differing_parts
from pact_reports.views.brief import Brief
from pact_reports.views.drift import tempering_json
from pact_reports.views.presenter import Presenter, answer_lines
from pact_reports.views.report import has_row, items_and_units, titled
from pact_reports.writers.json import answer_json, spending_json, to_json, warnings_json


def present_run_comparison(
    *comparisons: RunComparison,
    items: int = 0,
    texts: ItemTexts = NO_TEXTS,
) -> Presenter:
    """Present the comparison of the first run with each of the others.

    Args:
        comparisons: one for each of the others, from one experiment.
        items: number of items to list that only A answers correctly, and that only B does.
        texts: texts of the items.
    """
    experiment = comparisons[0].experiment

    def headline() -> list[str]:
        return [comparison_headline(comparisons)]

    def blocks(_full: bool) -> Iterable[Iterable[Part]]:
        if len(comparisons) > 1:
            yield answer_lines(headline())
        for pair in comparisons:
            yield _block(pair)

    def as_json() -> dict[str, Json]:
        better = [comparison.conclusion for comparison in comparisons]
        return {
            "answer": answer_json([experiment.data], better),
            **experiment_json(experiment),
            "comparisons": [
                _pair_json(comparison, _items_json(comparison, texts, items) if items else {})
                for comparison in comparisons
            ],
        }

    return Presenter(
        tables=lambda: (
            part
            for comparison in comparisons
            for part in (
                *comparison_parts(comparison),
                *map(Line, comparison.sentences),
            )
        ),
        to_json=as_json,
        warnings=[*map(str, experiment.applied_warnings)],
        answers=lambda: map(_answer, comparisons),
        leak=lambda: experiment.data.leak,
        headline=headline,
        first=partial(_brief, comparisons, items=items > 0),
        retold=True,
        listed=lambda: (
            part for pair in comparisons if items for part in _differing(pair, texts, items)
        ),
        blocks=blocks,
    )


def _items_json(comparison: RunComparison, texts: ItemTexts, items: int) -> dict[str, Json]:
    """Return the items that only one run answers correctly as JSON values."""
    sides = differing_items(comparison.differing, comparison.runs[0].predictions, texts, items)
    values: list[Json] = [
        {"correct": side, **{name: to_json(value) for name, value in vars(item).items()}}
        for side, listed in sides.items()
        for item in listed
    ]
    return {"items": values}


def _block(comparison: RunComparison) -> Iterable[Part]:
    """Lay out every table of a comparison, between its answer in short and in full."""
    first, second = comparison.runs
    return (
        *leak_lines(comparison.data.leak),
        *answer_lines([comparison_headline([comparison])]),
        *heading(comparison.experiment),
        *comparison_parts(comparison, names=(first.title, second.title)),
        *map(Line, comparison.sentences),
        *(Line(f"Requests: {text}.") for text in filter(None, [spending_words(comparison)])),
        *answer_lines([_answer(comparison)]),
    )


def _brief(comparisons: Sequence[RunComparison], *, items: bool) -> Brief:
    """Return the first screen."""
    analysed = [Line(text) for pair in comparisons for text in pair.sentences]
    if len(comparisons) > 1:
        return brief_comparisons(comparisons, analysed, items=items)
    return brief_comparison(comparisons[0], analysed, items=items)


def _differing(comparison: RunComparison, texts: ItemTexts, items: int) -> Iterator[Part]:
    conclusion, views = comparison.conclusion, comparison.runs[0].predictions
    listed = differing_items(comparison.differing, views, texts, items)
    yield from differing_parts(comparison, listed, (conclusion.left, conclusion.right))
    yield from advice_on_texts(known=bool(texts.records))


def _answer(comparison: RunComparison) -> str:
    return str(with_leak_warning(comparison.conclusion.words, comparison.data.leak))


def _pair_json(comparison: RunComparison, items: Mapping[str, Json]) -> Json:
    a, b = (run.place for run in comparison.runs)
    numbers = {field.name: to_json(getattr(comparison, field.name)) for field in fields(Comparison)}
    # Warnings and conclusions of all comparisons are next to them.
    numbers |= {"warnings": [], "conclusion": None}
    tempering = comparison.tempering
    analyses = {
        "tempering": None if tempering is None else tempering_json(tempering),
        "quantising": comparison.quantising,
        "prior_removal": comparison.prior_removal,
    }
    shown = {name: to_json(analysis) for name, analysis in analyses.items() if analysis is not None}
    if comparison.spending is not None:
        shown["spending"] = spending_json(comparison.spending)
    return {"a": a, "b": b, "comparison": numbers, **items, **shown}


def present_comparison(comparison: Comparison) -> Presenter:
    """Present a comparison of items that are not from runs."""
    return Presenter(
        tables=partial(comparison_parts, comparison),
        to_json=lambda: cast("dict[str, Json]", to_json(comparison)),
    )


def heading(experiment: Experiment) -> tuple[Line, ...]:
    """Say which distributions are compared, and in what runs differ."""
    decoding = f"Decoding: {decoding_text(experiment)}."
    return (Line(decoding), *cautions(experiment))


def experiment_json(experiment: Experiment) -> dict[str, Json]:
    """Return what holds for all comparisons of an experiment as JSON values."""
    return {
        "decoding": {**experiment.settings.label},
        "intervals": GENERALISATION[experiment.settings.unit],
        "unlike_runs": [*map(to_json, experiment.unlike)],
        "warnings": warnings_json(experiment.applied_warnings),
    }


_JUDGED: Final = ("accuracy", "pair_accuracy")  # JSON has the verdict of every rate
_ELSEWHERE: Final[tuple[tuple[Mark, str], ...]] = (("significant", ""), ("best", ""), ("tied", ""))
_UNITS: Final = (
    "Units: rates and AURC in %, differences of rates in points; NLL in nats; Score MAE and RPS in "
    "levels; Brier between 0 and 2."
)
_EXPLAINED: Final = f"{_UNITS} {NOISE}"


def comparison_parts(
    comparison: Comparison, *, names: tuple[str, str] | None = None
) -> tuple[Part, ...]:
    """Lay out the comparison of two runs.

    Args:
        comparison: the two runs.
        names: what they are called; None leaves A and B.

    Returns:
        The metrics of all items; accuracy by group with its tests; notes; the other metrics by
        group; what the marks mean.
    """
    everything = comparison.groups[0]
    unit = comparison.unit
    method = methods_text(
        (
            estimate
            for metric in everything.metrics.values()
            for estimate in (metric.a, metric.difference)
        ),
        unit,
    )
    clusters = CLUSTERS[unit] if everything.clusters != 1 else unit.replace("_", " ")
    sample = f"{everything.items:,} items, {everything.clusters:,} {clusters}"
    parts: list[Part] = [
        *(
            Line(one_line(f"{letter} = {name}"), "strong")
            for letter, name in zip("AB", names or (), strict=names is not None)
        ),
        Line(
            f"{sample}; differences are A - B, in brackets the {method}. "
            f"{generalisation_text(unit)}"
        ),
        _metrics_table(everything),
        *_verdicts(comparison),
        _accuracy_table(comparison),
        *(Line(f"Note: {note!s}", "caution") for note in comparison.notes),
        *(Line(f"Note: {note}", "caution") for note in _notes_on_tests(comparison)),
    ]
    if len(comparison.groups) > 2:  # one group is all items once more
        by = comparison.by.replace("_", " ")
        parts.append(_by_group_table(comparison, f"A - B by {by}"))
    return (*parts, _legend(everything.metrics["accuracy"].evidence.tests))


def _legend(tests: int) -> Legend:
    """Explain the mark of a difference between two runs; arguments as for `_shown_text`."""
    how = f"its 95% interval excludes 0{_shown_text(tests)}"
    return Legend((("significant", f"the difference is shown ({how})"),), _EXPLAINED)


def _shown_text(tests: int) -> str:
    """Say which marks are adjusted.

    Args:
        tests: number of tests on accuracy that were adjusted together.
    """
    if tests < len("AB"):
        return ""
    return (
        f"; accuracy and pair accuracy of all items: p, adjusted for {tests:,} tests (Holm), is at "
        "most 0.05; other differences are tested alone"
    )


def _metrics_table(group: GroupComparison) -> Table:
    rows = []
    for metric in group.metrics.values():
        spec = metric.spec
        if not has_row(spec, (metric.a.value, metric.b.value)):
            continue
        sides = (
            estimate_cell(estimate, spec.unit, reasons=False) for estimate in (metric.a, metric.b)
        )
        rows.append(table_row(titled(spec), *sides, _difference_cell(metric)))
    heads = ("A", "B", "A - B")
    return Table(
        name="metrics",
        columns=(Column("", "left"), *(Column(head, "left") for head in heads)),
        rows=tuple(rows),
        legend=_ELSEWHERE,
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
        table_row(titled(metric.spec), *(_difference_cell(g.metrics[name]) for g in groups))
        for name, metric in groups[0].metrics.items()
        if name != "accuracy" and has_row(metric.spec, (metric.a.value, metric.b.value))
    ]
    return Table("by-group", title, "", tuple(columns), tuple(rows), legend=_ELSEWHERE, keys=1)


def _difference_cell(metric: MetricComparison) -> Cell:
    return _marked_difference(metric.difference, metric.spec, marked=metric.marked)


def _marked_difference(difference: Estimate, spec: MetricSpec, *, marked: bool) -> Cell:
    """Write a difference with its interval; marked and coloured if it is shown."""
    cell = estimate_cell(difference, spec.difference_unit)
    if not marked:
        return cell
    good = sign_of(difference) == spec.better
    return replace(cell, mark="significant", tone="good" if good else "bad")


def _verdicts(comparison: Comparison, where: str = "") -> Iterator[Line]:
    """Compare the intervals of accuracy and pair accuracy with the margin, if there is one.

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
        reason = reason_text(verdict.reason, comparison.unit)
        why = "" if math.isnan(verdict.low) or not reason else f" ({reason})"
        yield Line(f"{where}{metric.spec.title}, {margin}: {verdict.sentence}{why}")


def _accuracy_table(comparison: Comparison) -> Table:
    columns = [
        Column("", "left"),
        *right_columns(
            f"A - B, by {CLUSTER[comparison.unit]}",
            "p",
            f"{short_clusters(comparison.unit)} A, B ahead",
            "sign flip",
            "only A, B correct",
            "McNemar",
            "over items",
        ),
    ]
    rows = []
    for group in comparison.groups:
        tests = group.accuracy
        rows.append(
            table_row(
                group.name,
                _difference_cell(group.metrics["accuracy"]),
                _p_value(group.metrics["accuracy"].evidence.deciding),
                f"{tests.families.clusters_a:,}, {tests.families.clusters_b:,}",
                p_value_text(tests.families.p_value),
                f"{tests.items.b:,}, {tests.items.c:,}",
                p_value_text(tests.items.p_value),
                _item_interval(group),
            )
        )
    return Table(
        name="accuracy",
        title="Accuracy: exact tests",
        columns=tuple(columns),
        rows=tuple(rows),
        legend=_ELSEWHERE,
        notes=tuple(_remarks(comparison)),
    )


def _item_interval(group: GroupComparison) -> str:
    item = group.accuracy.item_interval
    if math.isnan(item.low):
        return UNDEFINED
    return ends_text(item.low, item.high, "points")


def _remarks(comparison: Comparison) -> Iterator[str]:
    group = comparison.groups[0]
    tests = group.accuracy
    adjusted = group.metrics["accuracy"].evidence.tests
    how = f" That of all items is adjusted for {adjusted} tests (Holm)." if adjusted > 1 else ""
    yield (
        f"p decides.{how} The first interval, p and the sign flip take "
        f"{CLUSTERS[comparison.unit]} as the units; McNemar and the last interval treat items as "
        "independent, as papers do."
    )
    if group.answers > group.items:
        yield (
            "Repeats of an item are not independent: the sign flip allows for that, McNemar does "
            "not."
        )
    if tests.pairs is not None:
        counts = f"only A {tests.pairs.b:,}, only B {tests.pairs.c:,}"
        yield f"Pair accuracy, over pairs: {counts}, {p_value_text(tests.pairs.p_value)}."
    if math.isfinite(tests.detectable):
        smallest = value_text(tests.detectable, "percent")
        yield f"Smallest difference that this holdout shows with 80% power: {smallest} points."


def _notes_on_tests(comparison: Comparison) -> Iterator[str]:
    """Name the tests without power because too few items or families differ.

    Args:
        comparison: of two runs.

    Yields:
        The reasons of all items, then one sentence that names the groups.
    """
    everything, *others = comparison.groups
    tests = everything.accuracy
    reasons = (
        tests.items.reason,
        reason_text(tests.families.reason, comparison.unit),
    )
    yield from dict.fromkeys(reason for reason in reasons if reason)
    few = {
        "items": {
            group.name: group.accuracy.items.b + group.accuracy.items.c
            for group in others
            if group.accuracy.items.reason
        },
        CLUSTERS[comparison.unit]: {
            group.name: group.accuracy.families.discordant_clusters
            for group in others
            if group.accuracy.families.reason and not group.accuracy.items.reason
        },
    }
    for unit, counts in few.items():
        if counts:
            named = ", ".join(f"{one_line(name)} ({count:,})" for name, count in counts.items())
            yield f"too few {unit} differ for any p-value below {LEVEL:g}: {named}"


def arms_parts(comparison: ArmsComparison, names: ArmNames = KEYS) -> tuple[Part, ...]:
    """Lay out arms over seeds.

    Args:
        comparison: the arms.
        names: display names of arms.

    Returns:
        Means and deviations of all items, with the best arm of each metric or those that are tied;
        accuracy by group; then the first arm against each of the others: over seeds and families,
        and seed by seed; what the marks mean.
    """
    parts: list[Part] = [_arms_table(comparison, names), _arm_groups_table(comparison, names)]
    for pair in comparison.pairs:
        if pair.seeds:
            parts += _pair_parts(pair, names)
    notes = (str(named(note, names)) for note in comparison.notes)
    parts += [Line(f"Note: {note}", "caution") for note in notes]
    tests = (pair.differences["all"]["accuracy"].evidence.tests for pair in comparison.pairs
             if pair.seeds)  # fmt: skip
    return (*parts, _arms_legend(max(tests, default=0)))


def pair_items(
    experiment: Experiment, pair: ArmPair, texts: ItemTexts, items: int, names: ArmNames = KEYS
) -> Iterator[Part]:
    """List the items that only one of two arms answers correctly, by seed.

    Args:
        experiment: the runs of the arms.
        pair: the two arms.
        texts: texts of the items.
        items: number of items to list that only one arm answers correctly, for each.
        names: display names of arms.
    """
    arm_names, views = (names.arm(pair.a), names.arm(pair.b)), experiment.runs[0].predictions
    for seed, comparison in pair.seeds.items():
        listed = differing_items(comparison.differing, views, texts, items)
        where = f"{_seed(seed).capitalize()}: "
        yield from differing_parts(comparison, listed, arm_names, where)


def _arms_legend(tests: int) -> Legend:
    """Explain the marks of arms; arguments as for `_shown_text`."""
    how = f"p at most 0.05{_shown_text(tests)}; single seeds are not marked"
    marks: tuple[tuple[Mark, str], ...] = (
        ("significant", f"the difference is shown ({how})"),
        *STANDING_LEGEND,
    )
    return Legend(marks, _EXPLAINED)


def _arms_table(comparison: ArmsComparison, names: ArmNames) -> Table:
    columns = [Column(names.arm(arm.name), "left", below=_seeds(arm)) for arm in comparison.arms]
    rows = []
    for name in comparison.arms[0].summaries["all"]:
        spec = metric_spec(name)
        if not has_row(spec, [arm.summaries["all"][name].mean for arm in comparison.arms]):
            continue
        rows.append(table_row(titled(spec), *_summary_cells(comparison, "all", spec)))
    return Table(
        name="arms",
        title="Arms, all items",
        caption="Mean over seeds ± sample standard deviation. "
        + generalisation_text(comparison.unit),
        columns=(Column("", "left"), *columns),
        rows=tuple(rows),
        legend=_ELSEWHERE,
        keys=1,
    )


def _arm_groups_table(comparison: ArmsComparison, names: ArmNames) -> Table:
    rows = []
    for group in comparison.groups[1:]:
        cells = _summary_cells(comparison, group, metric_spec("accuracy"))
        rows.append(table_row(group, *cells))
    return Table(
        name="arm-groups",
        title="Accuracy by group",
        columns=(
            Column("", "left"),
            *(Column(names.arm(arm.name), "left") for arm in comparison.arms),
        ),
        rows=tuple(rows),
        legend=_ELSEWHERE,
        keys=1,
    )


def _summary_cells(comparison: ArmsComparison, group: str, spec: MetricSpec) -> list[Cell]:
    cells = []
    for arm in comparison.arms:
        summary = arm.summaries[group][spec.name]
        text = value_text(summary.mean, spec.unit)
        if not math.isnan(summary.deviation):
            text += f" ± {value_text(summary.deviation, spec.unit).lstrip('+')}"
        why = None if math.isfinite(summary.mean) else summary.reason
        below = "" if summary.chance is None else chance_text(summary.chance)
        cells.append(Cell(text, mark=summary.standing, reason=why, below=below))
    return cells


def _pair_parts(pair: ArmPair, names: ArmNames) -> Iterator[Part]:
    """Lay out the first arm against another one; hundreds of single seeds carry no marks."""
    a, b = names.arm(pair.a), names.arm(pair.b)
    yield Line(one_line(f"A = {a}, B = {b}; {_signs(len(pair.seeds))}"), "strong")
    yield _arm_differences_table(pair, f"{a} - {b}")
    everything = [comparison.groups[0] for comparison in pair.seeds.values()]
    rows = {titled(m.spec): [g.metrics[name] for g in everything]
            for name, m in everything[0].metrics.items()
            if has_row(m.spec, (m.a.value, m.b.value))}  # fmt: skip
    yield _seeds_table(pair, f"{a} - {b}, all items, by seed", rows)
    groups = {
        name: [group.metrics["accuracy"] for group in comparisons]
        for name, comparisons in _by_group(pair).items()
    }
    yield _seeds_table(pair, f"{a} - {b}, accuracy by group and seed", groups)
    yield _tests_table(pair)
    for seed, comparison in pair.seeds.items():
        yield from _verdicts(comparison, f"{_seed(seed).capitalize()}: ")
    for seed, comparison in pair.seeds.items():
        for note in _notes_on_tests(comparison):
            yield Line(f"Note: {_seed(seed)}: {note}", "caution")


def _arm_differences_table(pair: ArmPair, named: str) -> Table:
    """Lay out one difference per metric over all seeds, and one of accuracy per group.

    Args:
        pair: the two arms.
        named: the difference by the names of the arms.
    """
    differences = pair.differences
    rows = [
        Row(_arm_difference_cells(titled(d.spec), d))
        for d in differences["all"].values()
        if has_row(d.spec, [d.same_seeds.value])
    ]
    others = [name for name in differences if name != "all"]
    for at, name in enumerate(others):
        cells = _arm_difference_cells(f"Accuracy ↑, {name}", differences[name]["accuracy"])
        rows.append(Row(cells, rule=at == 0))
    scope = next(iter(differences["all"].values())).generalises_to
    return Table(
        name="arm-differences",
        title=f"{named}: one difference over {_n_seeds(len(pair.seeds))}",
        caption=(
            "Mean over shared seeds. The first interval holds these seeds fixed: it is for new "
            "families. The second is for new families and new seeds. Marks and p-values: "
            f"{scope}."
        ),
        columns=(
            Column("A - B", "left"),
            *right_columns("new families, same seeds", "new families and new seeds", "p"),
            Column("same sign", "left"),
        ),
        rows=tuple(rows),
        legend=_ELSEWHERE,
    )


def _arm_difference_cells(title: str, difference: ArmDifference) -> tuple[Cell, ...]:
    """Return the cells of a difference between arms; the mark is on the interval behind it."""
    new = difference.generalises_to == "new families and new seeds"
    return (
        Cell(title),
        _marked_difference(
            difference.same_seeds, difference.spec, marked=difference.marked and not new
        ),
        _marked_difference(difference.new_seeds, difference.spec, marked=difference.marked and new),
        Cell(_p_value(difference.evidence.deciding)),
        Cell("=" if difference.sign.same else ""),
    )


def _p_value(p_value: float) -> str:
    """Write a p-value for a column of them."""
    return UNDEFINED if math.isnan(p_value) else p_value_number(p_value)


def _n_seeds(seeds: int) -> str:
    return "one seed" if seeds == 1 else f"{seeds} seeds"


def _signs(seeds: int) -> str:
    if seeds < 2:
        return "one seed has nothing to agree with."
    chance = f"{seeds} seeds do so one time in {2 ** (seeds - 1):,} by chance"
    return f"= marks one sign at every seed ({chance})."


def _by_group(pair: ArmPair) -> dict[str, list[GroupComparison]]:
    """Return the groups after the first, each at every seed."""
    groups: dict[str, list[GroupComparison]] = {}
    for comparison in pair.seeds.values():
        for group in comparison.groups[1:]:
            groups.setdefault(group.name, []).append(group)
    return groups


def _seeds_table(
    pair: ArmPair, title: str, rows: Mapping[str, Sequence[MetricComparison]]
) -> Table:
    """Lay out differences: a column per seed.

    Args:
        pair: the two arms.
        title: of the table.
        rows: by title of the row, the difference at each seed.
    """
    return Table(
        name="seeds",
        title=title,
        caption="Intervals are for new families with this seed; p-values are not adjusted.",
        columns=(Column("A - B", "left"), *(Column(_seed(seed)) for seed in pair.seeds)),
        rows=tuple(
            table_row(name, *(estimate_cell(d.difference, d.spec.difference_unit) for d in metrics))
            for name, metrics in rows.items()
        ),
        legend=_ELSEWHERE,
    )


def _tests_table(pair: ArmPair) -> Table:
    rows = []
    for seed, comparison in pair.seeds.items():
        everything = comparison.groups[0]
        tests = everything.accuracy
        rows.append(
            table_row(
                "–" if seed is None else str(seed),
                estimate_cell(everything.metrics["accuracy"].difference, "points"),
                f"{tests.families.clusters_a:,}, {tests.families.clusters_b:,}",
                p_value_text(tests.families.p_value),
                f"{tests.items.b:,}, {tests.items.c:,}",
                p_value_text(tests.items.p_value),
            )
        )
    power = [
        f"Smallest difference that the holdout shows with 80% power at {_seed(seed)}: "
        f"{value_text(comparison.groups[0].accuracy.detectable, 'percent')} points."
        for seed, comparison in pair.seeds.items()
        if math.isfinite(comparison.groups[0].accuracy.detectable)
    ]
    unit = next(iter(pair.seeds.values())).unit
    titles = ["accuracy, A - B", f"{short_clusters(unit)} A, B ahead", "sign flip"]
    return Table(
        name="tests",
        title="Accuracy of all items at single seeds: exact tests",
        columns=(
            Column("seed"),
            *map(Column, [*titles, "only A, B correct", "McNemar"]),
        ),
        rows=tuple(rows),
        notes=tuple(power),
    )


def _seeds(arm: Arm) -> str:
    if arm.seeds == (None,):
        return "no seed"
    return f"seed{'s' if len(arm.seeds) > 1 else ''} {', '.join(map(str, arm.seeds))}"


def _seed(seed: int | None) -> str:
    return "no seed" if seed is None else f"seed {seed}"
