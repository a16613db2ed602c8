"""Arms compared over their seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, cast

from pact_eval._json import Json
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.arms.comparison import Arm, ArmsComparison
from pact_eval.evaluation.conclusions.better import BetterConclusion
from pact_eval.evaluation.conclusions.data import with_leak_warning
from pact_eval.evaluation.conclusions.experiment_conclusions import ArmConclusions, conclude_arms
from pact_eval.evaluation.conclusions.headline import headline_of, sides_of_arms
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.notes import named
from pact_eval.evaluation.registry import find_metric, metric_spec
from pact_eval.evaluation.run_records import NO_TEXTS, ItemTexts
from pact_eval.numbers import sample_text
from pact_eval.plain_text import short_names
from pact_reports.table import (
    Cell,
    Column,
    Part,
    Table,
    left_columns,
    right_columns,
    table_row,
)
from pact_reports.tables.brief_comparison import (
    cautions,
    claim_cells,
    claim_heads,
    difference_facts,
    more_text,
    shown_text,
    unusual_decoding,
)
from pact_reports.tables.cells import mean_cell
from pact_reports.tables.item_lists import advice_on_texts
from pact_reports.views.brief import (
    MOST_LINES,
    Brief,
    Fact,
    beside,
    data_fact,
    tone_of,
    worst_tone,
)
from pact_reports.views.comparison import arms_parts, experiment_json, heading, pair_items
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import answer_json, to_json


def present_arms_comparison(comparison: ArmsComparison) -> Presenter:
    """Present arms over seeds."""
    return Presenter(
        tables=partial(arms_parts, comparison),
        to_json=lambda: _json(comparison, KEYS),
    )


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

    def headline() -> Iterator[str]:
        yield arms_headline(experiment, names)

    def answers() -> Iterator[str]:
        leak = experiment.data.leak
        for conclusion in experiment.comparisons.better_arms:
            yield str(with_leak_warning(conclusion.named(names).words, leak))

    def tables() -> Iterable[Part]:
        return (*heading(experiment), *arms_parts(experiment.comparisons.of_arms, names))

    def listed() -> Iterator[Part]:
        for pair in experiment.comparisons.of_arms.pairs if items else ():
            yield from pair_items(experiment, pair, texts, items, names)
        yield from advice_on_texts(known=bool(texts.records)) if items else ()

    return Presenter(
        tables=tables,
        to_json=lambda: {
            "answer": answer_json([experiment.data], experiment.comparisons.better_arms),
            **experiment_json(experiment),
            "arms": _json(experiment.comparisons.of_arms, names),
        },
        warnings=[*map(str, experiment.applied_warnings)],
        answers=answers,
        leak=lambda: experiment.data.leak,
        headline=headline,
        first=partial(brief_arms, experiment, names, items=items > 0),
        retold=True,
        listed=listed,
    )


def _json(comparison: ArmsComparison, names: ArmNames) -> dict[str, Json]:
    """Return arms by name, with `arm_name` next to the key `name`, their pairs and standings."""
    return cast("dict[str, Json]", to_json(comparison)) | {
        "arms": [_arm(arm, names) for arm in comparison.arms],
        "standings": to_json(comparison.standings),
    }


def _arm(arm: Arm, names: ArmNames) -> Json:
    return {
        "name": arm.name,
        "arm_name": names.arm(arm.name),
        "seeds": [*arm.seeds],
        "summaries": {
            group: {
                metric: {
                    "mean": to_json(summary.mean),
                    "deviation": to_json(summary.deviation),
                    "n": len(summary.runs),
                    "reason": summary.reason,
                }
                for metric, summary in summaries.items()
            }
            for group, summaries in arm.summaries.items()
        },
        "chance": {
            group: {
                metric: to_json(summary.chance)
                for metric, summary in summaries.items()
                if find_metric(metric).noise_floor
            }
            for group, summaries in arm.summaries.items()
        },
    }


_LONGEST_NAME: Final = 20
_WORST: Final = "; order, probabilities: worst run"


def brief_arms(experiment: Experiment, names: ArmNames = KEYS, *, items: bool = False) -> Brief:
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
            Fact("seeds", _seeds(conclusions, arms)),
            Fact("sample", _sample(experiment) + ("" if two else f"; {shown_text(conclusions)}")),
        ],
        notes=[named(note, names) for note in comparison.notes],
        more=more_text(items=items),
        tables=() if two else [_arms_table(conclusions, arms, names)],
        most=MOST_LINES + len(conclusions) - 1 - (not two),
    )


def arms_headline(experiment: Experiment, names: ArmNames = KEYS) -> str:
    """Write the first line on the first arm and the others; see `headline_of`."""
    conclusions = experiment.comparisons.better_arms
    sides = sides_of_arms(experiment, names, conclusions[0].left)
    return headline_of(experiment, sides, conclusions, names)


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


def _seeds(conclusions: Sequence[BetterConclusion], arms: Sequence[ArmConclusions]) -> str:
    """Say how many seeds the differences are over, and what of several runs is shown."""
    compared = [conclusion for conclusion in conclusions if conclusion.claims]
    counts = sorted({conclusion.seeds for conclusion in compared})
    scopes = dict.fromkeys(conclusion.generalises_to for conclusion in compared)
    if not counts:
        return ""
    number = " or ".join(map(str, counts))
    shown = "" if all(len(arm.seeds) == 1 for arm in arms) else _WORST
    return f"{number} shared; tested for {', or '.join(scopes)}{shown}"


def _sample(experiment: Experiment) -> str:
    """Name the items that all runs have, and how they are decoded."""
    decoding = unusual_decoding(experiment)
    for pair in experiment.comparisons.of_arms.pairs:
        for comparison in pair.seeds.values():
            group = comparison.groups[0]
            return f"{sample_text(group.items, group.clusters, comparison.unit)}{decoding}"
    return decoding.removeprefix("; ")


def _arms_table(
    conclusions: Sequence[BetterConclusion], arms: Sequence[ArmConclusions], names: ArmNames
) -> Table:
    """Lay out the arms: accuracy, its difference from the first arm's, order, probabilities."""
    called = short_names([names.arm(arm.arm) for arm in arms], _LONGEST_NAME)
    heads, differences = claim_heads(conclusions), claim_cells(conclusions)
    return Table(
        name="arms",
        columns=(
            Column("arm", "left"),
            *right_columns("seeds", "accuracy"),
            *(Column(head.format(f"{called[0]} - arm"), "left") for head in heads),
            *left_columns("order", "probabilities"),
        ),
        rows=tuple(
            table_row(
                name,
                str(len(arm.seeds)),
                _mean(arm),
                *texts,
                Cell(arm.order.word, tone=tone_of(arm.order)),
                Cell(arm.probabilities.word, tone=tone_of(arm.probabilities)),
            )
            for name, arm, texts in zip(called, arms, differences, strict=True)
        ),
        bare=True,
    )
