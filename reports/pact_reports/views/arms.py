"""Arms compared over their seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, cast

from pact_eval._json import Json
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.arms.comparison import (
    Arm,
    ArmDifference,
    ArmPair,
    ArmsComparison,
    ArmSummary,
)
from pact_eval.evaluation.conclusions.better import BetterConclusion
from pact_eval.evaluation.conclusions.headline import ArmConclusions, conclude_arms, headline
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.notes import named
from pact_eval.evaluation.registry import MetricSpec, find_metric, metric_spec
from pact_eval.evaluation.run_records import NO_TEXTS, ItemTexts
from pact_eval.evaluation.wrong_items import differing_items
from pact_eval.numbers import generalisation_text, sample_text, value_text
from pact_eval.plain_text import one_line, short_names
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
from pact_reports.tables.cells import STANDING_LEGEND, chance_text, mean_cell
from pact_reports.tables.item_lists import advice_on_texts, differing_parts
from pact_reports.views.brief import MOST_LINES, Brief, Fact, beside, data_fact, worst_tone
from pact_reports.views.comparison import (
    NO_LEGEND,
    UNITS_AND_NOISE,
    adjusted_text,
    cautions,
    claims_table,
    difference_facts,
    marked_difference,
    more_text,
    p_value_or_dash,
    present_compared,
    shown_text,
    unusual_decoding,
)
from pact_reports.views.presenter import Presenter
from pact_reports.views.report import has_row, titled
from pact_reports.writers.json import attributes, to_json


def present_arms(
    experiment: Experiment,
    names: ArmNames,
    *,
    items: int = 0,
    texts: ItemTexts = NO_TEXTS,
) -> Presenter:
    """Present the first arm of an experiment compared with each of the others.

    Args:
        experiment: runs of several arms.
        names: display names of arms.
        items: number of items to list, by seed, that only one of two arms answers correctly.
        texts: texts of the items.
    """

    def listed() -> Iterator[Part]:
        for pair in experiment.comparisons.of_arms.pairs if items else ():
            yield from _differing(experiment, pair, texts, items, names)
        yield from advice_on_texts(known=bool(texts.records)) if items else ()

    return replace(
        present_compared(
            experiment,
            lambda: experiment.comparisons.better_arms,
            lambda: {"arms": _json(experiment.comparisons.of_arms, names)},
        ),
        tables=lambda: arms_parts(experiment.comparisons.of_arms, names),
        headline=lambda: [headline(experiment, names)],
        first=partial(_brief, experiment, names, items=items > 0),
        listed=listed,
    )


def _json(comparison: ArmsComparison, names: ArmNames) -> dict[str, Json]:
    """Return arms by name, with `arm_name` next to the key `name`, and their pairs."""
    values = cast("dict[str, Json]", to_json(comparison))
    return values | {"arms": [_arm(arm, names) for arm in comparison.arms]}


def _arm(arm: Arm, names: ArmNames) -> Json:
    return {
        "name": arm.name,
        "arm_name": names.arm(arm.name),
        "seeds": [*arm.seeds],
        "summaries": {
            group: {metric: _summary(summary, metric) for metric, summary in summaries.items()}
            for group, summaries in arm.summaries.items()
        },
    }


def _summary(summary: ArmSummary, metric: str) -> Json:
    values = attributes(summary, "mean", "deviation", "reason", "standing")
    chance = attributes(summary, "chance") if find_metric(metric).noise_floor else {}
    return {**values, "n": len(summary.runs), **chance}


_WORST: Final = "; order, probabilities: worst run"


def _brief(experiment: Experiment, names: ArmNames, *, items: bool) -> Brief:
    """Return what is known of arms, at most twelve lines, and one more for each beyond three.

    Order and probabilities of an arm are those of its worst run.

    Args:
        experiment: runs of two or more arms on the same items.
        names: display names of arms.
        items: whether the items that only one of two arms answers correctly follow.
    """
    conclusions = experiment.comparisons.better_arms
    arms = conclude_arms(experiment)
    comparison = experiment.comparisons.of_arms
    two = len(arms) == len("AB")
    return Brief(
        cautions=[*cautions(experiment)],
        facts=[
            data_fact(experiment.data),
            *(_facts_of_two(conclusions[0], arms, names) if two else ()),
            Fact("seeds", _shared_seeds(conclusions, arms)),
            Fact("sample", _sample(experiment) + ("" if two else f"; {shown_text(conclusions)}")),
        ],
        notes=[named(note, names) for note in comparison.notes],
        more=more_text(items=items),
        tables=() if two else [_brief_table(conclusions, arms, names)],
        most=MOST_LINES + len(conclusions) - 1 - (not two),
    )


def _facts_of_two(
    conclusion: BetterConclusion, arms: Sequence[ArmConclusions], names: ArmNames
) -> Iterator[Fact]:
    """Write order, probabilities, means and differences of two arms, the better arm first."""
    turned = conclusion.better_first
    pair = sorted(arms, key=lambda arm: arm.arm != turned.left)
    called = short_names([names.arm(arm.arm) for arm in pair])
    orders, probabilities = [arm.order for arm in pair], [arm.probabilities for arm in pair]
    yield Fact("order", beside(called, [one.mark for one in orders]), worst_tone(orders))
    marks = [one.mark for one in probabilities]
    yield Fact("probabilities", beside(called, marks), worst_tone(probabilities))
    means = (f"{name} {_mean(arm)}%" for name, arm in zip(called, pair, strict=True))
    yield Fact("accuracy", ", ".join(means))
    yield from difference_facts(turned)


def _mean(arm: ArmConclusions) -> str:
    return mean_cell(arm.accuracy, metric_spec("accuracy")).text


def _shared_seeds(conclusions: Sequence[BetterConclusion], arms: Sequence[ArmConclusions]) -> str:
    """Say how many seeds the differences are over, and what of several runs is shown."""
    compared = [conclusion for conclusion in conclusions if conclusion.claims]
    counts = sorted({conclusion.seeds for conclusion in compared})
    scopes = dict.fromkeys(filter(None, (one.generalises_to for one in compared)))
    if not counts:
        return ""
    shared = f"{' or '.join(map(str, counts))} shared"
    tested = f"; tested for {', or '.join(scopes)}" if scopes else ""
    shown = "" if all(len(arm.seeds) == 1 for arm in arms) else _WORST
    return f"{shared}{tested}{shown}"


def _sample(experiment: Experiment) -> str:
    """Name the items that all runs have, and how they are decoded."""
    decoding = unusual_decoding(experiment)
    for pair in experiment.comparisons.of_arms.pairs:
        for comparison in pair.seeds.values():
            group = comparison.groups[0]
            return f"{sample_text(group.items, group.clusters, comparison.unit)}{decoding}"
    return decoding.removeprefix("; ")


def _brief_table(
    conclusions: Sequence[BetterConclusion], arms: Sequence[ArmConclusions], names: ArmNames
) -> Table:
    """Lay out the arms: accuracy, its difference from the first arm's, order, probabilities."""
    facts = {
        "seeds": [str(len(arm.seeds)) for arm in arms],
        "accuracy": [_mean(arm) for arm in arms],
    }
    called = [names.arm(arm.arm) for arm in arms]
    words = ((arm.order, arm.probabilities) for arm in arms)
    return claims_table("arm", called, facts, conclusions, words)


