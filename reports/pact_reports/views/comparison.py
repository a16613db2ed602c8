"""Two runs compared, or one with each of several others.

A release and what it must meet: verdict, requirements, and the items that decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import starmap
from typing import Final

from pact_eval._json import Json
from pact_eval.drift.run_comparison import RunComparison
from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.comparison import Comparison, GroupComparison, MetricComparison
from pact_eval.evaluation.conclusions.better import BetterConclusion, Claim, claim_text
from pact_eval.evaluation.conclusions.headline import Side, headline_of
from pact_eval.evaluation.conclusions.order import OrderConclusion
from pact_eval.evaluation.conclusions.probabilities import ProbabilitiesConclusion
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.notes import named
from pact_eval.evaluation.registry import ANSWER_MASS, MetricSpec
from pact_eval.evaluation.requirements import JudgedRequirement, Release
from pact_eval.evaluation.resampled_groups import sign_of
from pact_eval.evaluation.run_records import NO_TEXTS, ItemTexts
from pact_eval.evaluation.spending import spent
from pact_eval.evaluation.wrong_items import differing_items
from pact_eval.numbers import (
    CLUSTER,
    CLUSTERS,
    GENERALISATION,
    UNDEFINED,
    at_views,
    ends_text,
    generalisation_text,
    interval_text,
    methods_text,
    p_value_number,
    p_value_text,
    reason_text,
    sample_text,
    short_clusters,
    value_text,
    views_words,
)
from pact_eval.plain_text import one_line, short_names
from pact_eval.results import Note
from pact_eval.runs.provenance import NAME as PROVENANCE_NAME
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_reports.cases import STATUS_OF, CiReport, data_case, gate_report, judged_case
from pact_reports.table import (
    Cell,
    Column,
    Legend,
    Line,
    Mark,
    Part,
    Table,
    Tone,
    columns_and_rows,
    left_columns,
    right_columns,
    table_row,
)
from pact_reports.tables.cells import NOISE, estimate_cell
from pact_reports.tables.item_lists import advice_on_texts, differing_parts
from pact_reports.views.brief import MOST_LINES, Brief, Fact, beside, data_fact, tone_of, worst_tone
from pact_reports.views.drift import tempering_json
from pact_reports.views.presenter import Presenter, answer_lines
from pact_reports.views.report import has_row, items_and_units, titled
from pact_reports.writers.json import answer_json, attributes, spending_json, to_json, warnings_json


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
    conclusions = [comparison.conclusion for comparison in comparisons]

    def tables() -> Iterator[Part]:
        for pair in comparisons:
            if len(comparisons) > 1:
                yield from answer_lines([comparison_headline([pair])])
            yield from comparison_parts(pair)

    def listed() -> Iterator[Part]:
        for pair in comparisons if items else ():
            yield from _differing(pair, texts, items)

    return replace(
        present_compared(
            experiment,
            lambda: conclusions,
            lambda: {
                "comparisons": [
                    _pair_json(pair, _items_json(pair, texts, items) if items else {})
                    for pair in comparisons
                ]
            },
        ),
        tables=tables,
        headline=lambda: [comparison_headline(comparisons)],
        first=partial(_brief, comparisons, items=items > 0),
        listed=listed,
    )


def present_compared(
    experiment: Experiment,
    conclusions: Callable[[], Sequence[BetterConclusion]],
    numbers: Callable[[], Mapping[str, Json]],
) -> Presenter:
    """Present what comparisons of runs, and of arms, have in common.

    Args:
        experiment: the runs.
        conclusions: on the first and each of the others.
        numbers: JSON values in addition to what holds for all.
    """
    return Presenter(
        tables=tuple,
        to_json=lambda: {
            "answer": answer_json([experiment.data], conclusions()),
            "decoding": {**experiment.settings.label},
            "intervals": GENERALISATION[experiment.settings.unit],
            "unlike_runs": [*map(to_json, experiment.unlike)],
            "warnings": warnings_json(experiment.applied_warnings),
            **numbers(),
        },
        warnings=[*map(str, experiment.applied_warnings)],
        leak=lambda: experiment.data.leak,
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


def _brief(comparisons: Sequence[RunComparison], *, items: bool) -> Brief:
    """Return the first screen; `items` are whether those that only one run has right follow."""
    lines = [Line(text) for pair in comparisons for text in pair.sentences]
    brief = _brief_pair(comparisons[0]) if len(comparisons) == 1 else _brief_several(comparisons)
    return replace(brief, more=more_text(items=items), lines=lines)


def _brief_pair(comparison: RunComparison) -> Brief:
    """Return what else is known of two runs, the better one first."""
    conclusion = comparison.conclusion.better_first
    turn = -1 if conclusion is not comparison.conclusion else 1
    names = short_names((conclusion.left, conclusion.right))
    orders, probabilities = comparison.orders[::turn], comparison.probabilities[::turn]
    called = [one.mark for one in probabilities]
    return Brief(
        cautions=[*cautions(comparison.experiment)],
        facts=[
            Fact("items", _discordant(comparison, names, turn)),
            *_difference_not_shown(conclusion, names),
            *difference_facts(conclusion),
            *_margin_facts(comparison, conclusion, names[::turn]),
            *_where(comparison, names, turn),
            Fact("probabilities", beside(names, called), worst_tone(probabilities)),
            Fact("order", beside(names, [one.mark for one in orders]), worst_tone(orders)),
            Fact("requests", spending_words(comparison)),
            data_fact(comparison.data),
        ],
        notes=_notes(comparison, names[::turn]),
    )


def _brief_several(comparisons: Sequence[RunComparison]) -> Brief:
    """Return how a run compares with each of several others, one line each."""
    first, experiment = comparisons[0], comparisons[0].experiment
    group, conclusions = first.groups[0], [pair.conclusion for pair in comparisons]
    sample = sample_text(group.items, group.clusters, first.unit)
    return Brief(
        cautions=[*cautions(experiment)],
        facts=[
            Fact("sample", f"{sample}{unusual_decoding(experiment)}; {shown_text(conclusions)}"),
            data_fact(experiment.data),
        ],
        notes=_each_once(comparisons),
        tables=[_runs_table(comparisons)],
        most=MOST_LINES + len(comparisons) - 2,
    )


def _differing(comparison: RunComparison, texts: ItemTexts, items: int) -> Iterator[Part]:
    conclusion, views = comparison.conclusion, comparison.runs[0].predictions
    listed = differing_items(comparison.differing, views, texts, items)
    yield from differing_parts(comparison, listed, (conclusion.left, conclusion.right))
    yield from advice_on_texts(known=bool(texts.records))


def _pair_json(comparison: RunComparison, items: Mapping[str, Json]) -> Json:
    a, b = (run.place for run in comparison.runs)
    numbers = {field.name: to_json(getattr(comparison, field.name)) for field in fields(Comparison)}
    tempering = comparison.tempering
    analyses = {
        "tempering": None if tempering is None else tempering_json(tempering),
        "quantising": comparison.quantising,
    }
    shown = {name: to_json(analysis) for name, analysis in analyses.items() if analysis is not None}
    if comparison.spending is not None:
        shown["spending"] = spending_json(comparison.spending)
    return {"a": a, "b": b, "comparison": numbers, **items, **shown}


NO_LEGEND: Final[tuple[tuple[Mark, str], ...]] = (("significant", ""), ("best", ""), ("tied", ""))
UNITS_AND_NOISE: Final = (
    "Units: rates and AURC in %, differences of rates in points; NLL in nats; Score MAE and RPS in "
    f"levels; Brier between 0 and 2. {NOISE}"
)


def comparison_parts(comparison: RunComparison) -> tuple[Part, ...]:
    """Lay out the comparison of two runs, below what the first screen says of it.

    Returns:
        What is compared; the metrics of all items; accuracy by group with its tests; notes; the
        other metrics by group; what the marks mean.
    """
    everything = comparison.groups[0]
    method = methods_text(
        (
            estimate
            for metric in everything.metrics.values()
            for estimate in (metric.a, metric.difference)
        ),
        comparison.unit,
    )
    decoding = ", ".join(comparison.experiment.settings.label.values())
    parts: list[Part] = [
        *(
            Line(one_line(f"{letter} = {run.title}"), "strong")
            for letter, run in zip("AB", comparison.runs, strict=True)
        ),
        Line(
            f"Decoding: {decoding}; differences are A - B, in brackets the {method}. "
            f"{generalisation_text(comparison.unit)}"
        ),
        _metrics_table(everything),
        _accuracy_table(comparison),
        *(Line(f"Note: {note!s}", "caution") for note in comparison.notes),
        *(Line(f"Note: {note}", "caution") for note in _notes_on_tests(comparison)),
    ]
    if len(comparison.groups) > 2:  # one group is all items once more
        parts.append(_by_group_table(comparison))
    how = (
        f"its 95% interval excludes 0{adjusted_text(everything.metrics['accuracy'].evidence.tests)}"
    )
    marks: tuple[tuple[Mark, str], ...] = (("significant", f"the difference is shown ({how})"),)
    return (*parts, Legend(marks, UNITS_AND_NOISE))


def adjusted_text(tests: int) -> str:
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
    metrics = [
        metric
        for metric in group.metrics.values()
        if has_row(metric.spec, (metric.a.value, metric.b.value))
    ]

    def side(metric: MetricComparison, estimate: Estimate) -> Cell:
        return estimate_cell(estimate, metric.spec.unit, reasons=False)

    layout = columns_and_rows(
        metrics,
        (Column("", "left"), lambda metric: titled(metric.spec)),
        (Column("A", "left"), lambda metric: side(metric, metric.a)),
        (Column("B", "left"), lambda metric: side(metric, metric.b)),
        (Column("A - B", "left"), _difference_cell),
    )
    return Table("metrics", "", "", *layout, legend=NO_LEGEND)


def _by_group_table(comparison: Comparison) -> Table:
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
    title = f"A - B by {comparison.by.replace('_', ' ')}"
    return Table("by-group", title, "", tuple(columns), tuple(rows), legend=NO_LEGEND, keys=1)


def _difference_cell(metric: MetricComparison) -> Cell:
    return marked_difference(metric.difference, metric.spec, marked=metric.marked)


def marked_difference(difference: Estimate, spec: MetricSpec, *, marked: bool) -> Cell:
    """Write a difference with its interval; marked and coloured if it is shown."""
    cell = estimate_cell(difference, spec.difference_unit)
    if not marked:
        return cell
    good = sign_of(difference) == spec.better
    return replace(cell, mark="significant", tone="good" if good else "bad")


def _accuracy_table(comparison: Comparison) -> Table:
    """Lay out accuracy with its exact tests, a row per group."""

    def ahead(group: GroupComparison) -> str:
        families = group.accuracy.families
        return f"{families.clusters_a:,}, {families.clusters_b:,}"

    def item_interval(group: GroupComparison) -> str:
        item = group.accuracy.item_interval
        return UNDEFINED if math.isnan(item.low) else ends_text(item.low, item.high, "points")

    unit = comparison.unit
    layout = columns_and_rows(
        comparison.groups,
        (Column("", "left"), lambda group: group.name),
        (f"A - B, by {CLUSTER[unit]}", lambda group: _difference_cell(group.metrics["accuracy"])),
        ("p", lambda group: p_value_or_dash(group.metrics["accuracy"].evidence.deciding)),
        (f"{short_clusters(unit)} A, B ahead", ahead),
        ("sign flip", lambda group: p_value_text(group.accuracy.families.p_value)),
        (
            "only A, B correct",
            lambda group: f"{group.accuracy.items.b:,}, {group.accuracy.items.c:,}",
        ),
        ("McNemar", lambda group: p_value_text(group.accuracy.items.p_value)),
        ("over items", item_interval),
    )
    notes = tuple(_remarks(comparison))
    return Table("accuracy", "Accuracy: exact tests", "", *layout, legend=NO_LEGEND, notes=notes)


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


def _notes_on_tests(comparison: Comparison) -> Iterator[str]:
    """Name the tests without power because too few items or families differ."""
    everything, *others = comparison.groups
    tests = everything.accuracy
    reasons = (tests.items.reason, reason_text(tests.families.reason, comparison.unit))
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


def p_value_or_dash(p_value: float) -> str:
    """Write a p-value for a column of them."""
    return UNDEFINED if math.isnan(p_value) else p_value_number(p_value)


_LONGEST_NAME: Final = 20


def comparison_headline(comparisons: Sequence[RunComparison]) -> str:
    """Write the first line on a run and the others that it is compared with; see `headline_of`."""
    first, conclusions = comparisons[0], [comparison.conclusion for comparison in comparisons]
    sides = [Side(conclusions[0].left, first.runs[:1])]
    sides += [Side(pair.conclusion.right, pair.runs[1:]) for pair in comparisons]
    return headline_of(first.experiment, sides, conclusions)


def _difference_not_shown(conclusion: BetterConclusion, names: Sequence[str]) -> Iterator[Fact]:
    """Write the difference with its interval, if the first line has the half width alone."""
    claim, statuses = conclusion.leading, {one.status for one in conclusion.of("accuracy")}
    if claim and not claim.shown and len(statuses) == 1:
        text = claim_text(claim, word=True, at=False)
        yield Fact("difference", f"{names[0]} - {names[1]} {text}", spare=True)


def cautions(experiment: Experiment) -> Iterator[Line]:
    """Yield which runs are one, and in what runs differ that are compared nevertheless."""
    for found in (*experiment.same_runs, *experiment.matched_by_line, *experiment.unlike):
        yield Line(f"Caution: {one_line(str(found))}.", "caution")


def _where(comparison: RunComparison, names: Sequence[str], turn: int) -> Iterator[Fact]:
    """Name the groups in which a run is wrong, if any are shown to differ."""
    found = [
        f"{name}: {where.line}"
        for name, where in zip(names, comparison.where[::turn], strict=True)
        if where.status == "found"
    ]
    yield Fact("where", "; ".join(found), "bad")


def spending_words(comparison: RunComparison) -> str:
    """Say which run is cheaper or faster; "" if that is not known."""
    spending, names = comparison.spending, short_names([run.name for run in comparison.runs])
    return "" if spending is None else one_line(spending.words(*names))


def _discordant(comparison: RunComparison, names: Sequence[str], turn: int) -> str:
    """Count the items that only one run answers correctly, of how many."""
    group = comparison.groups[0]
    test = group.accuracy.items
    left, right = (test.b, test.c)[::turn]
    answers = "" if group.answers == group.items else f"{group.answers:,} answers to "
    sample = f"{answers}{sample_text(group.items, group.clusters, comparison.unit)}"
    counted = f"only {names[0]} right {left:,}, only {names[1]} right {right:,}, of {sample}"
    return f"{counted}{unusual_decoding(comparison.experiment)}"


def unusual_decoding(experiment: Experiment) -> str:
    """Say how answers came about, if not from the first order and raw probabilities.

    Example:
        "; probabilities averaged over orders, calibrated"
    """
    label = experiment.settings.label
    averaged = "probabilities averaged over orders" if label["views"] == "ensemble" else ""
    calibrated = "calibrated" if label["calibration"] == "calibrated" else ""
    unusual = ", ".join(filter(None, (averaged, calibrated)))
    return f"; {unusual}" if unusual else ""


def difference_facts(conclusion: BetterConclusion) -> Iterator[Fact]:
    """Write the differences that the answer does not have: the better run minus the other."""
    accuracy = [claim for claim in conclusion.of("accuracy") if claim is not conclusion.leading]
    for claim in accuracy:
        yield Fact(at_views(claim.k, claim.repeats), claim_text(claim, at=False))
    pairs = conclusion.of("pair_accuracy")
    yield Fact("pairs", ", ".join(claim_text(claim, shown=True) for claim in pairs), spare=True)
    large = conclusion.large_mass_difference is not None
    masses = (
        claim_text(claim, word=large, shown=True)
        for claim in conclusion.of(ANSWER_MASS)
        if claim.shown
    )
    yield Fact("answer mass", ", ".join(masses), "bad" if large else None, spare=not large)


def _margin_facts(
    comparison: RunComparison, conclusion: BetterConclusion, names: Sequence[str]
) -> Iterator[Fact]:
    """Write the verdict on the margin, with the names of A and B, and what could be shown."""
    verdict = comparison.groups[0].metrics["accuracy"].verdict
    if verdict is not None:
        margin = value_text(verdict.margin, "percent")
        unknown = math.isnan(verdict.low)
        text = "no verdict without an interval" if unknown else verdict.about(*names)
        yield Fact("margin", f"{margin} points: {text}")
    yield Fact("power", conclusion.power_words)


def more_text(*, items: bool) -> str:
    """Say how to see more than the first screen, which the items may follow."""
    return "All metrics: --full." if items else "Items: --items 20.  All metrics: --full."


def _notes(comparison: Comparison, names: Sequence[str]) -> list[Note]:
    """Return notes that name the runs instead of A and B."""
    called = ArmNames(dict(zip("AB", names, strict=True)))
    return [named(note, called) for note in comparison.notes]


def _each_once(comparisons: Sequence[RunComparison]) -> list[Note]:
    """Return the notes of several comparisons, equal ones once; they cannot be hashed."""
    notes: list[Note] = []
    for comparison in comparisons:
        sides = short_names([run.name for run in comparison.runs])
        notes += [note for note in _notes(comparison, sides) if note not in notes]
    return notes


def _runs_table(comparisons: Sequence[RunComparison]) -> Table:
    """Lay out the runs: accuracy, its difference from the first run's, conclusions, and costs."""
    experiment, conclusions = comparisons[0].experiment, [pair.conclusion for pair in comparisons]
    runs = [comparisons[0].runs[0], *(comparison.runs[1] for comparison in comparisons)]
    names = [conclusions[0].left, *(conclusion.right for conclusion in conclusions)]
    accuracy = [comparison.groups[0].metrics["accuracy"] for comparison in comparisons]
    values = [accuracy[0].a.value, *(metric.b.value for metric in accuracy)]
    costs = [known.cell if known else "" for known in map(spent, runs)]
    return claims_table(
        *("run", names, {"accuracy": [value_text(value, "percent") for value in values]}),
        conclusions,
        zip(map(experiment.order, runs), map(experiment.probabilities, runs), strict=True),
        {"price, latency (95%)": costs} if any(costs) else {},
    )


