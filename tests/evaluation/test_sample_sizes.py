"""Plans of numbers of items: their assumptions, ranges, words, and what they refuse."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
from messages import assert_says

import pact_eval
from pact_eval.errors import InputError
from pact_eval.sample_sizes import SamplePlan, SampleSize, plan_items, typical_items
from pact_eval.thresholds.gates import GateItems, Target, choose_gate

planned = functools.cache(plan_items)
Z_TEST, Z_POWER = 1.959964, 0.841621


def sizes(plan: SamplePlan) -> dict[str, SampleSize]:
    return {size.purpose: size for size in plan.sizes}


def test_a_difference_needs_what_connor_says() -> None:
    """Connor 1987: (z sqrt(psi) + z' sqrt(psi - d^2))^2 / d^2, for many items."""
    size = sizes(planned(2, 85, agree=90))["difference"]
    differing, d = 0.1, 0.02
    root = Z_TEST * math.sqrt(differing) + Z_POWER * math.sqrt(differing - d**2)
    assert size.items == size.groups == pytest.approx(root**2 / d**2, rel=0.01)
    assert size.low == size.items == size.high  # nothing is assumed
    assert size.range_text == ""


def test_an_interval_needs_what_the_normal_approximation_says() -> None:
    """Theory: z^2 p (1 - p) / w^2; 90% and 80% right are the ends of the range."""
    size = sizes(planned(2, 85))["interval"]
    for items, rate in ((size.low, 0.9), (size.items, 0.85), (size.high, 0.8)):
        assert items == pytest.approx(Z_TEST**2 * rate * (1 - rate) / 0.02**2, rel=0.01)


def test_few_right_answers_need_what_few_errors_need() -> None:
    size, mirror = (sizes(planned(5, accuracy))["interval"] for accuracy in (80, 20))
    assert (mirror.low, mirror.items, mirror.high) == (size.low, size.items, size.high)


def test_no_accuracy_needs_more_than_one_half() -> None:
    near_half, half = (sizes(planned(8, accuracy))["interval"] for accuracy in (52, 50))
    assert near_half.high == half.items


def test_groups_cost_their_design_effect() -> None:
    """Kish 1965: 1 + (m - 1) rho times the items, from independent items to copies."""
    single = sizes(planned(5, 80, agree=85))
    groups = sizes(planned(5, 80, agree=85, family_size=3))
    for purpose in ("difference", "margin"):
        items = single[purpose].items or 0
        size = groups[purpose]
        assert size.items == pytest.approx(2 * items, rel=0.02)
        assert (size.low, size.high) == pytest.approx((items, 3 * items), rel=0.02)
        assert size.groups == (size.items or 0) / 3
    alike = planned(5, 80, agree=85, family_size=3, alike=0)
    assert sizes(alike)["difference"].items == pytest.approx(single["difference"].items, rel=0.02)
    assert sizes(alike)["difference"].low == sizes(alike)["difference"].high
    assert alike.group_words.startswith("3 items each")
    assert planned(5, 80, agree=85).group_words == ""


@pytest.mark.parametrize(
    ("accuracy", "differing"),
    [(85, 0.1), (50, 0.1), (96, 2 * 0.96 * 0.04 + 0.02**2 / 2)],
)
def test_two_versions_agree_on_90_percent_unless_independent_ones_agree_more(
    accuracy: float, differing: float
) -> None:
    """Hand computation: p (1 - q) + q (1 - p) of independent errors, p and q 2 points apart."""
    plan = planned(2, accuracy)
    assert 1 - plan.agree == pytest.approx(differing)
    size = sizes(plan)["difference"]
    assert (size.low or 0) < (size.items or 0) <= (size.high or 0)
    assert (
        sizes(planned(2, accuracy, agree=100 * (1 - differing)))["difference"].items == size.items
    )


@pytest.mark.parametrize(("difference", "accuracy", "differing"), [(6, 70, 0.1), (20, 70, 0.3)])
def test_of_a_large_difference_more_items_differ(
    difference: float, accuracy: float, differing: float
) -> None:
    """Hand computation: one and a half times the difference, or 10% of the items."""
    assert 1 - planned(difference, accuracy).agree == pytest.approx(differing)


@pytest.mark.parametrize("seed", range(6))
def test_any_plan_has_rising_numbers(seed: int) -> None:
    """Property: what turns out well needs fewer items, and what turns out badly more."""
    rng = np.random.default_rng(seed)
    accuracy = float(rng.uniform(20, 97))
    most = 2 * min(accuracy, 100 - accuracy)
    plan = planned(
        float(rng.uniform(1.5, 0.95 * most)), accuracy, family_size=int(rng.integers(1, 5))
    )
    for size in plan.sizes:
        assert (size.low or 0) <= (size.items or 0) <= (size.high or math.inf)
        assert size.items == (size.groups or 0) * plan.family_size


def test_the_first_line_and_the_table() -> None:
    plan = planned(2, 85, agree=90, family_size=2)
    first = plan.sizes[0]
    assert_says(
        first.line, "show a difference of 2 points at 85% right", "2,900 items in 1,450 groups"
    )
    text = " ".join(str(plan).split())
    assert text.startswith(first.line)
    for size in plan.sizes:
        assert f"{size.items_text} {size.range_text}" in text
    assert plan.group_words.split(":")[0] in text
    assert "act alone" not in text


def test_python_and_its_json_have_the_same_numbers() -> None:
    plan = pact_eval.plan(5, 80, agree=85, family_size=2)
    assert plan == planned(5, 80, agree=85, family_size=2)
    told = plan.to_json()
    assert told["headline"] == plan.sizes[0].line
    assert [size["items"] for size in told["plan"]["sizes"]] == [size.items for size in plan.sizes]


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        ((0.02, 85), {}, ("--difference 0.02", "2 for 2%")),
        ((2, 0.85), {}, ("--accuracy 0.85", "85 for 85%")),
        ((2, 100), {}, ("--accuracy 100",)),
        ((2, 99.5), {}, ("--accuracy 99.5", "2 points")),
        ((2, 85), {"agree": 0.9}, ("--agree 0.9", "90 for 90%")),
        ((2, 85), {"agree": 99}, ("--agree 99", "70 to 98")),
        ((2, 85), {"agree": 60}, ("--agree 60", "70 to 98")),
        ((2, 85), {"gate_error": 0.05}, ("--gate-error 0.05", "5 for 5%")),
        ((float("nan"), 85), {}, ("--difference nan",)),
        ((2, 85), {"alike": 101}, ("--alike 101",)),
        ((2, 85), {"family_size": 0}, ("--family-size 0",)),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: tuple[float, float], options: dict[str, Any], says: tuple[str, ...]
) -> None:
    with pytest.raises(InputError) as refused:
        plan_items(*arguments, **options)
    assert_says(str(refused.value), *says)


