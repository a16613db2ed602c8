"""Two runs compared, or one with each of several others.

A release and what it must meet: verdict, requirements, and the items that decide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import starmap
from typing import Final, Literal

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
from pact_eval.evaluation.requirements import Release
from pact_eval.evaluation.resampled_groups import sign_of
from pact_eval.evaluation.run_records import NO_TEXTS, ItemTexts
from pact_eval.evaluation.spending import spent
from pact_eval.evaluation.wrong_items import differing_items
from pact_eval.numbers import (
    CLUSTER,
    CLUSTERS,
    GENERALISATION,
    UNDEFINED,
    Unit,
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
    make_table,
    table_row,
)
from pact_reports.tables.cells import NOISE, estimate_cell
from pact_reports.tables.item_lists import advice_on_texts, differing_parts
from pact_reports.views.drift import tempering_json
from pact_reports.views.presenter import (
    MOST_LINES,
    Brief,
    Fact,
    Presenter,
    answer_lines,
    beside,
    data_fact,
    tone_of,
    worst_tone,
)
from pact_reports.views.report import group_column, has_row, titled
from pact_reports.writers.json import (
    answer_json,
    attributes,
    members,
    spending_json,
    to_json,
    warnings_json,
)


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
    conclusions = [comparison.conclusion for comparison in comparisons]

    def tables() -> Iterator[Part]:
        for pair in comparisons:
            if len(comparisons) > 1:
                yield from answer_lines([comparison_headline([pair])])
            yield from comparison_parts(pair)

    def listed() -> Iterator[Part]:
        for pair in comparisons if items else ():
            views, names = pair.runs[0].predictions, (pair.conclusion.left, pair.conclusion.right)
            shown = differing_items(pair.differing, views, texts, items)
            yield from differing_parts(pair, shown, names)
            yield from advice_on_texts(known=bool(texts.records))

    def brief() -> Brief:
        one = len(comparisons) == 1
        made = _brief_pair(comparisons[0]) if one else _brief_several(comparisons)
        lines = [Line(text) for pair in comparisons for text in pair.sentences]
        return replace(made, more=more_text(items=items > 0), lines=lines)

    return replace(
        present_compared(
            comparisons[0].experiment,
            lambda: conclusions,
            lambda: {"comparisons": [_pair_json(pair, texts, items) for pair in comparisons]},
        ),
        tables=tables,
        headline=lambda: [comparison_headline(comparisons)],
        first=brief,
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


def _brief_pair(comparison: RunComparison) -> Brief:
    """Return what else is known of two runs, the better one first."""
    conclusion = comparison.conclusion.better_first
    turn = -1 if conclusion is not comparison.conclusion else 1
    names = short_names((conclusion.left, conclusion.right))
    return Brief(
        cautions=[*cautions(comparison.experiment)],
        facts=[*_facts_of_pair(comparison, conclusion, names, turn)],
        notes=_notes(comparison, names[::turn]),
    )


def _facts_of_pair(
    comparison: RunComparison, conclusion: BetterConclusion, names: Sequence[str], turn: int
) -> Iterator[Fact]:
    """Yield what is known of two runs.

    Args:
        comparison: of A and B.
        conclusion: on the better run and the other one.
        names: of these.
        turn: -1 if B is the better one, otherwise 1.
    """
    group, claim = comparison.groups[0], conclusion.leading
    left, right = (group.accuracy.items.b, group.accuracy.items.c)[::turn]
    answers = "" if group.answers == group.items else f"{group.answers:,} answers to "
    sample = f"{answers}{sample_text(group.items, group.clusters, comparison.unit)}"
    counted = f"only {names[0]} right {left:,}, only {names[1]} right {right:,}, of {sample}"
    yield Fact("items", f"{counted}{unusual_decoding(comparison.experiment)}")
    # Of a difference that is not shown, the first line has the half width alone.
    if claim and not claim.shown and len({one.status for one in conclusion.of("accuracy")}) == 1:
        text = claim_text(claim, word=True, at=False)
        yield Fact("difference", f"{names[0]} - {names[1]} {text}", spare=True)
    yield from difference_facts(conclusion)
    verdict = group.metrics["accuracy"].verdict
    if verdict is not None:
        unknown = math.isnan(verdict.low)
        text = "no verdict without an interval" if unknown else verdict.about(*names[::turn])
        yield Fact("margin", f"{value_text(verdict.margin, 'percent')} points: {text}")
    yield Fact("power", conclusion.power_words)
    places = zip(names, comparison.where[::turn], strict=True)
    found = (f"{name}: {where.line}" for name, where in places if where.status == "found")
    yield Fact("where", "; ".join(found), "bad")
    concluded: dict[str, Sequence[OrderConclusion | ProbabilitiesConclusion]] = {
        "probabilities": comparison.probabilities[::turn],
        "order": comparison.orders[::turn],
    }
    for name, pair in concluded.items():
        yield Fact(name, beside(names, [one.mark for one in pair]), worst_tone(pair))
    yield Fact("requests", spending_words(comparison))
    yield data_fact(comparison.data)


def _brief_several(comparisons: Sequence[RunComparison]) -> Brief:
    """Return how a run compares with each of several others, one line each."""
    first, experiment = comparisons[0], comparisons[0].experiment
    group, conclusions = first.groups[0], [pair.conclusion for pair in comparisons]
    sample = sample_text(group.items, group.clusters, first.unit)
    notes: list[Note] = []  # equal ones once; they cannot be hashed
    for pair in comparisons:
        sides = short_names([run.name for run in pair.runs])
        notes += [note for note in _notes(pair, sides) if note not in notes]
    return Brief(
        cautions=[*cautions(experiment)],
        facts=[
            Fact("sample", f"{sample}{unusual_decoding(experiment)}; {shown_text(conclusions)}"),
            data_fact(experiment.data),
        ],
        notes=notes,
        tables=[_runs_table(comparisons)],
        most=MOST_LINES + len(comparisons) - 2,
    )


def _pair_json(comparison: RunComparison, texts: ItemTexts, items: int) -> Json:
    """Return a comparison, and so many items that only one run answers correctly; 0 lists none."""
    a, b = comparison.runs
    values: dict[str, Json] = {
        "a": a.place,
        "b": b.place,
        "comparison": attributes(comparison, *(field.name for field in fields(Comparison))),
    }
    if items:
        sides = differing_items(comparison.differing, a.predictions, texts, items)
        values["items"] = [
            {"correct": side, **members(item)} for side, listed in sides.items() for item in listed
        ]
    if comparison.tempering is not None:
        values["tempering"] = tempering_json(comparison.tempering)
    if comparison.quantising is not None:
        values |= attributes(comparison, "quantising")
    if comparison.spending is not None:
        values["spending"] = spending_json(comparison.spending)
    return values


NO_LEGEND: Final[tuple[tuple[Mark, str], ...]] = (("significant", ""), ("best", ""), ("tied", ""))
UNITS_AND_NOISE: Final = (
    "Units: rates and AURC in %, differences of rates in points; NLL in nats; Score MAE and RPS in "
    f"levels; Brier between 0 and 2. {NOISE}"
)


def comparison_parts(comparison: RunComparison) -> Iterator[Part]:
    """Lay out the comparison of two runs, below what the first screen says of it.

    Yields:
        What is compared; the metrics of all items; accuracy by group with its tests; notes; the
        other metrics by group; what the marks mean.
    """
    everything = comparison.groups[0]
    estimates = ((metric.a, metric.difference) for metric in everything.metrics.values())
    method = methods_text((one for pair in estimates for one in pair), comparison.unit)
    for letter, run in zip("AB", comparison.runs, strict=True):
        yield Line(one_line(f"{letter} = {run.title}"), "strong")
    yield Line(
        f"Decoding: {', '.join(comparison.experiment.settings.label.values())}; differences are "
        f"A - B, in brackets the {method}. {generalisation_text(comparison.unit)}"
    )
    yield _metrics_table(everything)
    yield _accuracy_table(comparison)
    for note in (*map(str, comparison.notes), *_notes_on_tests(comparison)):
        yield Line(f"Note: {note}", "caution")
    if len(comparison.groups) > 2:  # one group is all items once more
        yield _by_group_table(comparison)
    tests = everything.metrics["accuracy"].evidence.tests
    shown = f"the difference is shown (its 95% interval excludes 0{adjusted_text(tests)})"
    yield Legend((("significant", shown),), UNITS_AND_NOISE)


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
    def side(metric: MetricComparison, name: Literal["a", "b"]) -> Cell:
        return estimate_cell(getattr(metric, name), metric.spec.unit, reasons=False)

    metrics = group.metrics.values()
    return make_table(
        "metrics",
        [one for one in metrics if has_row(one.spec, (one.a.value, one.b.value))],
        (Column("", "left"), lambda metric: titled(metric.spec)),
        (Column("A", "left"), partial(side, name="a")),
        (Column("B", "left"), partial(side, name="b")),
        (Column("A - B", "left"), _difference_cell),
        legend=NO_LEGEND,
    )


def _by_group_table(comparison: Comparison) -> Table:
    """Lay out every metric but accuracy, which has a table with its tests: A - B in every group."""
    groups = comparison.groups[1:]
    metrics = groups[0].metrics.values()
    return make_table(
        "by-group",
        [
            one.spec
            for one in metrics
            if one.spec.name != "accuracy" and has_row(one.spec, (one.a.value, one.b.value))
        ],
        (Column("", "left"), titled),
        *(
            (
                group_column(group, comparison.unit),
                lambda spec, group=group: _difference_cell(group.metrics[spec.name]),
            )
            for group in groups
        ),
        title=f"A - B by {comparison.by.replace('_', ' ')}",
        legend=NO_LEGEND,
        keys=1,
    )


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
    unit, all_items = comparison.unit, comparison.groups[0]

    def ahead(group: GroupComparison) -> str:
        families = group.accuracy.families
        return f"{families.clusters_a:,}, {families.clusters_b:,}"

    def only(group: GroupComparison) -> str:
        return f"{group.accuracy.items.b:,}, {group.accuracy.items.c:,}"

    def item_interval(group: GroupComparison) -> str:
        item = group.accuracy.item_interval
        return UNDEFINED if math.isnan(item.low) else ends_text(item.low, item.high, "points")

    tests = all_items.metrics["accuracy"].evidence.tests
    adjusted = f" That of all items is adjusted for {tests} tests (Holm)." if tests > 1 else ""
    notes = [
        f"p decides.{adjusted} The first interval, p and the sign flip take "
        f"{CLUSTERS[unit]} as the units; McNemar and the last interval treat items as "
        "independent, as papers do."
    ]
    if all_items.answers > all_items.items:
        notes.append(
            "Repeats of an item are not independent: the sign flip allows for that, McNemar does "
            "not."
        )
    pairs = all_items.accuracy.pairs
    if pairs is not None:
        counts = f"only A {pairs.b:,}, only B {pairs.c:,}"
        notes.append(f"Pair accuracy, over pairs: {counts}, {p_value_text(pairs.p_value)}.")
    return make_table(
        "accuracy",
        comparison.groups,
        (Column("", "left"), lambda group: group.name),
        (f"A - B, by {CLUSTER[unit]}", lambda group: _difference_cell(group.metrics["accuracy"])),
        ("p", lambda group: p_value_or_dash(group.metrics["accuracy"].evidence.deciding)),
        (f"{short_clusters(unit)} A, B ahead", ahead),
        ("sign flip", lambda group: p_value_text(group.accuracy.families.p_value)),
        ("only A, B correct", only),
        ("McNemar", lambda group: p_value_text(group.accuracy.items.p_value)),
        ("over items", item_interval),
        title="Accuracy: exact tests",
        legend=NO_LEGEND,
        notes=tuple(notes),
    )


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


def cautions(experiment: Experiment) -> Iterator[Line]:
    """Yield which runs are one, and in what runs differ that are compared nevertheless."""
    for found in (*experiment.same_runs, *experiment.matched_by_line, *experiment.unlike):
        yield Line(f"Caution: {one_line(str(found))}.", "caution")


def spending_words(comparison: RunComparison) -> str:
    """Say which run is cheaper or faster; "" if that is not known."""
    spending, names = comparison.spending, short_names([run.name for run in comparison.runs])
    return "" if spending is None else one_line(spending.words(*names))


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


def more_text(*, items: bool) -> str:
    """Say how to see more than the first screen, which the items may follow."""
    return "All metrics: --full." if items else "Items: --items 20.  All metrics: --full."


def _notes(comparison: Comparison, names: Sequence[str]) -> list[Note]:
    """Return notes that name the runs instead of A and B."""
    called = ArmNames(dict(zip("AB", names, strict=True)))
    return [named(note, called) for note in comparison.notes]


def _runs_table(comparisons: Sequence[RunComparison]) -> Table:
    """Lay out the runs: accuracy, its difference from the first run's, conclusions, and costs."""
    experiment, conclusions = comparisons[0].experiment, [pair.conclusion for pair in comparisons]
    runs = [comparisons[0].runs[0], *(comparison.runs[1] for comparison in comparisons)]
    names = [conclusions[0].left, *(conclusion.right for conclusion in conclusions)]
    accuracy = [comparison.groups[0].metrics["accuracy"] for comparison in comparisons]
    values = [accuracy[0].a.value, *(metric.b.value for metric in accuracy)]
    costs = [known.cell if known else "" for known in map(spent, runs)]
    return claims_table(
        "run",
        names,
        {"accuracy": [value_text(value, "percent") for value in values]},
        conclusions,
        [(experiment.order(run), experiment.probabilities(run)) for run in runs],
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
    left = (Column(head, "left") for head in texts)
    return Table(
        name=f"{what}s",
        columns=(Column(what, "left"), *map(Column, facts), *left),
        rows=tuple(starmap(table_row, zip(called, *facts.values(), *texts.values(), strict=True))),
        bare=True,
    )


def _claim_columns(conclusions: Sequence[BetterConclusion], what: str) -> dict[str, list[str]]:
    """Write the differences in accuracy by decoding, that of the settings with its interval.

    If a large difference in answer mass is shown, those in answer mass are the last column.

    Args:
        conclusions: on the first run or arm, whose texts are empty, and each of the others.
        what: is subtracted from what.
    """
    marks = {"better": " *", "worse": " *", "equivalent": ", equivalent"}

    def text(claims: Sequence[Claim], at: int, missing: str = "", *, interval: bool = False) -> str:
        if at >= len(claims):
            return missing
        difference, mark = claims[at].difference, marks.get(claims[at].status, "")
        return f"{(interval_text if interval else _value)(difference, 'points')}{mark}"

    claims = max(map(_accuracy, conclusions), key=len)
    heads = [views_words(claim.k, claim.repeats) for claim in claims]
    columns = {}
    for at, head in enumerate([", ".join([what, *heads[:1]]), *heads[1:]]):
        columns[head] = [""]
        for one in conclusions:
            missing = "" if at else one.status
            columns[head].append(text(_accuracy(one), at, missing, interval=not at))
    if any(one.large_mass_difference for one in conclusions):
        columns["mass"] = ["", *(text([*one.of(ANSWER_MASS)], 0) for one in conclusions)]
    return columns


def _value(difference: Estimate, unit: Unit) -> str:
    return value_text(difference.value, unit)


def _accuracy(conclusion: BetterConclusion) -> list[Claim]:
    """Return the claims on accuracy, that of the settings first."""
    return [claim for claim in conclusion.claims if claim.metric == "accuracy"]


def shown_text(conclusions: Sequence[BetterConclusion]) -> str:
    """Explain the mark of `claims_table`."""

    def most_tests(groups: Iterable[Sequence[Claim]]) -> int:
        return max((claim.evidence.tests for claims in groups for claim in claims), default=0)

    tests, of_mass = most_tests(map(_accuracy, conclusions)), 0
    if any(one.large_mass_difference for one in conclusions):
        of_mass = most_tests(one.of(ANSWER_MASS) for one in conclusions)
    if max(tests, of_mass) <= 1:
        return "* shown"
    further = f"; of mass, for {of_mass:,}" if of_mass else ""
    return f"* shown, adjusted for {tests:,} tests (Holm){further}"


_MOST_ROWS: Final = 8
_TONES: Final[dict[str, Tone | None]] = {"contradicted": "bad", "not shown": "caution"}


def present_release(release: Release, *, command: str = "pact-eval compare") -> Presenter:
    """Present whether a release meets what is required.

    Args:
        release: the judged requirements.
        command: that judged it, for the reports of CI.
    """
    return Presenter(
        first=partial(_release_screen, release),
        tables=tuple,
        to_json=partial(_json, release),
        headline=lambda: [release.answer],
        warnings=[*map(str, release.warnings)],
        leak=lambda: release.experiment.data.leak,
        ci=partial(_release_report, release, command),
    )


def _release_screen(release: Release) -> Brief:
    """Return the requirements, those that decide first, and the items that decide.

    These are the surest wrong answers: to items that the run before answers correctly, if any.
    """
    left, names, in_all = release.judged[_MOST_ROWS:], release.names, release.wrong_in_all
    lines: list[Line] = []
    if left:
        counts = Counter(judged.test.finding for judged in left)
        listed = ", ".join(f"{n:,} {finding}" for finding, n in counts.items())
        lines.append(Line(f"More requirements: {listed}. --json lists all.", "faint"))
    if release.spending is not None:
        lines.append(Line(f"Requests: {one_line(release.spending.words(*names))}."))
    what = f"Only {names[1]} right" if names[1:] else "Wrong answers"
    surest = f", the surest of {names[0]} first" if len(release.wrong) < in_all else ""
    lines.append(Line(one_line(f"{what}: {in_all:,}{surest}.")))
    lines += [Line(one_line(f"  {item.words}")) for item in release.wrong]
    table = make_table(
        "requirements",
        release.judged[:_MOST_ROWS],
        (Column("required", "left"), lambda one: one.name),
        (Column("value", "left"), lambda one: one.value),
        (
            Column("result", "left"),
            lambda one: Cell(one.result, tone=_TONES.get(one.test.finding)),
        ),
        bare=True,
    )
    return Brief(tables=[table], lines=lines)


def _json(release: Release) -> dict[str, Json]:
    experiment = release.experiment
    settings, places = experiment.settings, [run.place for run in experiment.runs]
    judged: list[Json] = [
        {
            "required": one.requirement.words,
            **attributes(one.requirement, "metric", "bound", "than_before"),
            "group": one.group,
            **attributes(one.test, "finding", "reason"),
            **attributes(one.test, adjusted_p_value="p_value", clusters_needed="needed"),
            "estimate": to_json(one.estimate),
        }
        for one in release.judged
    ]
    spending = release.spending
    return {
        "answer": answer_json([experiment.data]) | {"release": release.answer},
        "verdict": release.verdict,
        "new": places[0],
        "old": places[1] if places[1:] else None,
        "decoding": {**settings.label},
        "intervals": GENERALISATION[settings.unit],
        "by": release.by or None,
        "requirements": judged,
        **({} if spending is None else {"spending": spending_json(spending)}),
        **attributes(release, items="wrong", items_in_all="wrong_in_all"),
        "warnings": warnings_json(release.warnings),
    }


def _release_report(release: Release, command: str) -> CiReport:
    """Return the cases for CI: the data, and each requirement."""
    file = release.new.folder / PROVENANCE_NAME
    cases = [data_case(release.experiment.data, file)]
    for one in release.judged:
        text = f"{one.value}: {one.result}"
        cases.append(judged_case("requirement", one.name, STATUS_OF[one.test.finding], text, file))
    return gate_report(command, release.answer, cases, map(str, release.warnings))