def claims_table(
    what: str,
    names: Sequence[str],
    facts: Mapping[str, Sequence[str]],
    conclusions: Sequence[BetterConclusion],
    words: Iterable[tuple[OrderConclusion, ProbabilitiesConclusion]],
    further: Mapping[str, Sequence[str]] | None = None,
) -> Table:
    """Lay out runs or arms: facts, the difference in accuracy from the first, and conclusions.

    Args:
        what: "run" or "arm".
        names: of each.
        facts: of each, by the head of their column.
        conclusions: of the first and each of the others.
        words: what is concluded of the order and the probabilities of each.
        further: as `facts`, for the last columns.
    """
    called = short_names(names, _LONGEST_NAME)
    orders, probabilities = zip(*words, strict=True)
    texts: dict[str, Sequence[Cell | str]] = {
        **_claim_columns(conclusions, f"{called[0]} - {what}"),
        "order": [Cell(one.word, tone=tone_of(one)) for one in orders],
        "probabilities": [Cell(one.word, tone=tone_of(one)) for one in probabilities],
        **(further or {}),
    }
    rows = zip(called, *facts.values(), *texts.values(), strict=True)
    return Table(
        name=f"{what}s",
        columns=(Column(what, "left"), *right_columns(*facts), *left_columns(*texts)),
        rows=tuple(starmap(table_row, rows)),
        bare=True,
    )