def arms_parts(comparison: ArmsComparison, names: ArmNames = KEYS) -> tuple[Part, ...]:
    """Lay out arms over seeds.

    Args:
        comparison: the arms.
        names: display names of arms.

    Returns:
        Means and deviations, with the best arm of each metric or those that are tied; then the
        first arm against each of the others, over seeds and families; what the marks mean. These
        tables have the same rows: every metric of all items, then accuracy by group.
    """
    pairs = [pair for pair in comparison.pairs if pair.seeds]
    parts: list[Part] = [_arms_table(comparison, names)]
    for pair in pairs:
        a, b = names.arm(pair.a), names.arm(pair.b)
        parts.append(Line(one_line(f"A = {a}, B = {b}; {_signs(len(pair.seeds))}"), "strong"))
        parts.append(_arm_differences_table(comparison, pair, f"{a} - {b}"))
    notes = (str(named(note, names)) for note in comparison.notes)
    parts += [Line(f"Note: {note}", "caution") for note in notes]
    tests = (pair.differences["all"]["accuracy"].evidence.tests for pair in pairs)
    how = f"p at most 0.05{adjusted_text(max(tests, default=0))}"
    marks: tuple[tuple[Mark, str], ...] = (
        ("significant", f"the difference is shown ({how})"),
        *STANDING_LEGEND,
    )
    return (*parts, Legend(marks, UNITS_AND_NOISE))


