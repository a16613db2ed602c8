"""Arms compared over their seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from pact_eval._json import Json
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.arms.arm_differences import (
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
from pact_reports.table import Cell, Column, Legend, Line, Part, Table, make_table
from pact_reports.tables.cells import STANDING_LEGEND, chance_text, mean_cell
from pact_reports.tables.item_lists import advice_on_texts, differing_parts
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
from pact_reports.views.presenter import (
    MOST_LINES,
    Brief,
    Fact,
    Presenter,
    beside,
    data_fact,
    worst_tone,
)
from pact_reports.views.report import has_row, titled
from pact_reports.writers.json import attributes, members


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
        if not items:
            return
        views = experiment.runs[0].predictions
        for pair in experiment.comparisons.of_arms.pairs:
            for seed, comparison in pair.seeds.items():
                shown = differing_items(comparison.differing, views, texts, items)
                where = "No seed: " if seed is None else f"Seed {seed}: "
                called = (names.arm(pair.a), names.arm(pair.b))
                yield from differing_parts(comparison, shown, called, where)
        yield from advice_on_texts(known=bool(texts.records))

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

    def summary(value: ArmSummary, metric: str) -> Json:
        chance = attributes(value, "chance") if find_metric(metric).noise_floor else {}
        values = attributes(value, "mean", "deviation", "reason", "standing")
        return values | {"n": len(value.runs)} | chance

    arms: list[Json] = [
        {
            **attributes(arm, "name", "seeds"),
            "arm_name": names.arm(arm.name),
            "summaries": {
                group: {metric: summary(value, metric) for metric, value in of_group.items()}
                for group, of_group in arm.summaries.items()
            },
        }
        for arm in comparison.arms
    ]
    return members(comparison) | {"arms": arms}


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
    several = any(len(arm.seeds) > 1 for arm in arms)
    return f"{shared}{tested}{'; order, probabilities: worst run' if several else ''}"


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
    words = [(arm.order, arm.probabilities) for arm in arms]
    return claims_table("arm", called, facts, conclusions, words)


def arms_parts(comparison: ArmsComparison, names: ArmNames = KEYS) -> Iterator[Part]:
    """Lay out arms over seeds.

    Args:
        comparison: the arms.
        names: display names of arms.

    Yields:
        Means and deviations, with the best arm of each metric or those that are tied; then the
        first arm against each of the others, over seeds and families; what the marks mean. These
        tables have the same rows: every metric of all items, then accuracy by group.
    """
    rows = _rows(comparison)
    yield _arms_table(comparison, rows, names)
    tests = 0
    for pair in comparison.pairs:
        if not pair.seeds:
            continue
        tests = max(tests, pair.differences["all"]["accuracy"].evidence.tests)
        a, b, seeds = names.arm(pair.a), names.arm(pair.b), len(pair.seeds)
        signs = "one seed has nothing to agree with."
        if seeds > 1:
            chance = f"{seeds} seeds do so one time in {2 ** (seeds - 1):,} by chance"
            signs = f"= marks one sign at every seed ({chance})."
        yield Line(one_line(f"A = {a}, B = {b}; {signs}"), "strong")
        yield _arm_differences_table(pair, rows, f"{a} - {b}")
    for note in comparison.notes:
        yield Line(f"Note: {named(note, names)}", "caution")
    shown = f"the difference is shown (p at most 0.05{adjusted_text(tests)})"
    yield Legend((("significant", shown), *STANDING_LEGEND), UNITS_AND_NOISE)


_Row = tuple[str, MetricSpec]
"""Name of a group, and a metric."""


def _rows(comparison: ArmsComparison) -> list[_Row]:
    """Return every metric of all items, then accuracy by group."""
    summaries = [arm.summaries["all"] for arm in comparison.arms]
    rows = [
        ("all", spec)
        for spec in map(metric_spec, summaries[0])
        if has_row(spec, [of_arm[spec.name].mean for of_arm in summaries])
    ]
    return rows + [(group, metric_spec("accuracy")) for group in comparison.groups[1:]]


def _row_title(row: _Row) -> str:
    group, spec = row
    return titled(spec) if group == "all" else f"{titled(spec)}, {group}"


def _arms_table(comparison: ArmsComparison, rows: Sequence[_Row], names: ArmNames) -> Table:
    def column(arm: Arm) -> Column:
        seeds = f"seed{'s' if len(arm.seeds) > 1 else ''} {', '.join(map(str, arm.seeds))}"
        below = "no seed" if arm.seeds == (None,) else seeds
        return Column(names.arm(arm.name), "left", below=below)

    def cell(row: _Row, arm: Arm) -> Cell:
        group, spec = row
        summary = arm.summaries[group][spec.name]
        text = value_text(summary.mean, spec.unit)
        if not math.isnan(summary.deviation):
            text += f" ± {value_text(summary.deviation, spec.unit).lstrip('+')}"
        why = None if math.isfinite(summary.mean) else summary.reason
        below = "" if summary.chance is None else chance_text(summary.chance)
        return Cell(text, mark=summary.standing, reason=why, below=below)

    return make_table(
        "arms",
        rows,
        (Column("", "left"), _row_title),
        *((column(arm), partial(cell, arm=arm)) for arm in comparison.arms),
        rule=lambda row: row[0] == "all",
        title="Arms",
        caption="Mean over seeds ± sample standard deviation. "
        + generalisation_text(comparison.unit),
        legend=NO_LEGEND,
        keys=1,
    )


def _arm_differences_table(pair: ArmPair, rows: Sequence[_Row], called: str) -> Table:
    """Lay out the differences over all seeds.

    Args:
        pair: two arms.
        rows: groups and metrics.
        called: the difference by the names of the arms.
    """

    def difference(row: _Row) -> ArmDifference:
        return pair.differences[row[0]][row[1].name]

    def interval(row: _Row, name: Literal["difference", "new_seeds"]) -> Cell:
        """Return one of the intervals; the mark is on that which decides."""
        of_row = difference(row)
        estimate = getattr(of_row, name)
        marked = of_row.marked and estimate is of_row.tested
        return marked_difference(estimate, of_row.spec, marked=marked)

    seeds = len(pair.seeds)
    return make_table(
        "arm-differences",
        rows,
        (Column("A - B", "left"), _row_title),
        ("new families, same seeds", partial(interval, name="difference")),
        ("new families and new seeds", partial(interval, name="new_seeds")),
        ("p", lambda row: p_value_or_dash(difference(row).evidence.deciding)),
        (Column("same sign", "left"), lambda row: "=" if difference(row).sign.same else ""),
        rule=lambda row: row[0] == "all",
        title=f"{called}: one difference over {'one seed' if seeds == 1 else f'{seeds} seeds'}",
        caption=(
            "Mean over shared seeds. The first interval holds these seeds fixed: it is for new "
            "families. The second is for new families and new seeds. Marks and p-values: "
            f"{pair.differences['all']['accuracy'].generalises_to}."
        ),
        legend=NO_LEGEND,
    )