def _claim_columns(conclusions: Sequence[BetterConclusion], what: str) -> dict[str, list[str]]:
    """Write the differences in accuracy by decoding, that of the settings with its interval.

    If a large difference in answer mass is shown, those in answer mass are the last column.

    Args:
        conclusions: on the first run or arm, whose texts are empty, and each of the others.
        what: is subtracted from what.
    """

    def text(conclusion: BetterConclusion, at: int) -> str:
        claims = _accuracy(conclusion)
        if at < len(claims):
            return _claim_cell(claims[at], interval=not at)
        return "" if at else conclusion.status

    claims = max(map(_accuracy, conclusions), key=len)
    heads = [views_words(claim.k, claim.repeats) for claim in claims]
    columns = {
        head: ["", *(text(conclusion, at) for conclusion in conclusions)]
        for at, head in enumerate([", ".join([what, *heads[:1]]), *heads[1:]])
    }
    if _large_mass(conclusions):
        masses = (map(_claim_cell, conclusion.of(ANSWER_MASS)) for conclusion in conclusions)
        columns["mass"] = ["", *(next(of_each, "") for of_each in masses)]
    return columns


def _accuracy(conclusion: BetterConclusion) -> list[Claim]:
    """Return the claims on accuracy, that of the settings first."""
    return [claim for claim in conclusion.claims if claim.metric == "accuracy"]


