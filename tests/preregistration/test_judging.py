"""Judging: relations, seeds, missing data, evidence, and what must not change a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import assert_says
from preregistration.checks import BASE, row

from pact_eval.evaluation.arms.arm_differences import Margin
from pact_eval.evaluation.arms.arm_metrics import MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.registry import ENSEMBLE, SINGLE, MetricDecoding
from pact_eval.preregistration.criteria import (
    Check,
    Hypotheses,
    Hypothesis,
    Instead,
    Relation,
)
from pact_eval.preregistration.run_scorecard import holds, judge
from pact_eval.preregistration.scorecard import JudgedCheck

OPPOSITE: dict[Relation, Relation] = {
    "higher": "not higher",
    "not higher": "higher",
    "lower": "not lower",
    "not lower": "lower",
}
Values = (
    Mapping[tuple[str, int], float]
    | Mapping[tuple[str, None], float]
    | Mapping[tuple[str, int | None], float]
)


def rows(
    values: Values, *, metric: str = "accuracy", decoding: MetricDecoding = SINGLE
) -> list[MetricRow]:
    return [
        row(arm, value, seed=seed, metric=metric, decoding=decoding)
        for (arm, seed), value in values.items()
    ]


def result_of(check: Check, table: MetricTable) -> JudgedCheck:
    hypotheses = Hypotheses((Hypothesis("H", "t", "c", (check,)),))
    return judge(hypotheses, table)["H"].checks[0]


@pytest.mark.parametrize(
    ("relation", "margin", "difference", "expected"),
    [
        ("higher", 0.0, 0.001, True),
        ("higher", 0.0, 0.0, False),
        ("higher", 2.0, 0.02, False),
        ("higher", 2.0, 0.021, True),
        ("lower", 0.0, -0.001, True),
        ("lower", 0.0, 0.0, False),
        ("lower", 2.0, -0.01, False),
        ("not higher", 0.0, 0.0, True),
        ("not higher", 0.0, 0.001, False),
        ("not higher", 2.0, 0.02, True),
        ("not lower", 2.0, -0.02, True),
        ("not lower", 2.0, -0.021, False),
        ("similar", 2.0, 0.02, True),
        ("similar", 2.0, -0.0201, False),
        ("similar", 0.0, 1e-15, True),
        ("higher", 0.0, 1e-15, False),
        ("higher", 0.0, math.inf, True),
        ("similar", 2.0, math.inf, False),
    ],
)
def test_relations_by_hand(
    relation: Relation, margin: float, difference: float, expected: bool
) -> None:
    assert holds(relation, Margin(margin, "points"), difference) is expected


@given(st.sampled_from(sorted(OPPOSITE)), st.floats(0, 5), st.floats(-1, 1))
def test_a_relation_or_its_opposite_holds(
    relation: Literal["higher", "lower", "not higher", "not lower"],
    amount: float,
    difference: float,
) -> None:
    margin = Margin(amount, "points")
    assert holds(relation, margin, difference) != holds(OPPOSITE[relation], margin, difference)


def test_matched_seeds_are_those_that_both_arms_have() -> None:
    values = {("a", 17): 0.8, ("a", 18): 0.7, ("a", 19): 0.1, ("b", 17): 0.7, ("b", 18): 0.8}
    result = result_of(BASE, MetricTable(rows(values)))
    assert [comparison.seeds for comparison in result.comparisons] == [(17,), (18,)]
    assert [comparison.holds for comparison in result.comparisons] == [True, False]
    assert result.comparisons[0].difference == pytest.approx(0.1)
    assert result.outcomes == {"mixed"}
    assert_says(result.summary, "holds in 1 of 2", "fails in 1")


def test_means_may_say_what_seeds_do_not() -> None:
    values = {("a", 17): 0.9, ("a", 18): 0.7, ("b", 17): 0.7, ("b", 18): 0.8}
    result = result_of(replace(BASE, judged_on="means"), MetricTable(rows(values)))
    (comparison,) = result.comparisons
    assert comparison.seeds == (17, 18)
    assert (comparison.left.value, comparison.right.value) == (0.8, 0.75)
    assert [row.value for row in comparison.left.rows] == [0.9, 0.7]
    assert result.outcomes == {"holds"}


def test_a_registered_seed_that_is_missing_is_lacking_data() -> None:
    values = {("a", 17): 0.9, ("a", 18): 0.9, ("b", 17): 0.7, ("b", 18): 0.8}
    table = MetricTable(rows(values))
    matched = result_of(replace(BASE, seeds=(17, 18, 19)), table)
    assert [comparison.holds for comparison in matched.comparisons] == [True, True, None]
    assert matched.outcomes == {"holds", "lacks"}
    assert_says(matched.summary, "holds in 2 of 2", "1 without data")
    (reason,) = matched.reasons
    assert_says(reason, "a has no run", "seed 19", "17, 18", "b has no run", "seed 19", "17, 18")
    means = result_of(replace(BASE, seeds=(17, 18, 19), judged_on="means"), table)
    assert means.outcomes == {"lacks"}
    assert math.isnan(means.comparisons[0].difference)


def test_seeds_beyond_those_registered_are_not_looked_at() -> None:
    values = {("a", 17): 0.9, ("a", 18): 0.1, ("b", 17): 0.7, ("b", 18): 0.8}
    assert result_of(replace(BASE, seeds=(17,)), MetricTable(rows(values))).outcomes == {"holds"}


def test_a_base_model_stands_beside_every_seed() -> None:
    values = {("a", 17): 0.9, ("a", 18): 0.5, ("b", None): 0.7}
    result = result_of(BASE, MetricTable(rows(values)))
    assert [(comparison.seeds, comparison.holds) for comparison in result.comparisons] == [
        ((17,), True),
        ((18,), False),
    ]
    two_models = {("a", None): 0.9, ("b", None): 0.7}
    (comparison,) = result_of(BASE, MetricTable(rows(two_models))).comparisons
    assert (comparison.seeds, comparison.holds) == ((None,), True)


def test_runs_that_do_not_say_their_seed_do_not_stand_for_registered_ones() -> None:
    two_models = {("a", None): 0.9, ("b", None): 0.7}
    result = result_of(replace(BASE, seeds=(17, 18)), MetricTable(rows(two_models)))
    (reason,) = result.reasons
    assert_says(reason, "a or b says its seed", "17, 18")


def test_a_run_without_a_seed_beside_seeded_ones_is_not_used() -> None:
    values = {("a", 17): 0.9, ("a", None): 0.1, ("b", 17): 0.7, ("b", None): 0.7}
    (comparison,) = result_of(BASE, MetricTable(rows(values))).comparisons
    assert (comparison.seeds, comparison.holds) == ((17,), True)


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (replace(BASE, arms=("c",)), "no run of c (there are a, b)"),
        (replace(BASE, than=Instead(arm="c")), "no run of c (there are a, b)"),
        (replace(BASE, seeds=(17,), than=Instead(arm="c")), "no run of c (there are a, b)"),
        (
            replace(BASE, decodings=(ENSEMBLE,)),
            "no ensemble numbers of a seed 17 (there are single); "
            "no ensemble numbers of b seed 17 (there are single)",
        ),
        (
            replace(BASE, groups=("score",)),
            "no group score of a seed 17 (there are all); "
            "no group score of b seed 17 (there are all)",
        ),
        (
            replace(BASE, metric="ece", minus=Instead(metric="accuracy")),
            "no ece of a seed 17 (single, all); no ece of b seed 17 (single, all)",
        ),
    ],
    ids=["arm", "other arm", "arm at a seed", "decoding", "group", "metric"],
)
def test_what_is_missing_is_named(check: Check, reason: str) -> None:
    table = MetricTable(rows({("a", 17): 0.9, ("b", 17): 0.7}))
    result = result_of(check, table)
    assert result.outcomes == {"lacks"}
    assert result.reasons == (reason,)
    assert result.summary == "lacks data"


def test_arms_without_a_common_seed() -> None:
    table = MetricTable(rows({("a", 17): 0.9, ("b", 18): 0.7}))
    result = result_of(BASE, table)
    (reason,) = result.reasons
    assert_says(reason, "no seed in common", "a 17", "b 18")
    assert result.comparisons[0].seeds == ()


def test_undefined_is_absent_with_its_reason() -> None:
    table = MetricTable(
        [
            MetricRow(MetricCell("accuracy", "a", SINGLE, "all"), 17, math.nan, reason="no items"),
            MetricRow(MetricCell("accuracy", "b", SINGLE, "all"), 17, 0.5),
        ]
    )
    result = result_of(BASE, table)
    (reason,) = result.reasons
    assert_says(reason, "accuracy of a seed 17", "(single, all)", "no items")
    assert result.comparisons[0].holds is None


def test_infinite_values_compare_unless_both_are() -> None:
    check = replace(BASE, metric="nll_nats")
    one = rows({("a", 17): math.inf, ("b", 17): 0.7}, metric="nll_nats")
    assert result_of(check, MetricTable(one)).outcomes == {"holds"}
    both = rows({("a", 17): math.inf, ("b", 17): math.inf}, metric="nll_nats")
    result = result_of(check, MetricTable(both))
    (reason,) = result.reasons
    assert_says(reason, "difference", "infinite numbers")
    means = rows({("a", 17): math.inf, ("a", 18): 1, ("b", 17): 1, ("b", 18): 1}, metric="nll_nats")
    mean = result_of(replace(check, judged_on="means"), MetricTable(means)).comparisons[0]
    assert (mean.left.value, mean.holds) == (math.inf, True)


def test_lists_ask_of_each_member() -> None:
    table = MetricTable(
        [
            *rows({("a", 17): 0.9, ("c", 17): 0.6, ("b", 17): 0.7}),
            *rows({("a", 17): 0.8, ("c", 17): 0.9, ("b", 17): 0.7}, decoding=ENSEMBLE),
        ]
    )
    result = result_of(replace(BASE, arms=("a", "c"), decodings=(SINGLE, ENSEMBLE)), table)
    members = [
        (comparison.question.left.cell.arm, comparison.holds) for comparison in result.comparisons
    ]
    assert members == [("a", True), ("c", False), ("a", True), ("c", True)]
    assert result.outcomes == {"mixed"}


def test_falls_by_more_is_a_difference_of_differences() -> None:
    table = MetricTable(
        [
            *rows({("a", 17): 0.80, ("b", 17): 0.84}),
            *rows({("a", 17): 0.60, ("b", 17): 0.70}, metric="pair_accuracy"),
        ]
    )
    check = replace(
        BASE,
        metric="pair_accuracy",
        minus=Instead(arm="b"),
        relation="lower",
        than=Instead(metric="accuracy"),
    )
    (comparison,) = result_of(check, table).comparisons
    assert comparison.left.value == pytest.approx(-0.10)
    assert comparison.right.value == pytest.approx(-0.04)
    assert comparison.difference == pytest.approx(-0.06)
    assert comparison.holds
    question = str(comparison.question.right)
    assert_says(question, "accuracy of a (single, all)", "minus", "accuracy of b (single, all)")


def test_rows_beside_the_verdict_decide_nothing() -> None:
    table = MetricTable(rows({("a", 17): 0.9, ("b", 17): 0.7}))
    against = replace(BASE, says="b above a", relation="lower")
    hypothesis = Hypothesis("H", "t", "c", (BASE,), beside=(against,))
    result = judge(Hypotheses((hypothesis,)), table)["H"]
    assert result.verdict == "SUPPORTED"
    assert result.because == "of 1 check, 1 holds"
    assert result.beside[0].summary == "fails"


seeds_strategy = st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True)


@given(seeds_strategy, st.data())
def test_order_of_rows_and_names_of_seeds_change_nothing(
    seeds: list[int], data: st.DataObject
) -> None:
    values = {
        (arm, seed): data.draw(st.integers(0, 20).map(lambda level: level / 20))
        for arm in "ab"
        for seed in seeds
    }
    check = replace(BASE, judged_on=data.draw(st.sampled_from(["matched", "means"])))
    plain = rows(values)
    shuffled = data.draw(st.permutations(plain))
    names = dict(zip(seeds, data.draw(st.permutations(range(100, 100 + len(seeds)))), strict=True))
    renamed = [replace(row, seed=names[row.seed]) for row in plain if row.seed is not None]
    results = [
        result_of(check, MetricTable(table_rows)) for table_rows in (plain, shuffled, renamed)
    ]
    assert len({result.outcomes for result in results}) == 1
    assert (
        len(
            {
                frozenset(comparison.difference for comparison in result.comparisons)
                for result in results
            }
        )
        == 1
    )


@given(seeds_strategy, st.sampled_from(["matched", "means"]), st.data())
def test_the_other_direction_of_a_supported_check_is_contradicted(
    seeds: list[int], judged_on: Literal["matched", "means"], data: st.DataObject
) -> None:
    values = {
        (arm, seed): data.draw(st.integers(low, low + 9).map(lambda level: level / 20))
        for arm, low in (("a", 10), ("b", 0))
        for seed in seeds
    }
    table = MetricTable(rows(values))
    verdicts = {}
    for relation in ("higher", "lower", "not lower", "not higher"):
        check = replace(BASE, relation=relation, judged_on=judged_on)
        hypotheses = Hypotheses((Hypothesis("H", "t", "c", (check,)),))
        verdicts[relation] = judge(hypotheses, table).verdicts["H"]
    assert verdicts["higher"] == verdicts["not lower"] == "SUPPORTED"
    assert verdicts["lower"] == verdicts["not higher"] == "CONTRADICTED"