def test_a_preference_that_is_never_named_needs_no_number() -> None:
    size = sizes(plan_items(1, 85))["order"]
    assert (size.items, size.groups, size.low, size.high) == (None, None, None, None)
    assert_says(size.assumes, "1 point")
    assert_says(size.line, "no number of items")
    assert size.items_text == "none"


def test_a_range_without_an_end_is_open() -> None:
    size = SampleSize("gate", "act", 5_000, 5_000, 950, None, "")
    assert size.range_text == "950 or more"


def test_typical_items_are_as_sure_as_the_auroc_says() -> None:
    """Theory: the share of pairs of a right and a wrong answer in which the right one is surer."""
    items = typical_items(0.8, 0.75, 500)
    right, wrong = items.sureness[~items.wrong], items.sureness[items.wrong]
    assert (right[:, None] > wrong).mean() == pytest.approx(0.75, abs=0.005)
    assert items.wrong.mean() == pytest.approx(0.2)
    assert len(set(items.unit)) == len(items) == 500


@pytest.mark.slow
def test_four_of_five_gates_are_found_with_the_planned_groups() -> None:
    """Simulation: 400 draws through the choice of a gate; its standard error is 2%."""
    size = sizes(plan_items(5, 85, gate_error=8))["gate"]
    assert size.items is not None
    assert (size.low or 0) < size.items < (size.high or math.inf)
    rng, found = np.random.default_rng(57), 0
    apart = math.sqrt(2) * 0.841621  # of an AUROC of 0.8
    for draw in range(400):
        wrong = rng.random(size.items) < 0.15
        sureness = rng.standard_normal(size.items) + apart * ~wrong
        names = np.array([f"{draw}/{n}" for n in range(size.items)], dtype=np.object_)
        chosen = choose_gate(
            GateItems(names, names, names, sureness, wrong), Target.of_error(0.08), 0.95
        )
        found += chosen.threshold is not None
    assert 0.74 < found / 400 < 0.88