def _large_mass(conclusions: Sequence[BetterConclusion]) -> bool:
    return any(conclusion.large_mass_difference for conclusion in conclusions)


def _claim_cell(claim: Claim, *, interval: bool = False) -> str:
    """Write a difference, with its interval or without, and its mark."""
    difference = claim.difference
    text = value_text(difference.value, "points")
    marks = {"better": " *", "worse": " *", "equivalent": ", equivalent"}
    return (interval_text(difference, "points") if interval else text) + marks.get(claim.status, "")


def shown_text(conclusions: Sequence[BetterConclusion]) -> str:
    """Explain the mark of `claims_table`."""
    counts = [_most_tests(map(_accuracy, conclusions))]
    if _large_mass(conclusions):
        counts.append(_most_tests(conclusion.of(ANSWER_MASS) for conclusion in conclusions))
    if max(counts) <= 1:
        return "* shown"
    of_mass = f"; of mass, for {counts[1]:,}" if len(counts) > 1 else ""
    return f"* shown, adjusted for {counts[0]:,} tests (Holm){of_mass}"


def _most_tests(groups: Iterable[Sequence[Claim]]) -> int:
    return max((claim.evidence.tests for claims in groups for claim in claims), default=0)


_MOST_ROWS: Final = 8
_TONES: Final[dict[str, Tone | None]] = {"contradicted": "bad", "not shown": "caution"}