def _rows(
    comparison: ArmsComparison, cells: Callable[[str, MetricSpec], Iterable[Cell]]
) -> tuple[Row, ...]:
    """Return a row per metric of all items, and below a rule one of accuracy per group.

    Args:
        comparison: the arms.
        cells: makes those of a group and a metric.
    """
    summaries = [arm.summaries["all"] for arm in comparison.arms]
    specs = [
        spec
        for spec in map(metric_spec, summaries[0])
        if has_row(spec, [of_arm[spec.name].mean for of_arm in summaries])
    ]
    accuracy = metric_spec("accuracy")
    rows = [table_row(titled(spec), *cells("all", spec)) for spec in specs]
    rows += [
        table_row(f"{titled(accuracy)}, {group}", *cells(group, accuracy), rule=not at)
        for at, group in enumerate(comparison.groups[1:])
    ]
    return tuple(rows)


def _differing(
    experiment: Experiment, pair: ArmPair, texts: ItemTexts, items: int, names: ArmNames
) -> Iterator[Part]:
    """List the items that only one of two arms answers correctly, by seed."""
    arm_names, views = (names.arm(pair.a), names.arm(pair.b)), experiment.runs[0].predictions
    for seed, comparison in pair.seeds.items():
        listed = differing_items(comparison.differing, views, texts, items)
        where = f"{_seed(seed).capitalize()}: "
        yield from differing_parts(comparison, listed, arm_names, where)


def _arms_table(comparison: ArmsComparison, names: ArmNames) -> Table:
    columns = [Column(names.arm(arm.name), "left", below=_seeds(arm)) for arm in comparison.arms]
    return Table(
        name="arms",
        title="Arms",
        caption="Mean over seeds ± sample standard deviation. "
        + generalisation_text(comparison.unit),
        columns=(Column("", "left"), *columns),
        rows=_rows(comparison, partial(_summary_cells, comparison)),
        legend=NO_LEGEND,
        keys=1,
    )


def _summary_cells(comparison: ArmsComparison, group: str, spec: MetricSpec) -> Iterator[Cell]:
    for arm in comparison.arms:
        summary = arm.summaries[group][spec.name]
        text = value_text(summary.mean, spec.unit)
        if not math.isnan(summary.deviation):
            text += f" ± {value_text(summary.deviation, spec.unit).lstrip('+')}"
        why = None if math.isfinite(summary.mean) else summary.reason
        below = "" if summary.chance is None else chance_text(summary.chance)
        yield Cell(text, mark=summary.standing, reason=why, below=below)


def _arm_differences_table(comparison: ArmsComparison, pair: ArmPair, named: str) -> Table:
    """Lay out the differences over all seeds.

    Args:
        comparison: the arms.
        pair: two of them.
        named: the difference by the names of the arms.
    """
    seeds = len(pair.seeds)
    return Table(
        name="arm-differences",
        title=f"{named}: one difference over {'one seed' if seeds == 1 else f'{seeds} seeds'}",
        caption=(
            "Mean over shared seeds. The first interval holds these seeds fixed: it is for new "
            "families. The second is for new families and new seeds. Marks and p-values: "
            f"{pair.differences['all']['accuracy'].generalises_to}."
        ),
        columns=(
            Column("A - B", "left"),
            *right_columns("new families, same seeds", "new families and new seeds", "p"),
            Column("same sign", "left"),
        ),
        rows=_rows(
            comparison, lambda group, spec: _difference_cells(pair.differences[group][spec.name])
        ),
        legend=NO_LEGEND,
    )


def _difference_cells(difference: ArmDifference) -> Iterator[Cell]:
    """Yield the cells of a difference between arms; the mark is on the interval behind it."""
    for estimate in (difference.difference, difference.new_seeds):
        marked = difference.marked and estimate is difference.tested
        yield marked_difference(estimate, difference.spec, marked=marked)
    yield Cell(p_value_or_dash(difference.evidence.deciding))
    yield Cell("=" if difference.sign.same else "")


def _signs(seeds: int) -> str:
    if seeds < 2:
        return "one seed has nothing to agree with."
    chance = f"{seeds} seeds do so one time in {2 ** (seeds - 1):,} by chance"
    return f"= marks one sign at every seed ({chance})."


def _seeds(arm: Arm) -> str:
    if arm.seeds == (None,):
        return "no seed"
    return f"seed{'s' if len(arm.seeds) > 1 else ''} {', '.join(map(str, arm.seeds))}"


def _seed(seed: int | None) -> str:
    return "no seed" if seed is None else f"seed {seed}"