def present_release(release: Release, *, command: str = "pact-eval compare") -> Presenter:
    """Present whether a release meets what is required.

    Args:
        release: the judged requirements.
        command: that judged it, for the reports of CI.
    """
    return Presenter(
        first=partial(release_screen, release, _MOST_ROWS),
        tables=tuple,
        to_json=partial(_json, release),
        headline=lambda: [release.answer],
        warnings=[*map(str, release.warnings)],
        leak=lambda: release.experiment.data.leak,
        ci=partial(release_report, release, command),
    )


def release_screen(release: Release, most: int) -> Brief:
    """Return the requirements, those that decide first, and the items that decide.

    Args:
        release: the judged requirements.
        most: number of requirements to show; further ones are counted.
    """
    left, lines = release.judged[most:], list(_items(release))
    if release.spending is not None:
        lines[:0] = [Line(f"Requests: {one_line(release.spending.words(*release.names))}.")]
    if left:
        counts = (
            f"{sum(judged.test.finding == finding for judged in left):,} {finding}"
            for finding in dict.fromkeys(judged.test.finding for judged in left)
        )
        lines[:0] = [Line(f"More requirements: {', '.join(counts)}. --json lists all.", "faint")]
    return Brief(tables=[requirements_table(release.judged[:most])], lines=lines)


def requirements_table(judged: tuple[JudgedRequirement, ...]) -> Table:
    """Lay out requirements as lines: what is required, the number with its interval, the result."""
    layout = columns_and_rows(
        judged,
        (Column("required", "left"), lambda one: one.name),
        (Column("value", "left"), lambda one: one.value),
        (
            Column("result", "left"),
            lambda one: Cell(one.result, tone=_TONES.get(one.test.finding)),
        ),
    )
    return Table("requirements", "", "", *layout, bare=True)


def _items(release: Release) -> Iterator[Line]:
    """List the surest wrong answers: of items that the run before answers correctly, if any."""
    names, in_all = release.names, release.wrong_in_all
    what = f"Only {names[1]} right" if names[1:] else "Wrong answers"
    surest = f", the surest of {names[0]} first" if len(release.wrong) < in_all else ""
    yield Line(one_line(f"{what}: {in_all:,}{surest if in_all else ''}."))
    for item in release.wrong:
        yield Line(one_line(f"  {item.words}"))


def _json(release: Release) -> dict[str, Json]:
    runs = release.experiment.runs
    judged: list[Json] = [
        {
            "required": one.requirement.words,
            **attributes(one.requirement, "metric", "bound", "than_before"),
            "group": one.group,
            "finding": one.test.finding,
            "adjusted_p_value": to_json(one.test.p_value),
            "clusters_needed": one.test.needed,
            "reason": to_json(one.test.reason),
            "estimate": to_json(one.estimate),
        }
        for one in release.judged
    ]
    return {
        "answer": answer_json([release.experiment.data]) | {"release": release.answer},
        "verdict": release.verdict,
        "new": runs[0].place,
        "old": runs[1].place if runs[1:] else None,
        "decoding": {**release.experiment.settings.label},
        "intervals": GENERALISATION[release.experiment.settings.unit],
        "by": release.by or None,
        "requirements": judged,
        **({} if release.spending is None else {"spending": spending_json(release.spending)}),
        "items": to_json(release.wrong),
        "items_in_all": release.wrong_in_all,
        "warnings": warnings_json(release.warnings),
    }


def release_report(release: Release, command: str) -> CiReport:
    """Return the cases for CI: the data, and each requirement.

    Args:
        release: the judged requirements.
        command: that judged it.
    """
    file = release.new.folder / PROVENANCE_NAME
    cases = [data_case(release.experiment.data, file)]
    for one in release.judged:
        text = f"{one.value}: {one.result}"
        cases.append(judged_case("requirement", one.name, STATUS_OF[one.test.finding], text, file))
    return gate_report(command, release.answer, cases, map(str, release.warnings))
