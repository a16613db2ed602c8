"""Choosing a gate: by hand, by its design, and by simulation with a known truth."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, rankdata
from thresholds.simulated import items, resampled, true_error, unequal_items

from pact_eval.errors import InputError
from pact_eval.stats.rates import trials_needed
from pact_eval.thresholds.checking import checked_gates
from pact_eval.thresholds.choice import families_needed, surer_is_better
from pact_eval.thresholds.gates import (
    GateItems,
    Target,
    choose_gate,
    expected_cost,
    gate_test,
    starts_of_tests,
)


def made(rng: np.random.Generator, families: int, sizes: tuple[int, ...]) -> GateItems:
    size = rng.choice(sizes, families)
    unit = np.arange(families).repeat(size).astype(np.str_).astype(np.object_)
    ids = np.arange(unit.size).astype(np.str_).astype(np.object_)
    luck = rng.random((2, unit.size))
    return GateItems(ids, unit, unit, luck[0], luck[1] < 0.1, counting="items")


@pytest.mark.parametrize("sizes", [(1,), (2,), (1, 2, 5)])
def test_one_item_of_each_family_and_no_slot_is_preferred(sizes: tuple[int, ...]) -> None:
    gate_items = made(np.random.default_rng(0), 3_000, sizes)
    draw = gate_items.draw
    assert np.bincount(gate_items.units.codes[draw.one]).max() == 1
    # A family of m items is drawn with probability m / M, and any of its items with 1 / M.
    share = draw.one.sum() / len(gate_items) * max(sizes)
    assert share == pytest.approx(1, abs=0.06)
    by_family = replace(gate_items, counting="families").draw
    assert (np.bincount(gate_items.units.codes[by_family.one]) == 1).all()
    for draw_by in (draw, by_family):
        assert draw_by.chance.sum() == pytest.approx(draw_by.one.sum(), rel=0.03)


def test_every_family_gives_a_tested_item_whatever_the_size_of_others() -> None:
    # Three families of 30 among 397 single items: a slot of 30 leaves 1 of 30 single items.
    sizes = np.r_[np.ones(397, dtype=np.int64), np.full(3, 30)]
    unit = np.arange(400).repeat(sizes).astype(np.str_).astype(np.object_)
    rng = np.random.default_rng(0)
    sure = rng.random(unit.size)
    ids = np.arange(unit.size).astype(np.str_).astype(np.object_)
    gate_items = GateItems(ids, unit, unit, sure, rng.random(unit.size) < 0.1 * (1 - sure))
    by_family = choose_gate(gate_items, Target.of_error(0.1), 0.95)
    by_item = choose_gate(replace(gate_items, counting="items"), Target.of_error(0.1), 0.95)
    assert by_family.tested_units == 400
    assert by_family.threshold is not None
    assert gate_items.accepted(by_family.threshold).mean() > 0.7
    assert by_item.tested_units < 30
    assert by_item.threshold is None


@pytest.mark.slow
def test_the_guarantee_holds_for_families_of_unequal_sizes_that_are_copies() -> None:
    rng, target, draws = np.random.default_rng(13), 0.1, 400
    population = unequal_items(np.random.default_rng(14), 100_000)
    order = np.argsort(-population.sureness)
    weight = population.draw.chance[order]
    error = np.cumsum(weight * population.wrong[order]) / np.cumsum(weight)
    gates = [
        choose_gate(unequal_items(rng, 250), Target.of_error(target), 0.95) for _ in range(draws)
    ]
    thresholds = [gate.threshold for gate in gates if gate.threshold is not None]
    at = np.searchsorted(-population.sureness[order], -np.array(thresholds), side="right") - 1
    assert (error[at] > target).sum() <= 28
    assert len(thresholds) > draws / 4


@pytest.mark.slow
def test_a_model_above_the_target_may_rarely_act() -> None:
    # Every gate has an error of 11%, and sureness says nothing: each gate would break a target of
    # 10%. 28 of 400 is 5% and two standard errors.
    rng, acting = np.random.default_rng(15), 0
    for _ in range(400):
        gate_items = items(rng, 300)
        gate_items = replace(gate_items, wrong=np.repeat(rng.random(300) < 0.11, 2))
        acting += choose_gate(gate_items, Target.of_error(0.1), 0.95).threshold is not None
    assert 0 < acting <= 28


def by_hand(gate_items: GateItems, rate: float, level: float) -> list[tuple[int, float]]:
    """The gates that pass, rank after rank: items that each accepts, and its threshold."""
    drawn = np.flatnonzero(gate_items.draw.one & (gate_items.sureness > -np.inf)).tolist()
    drawn.sort(key=lambda row: -gate_items.sureness[row])
    sure = [*gate_items.sureness[drawn], -math.inf]
    starts = dict(starts_of_tests(len(drawn), rate, level))
    open_level, passed = 0.0, []
    for rank in range(1, len(drawn) + 1):
        begins = rank in starts and open_level == 0
        open_level += starts.get(rank, 0.0)
        if open_level == 0 or sure[rank - 1] == sure[rank]:
            continue
        wrong = sum(gate_items.wrong[row] for row in drawn[:rank])
        if binom.cdf(wrong, rank, rate) > open_level:
            open_level = 0.0
        elif not begins:
            passed.append((rank, sure[rank - 1] if rank < len(drawn) else -math.inf))
    return passed


@pytest.mark.parametrize("digits", [9, 1, 0])
@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_the_gate_by_hand(digits: int, rate: float) -> None:
    found = 0
    for seed in range(25):
        rng = np.random.default_rng([seed, digits])
        made_items = items(rng, int(rng.integers(1, 500)), odd=0.05 * (seed % 3))
        sureness = np.round(made_items.sureness, digits)
        silent = rng.random(len(made_items)) < 0.1
        made_items = replace(made_items, sureness=np.where(silent, -np.inf, sureness))
        passed = by_hand(made_items, rate, 0.05)
        chosen = choose_gate(made_items, Target.of_error(rate), 0.95)
        found += bool(passed)
        assert (chosen.threshold is not None) == bool(passed)
        if chosen.threshold is None:
            continue
        accepted, threshold = passed[-1]
        assert chosen.threshold == pytest.approx(threshold, abs=2e-9)
        assert chosen.test is not None
        drawn = made_items.taken(made_items.draw.one)
        assert chosen.test == gate_test(drawn, chosen.threshold, Target.of_error(rate))
        assert chosen.test.accepted == accepted
    assert found >= 3


@pytest.mark.parametrize("level", [0.2, 0.05, 0.001])
@pytest.mark.parametrize("rate", [0.01, 0.05, 0.1, 0.5, 0.9, 0.99])
def test_the_starts_against_the_binomial_distribution(rate: float, level: float) -> None:
    """A start may have an error more than one item fewer, and the levels are those of all tests."""
    for n in [*range(40), 59, 60, 150, 400, 1_000, 5_000]:
        starts = starts_of_tests(n, rate, level)
        ranks = [start for start, _ in starts]
        assert ranks == sorted(set(ranks))
        assert sum(each for _, each in starts) <= level * (1 + 1e-9)
        assert bool(starts) == (binom.cdf(0, n, rate) <= level and n > 0)
        for start, each in starts:
            most = max(wrong for wrong in range(-1, start) if binom.cdf(wrong, start, rate) <= each)
            assert 0 < start <= n
            assert most >= 0
            assert binom.cdf(most, start - 1, rate) > each


def test_what_a_gate_refuses_decides_nothing() -> None:
    """Theory: order and starts follow from the confidences; a test sees what its gate accepts."""
    gate_items, target = items(np.random.default_rng(4), 600), Target.of_error(0.1)
    chosen = choose_gate(gate_items, target, 0.95)
    assert chosen.threshold is not None
    refused = ~gate_items.accepted(chosen.threshold)
    other = choose_gate(replace(gate_items, wrong=gate_items.wrong | refused), target, 0.95)
    assert other == chosen


def planted(rng: np.random.Generator, families: int, values: int | None) -> GateItems:
    """The error of the gates crosses 10% five times; with `values`, so many distinct sureness."""
    names = np.array([f"{name:x}" for name in rng.integers(2**60, size=families)], dtype=np.object_)
    rank = rng.random(families)
    if values is not None:
        rank = np.floor(rank * values) / values
    error = np.array([0.02, 0.02, 0.30, 0.02, 0.19, 0.02, 0.24, 0.04, 0.2, 0.3])
    wrong = rng.random(families) < error[np.floor(rank * 10).astype(int)]
    return GateItems(names, names, names, -rank, wrong)


@pytest.mark.slow
@pytest.mark.parametrize("values", [None, 10, 20])
def test_the_guarantee_holds_if_surer_is_not_better_and_with_ties(values: int | None) -> None:
    """Theory: whatever the error of the gates does, the target is broken in 5% at most."""
    population = planted(np.random.default_rng(1), 400_000, values)
    order = np.argsort(-population.sureness, kind="stable")
    error = np.cumsum(population.wrong[order]) / np.arange(1, order.size + 1)
    rng, broken, found, draws = np.random.default_rng(2), 0, 0, 2_000
    for _ in range(draws):
        gate = choose_gate(planted(rng, 300, values), Target.of_error(0.1), 0.95).threshold
        if gate is not None:
            found += 1
            at = np.searchsorted(-population.sureness[order], -gate, side="right") - 1
            broken += error[at] > 0.1
    assert found > draws / 10
    assert broken <= binom.isf(1e-3, draws, 0.05)


def test_the_order_of_the_rows_does_not_matter() -> None:
    gate_items = items(np.random.default_rng(5), 300)
    shuffled = gate_items.taken(np.random.default_rng(0).permutation(len(gate_items)))
    target = Target.of_error(0.1)
    assert choose_gate(gate_items, target, 0.9) == choose_gate(shuffled, target, 0.9)


def test_items_without_an_answer_are_never_accepted() -> None:
    gate_items = items(np.random.default_rng(6), 400)
    silent = np.arange(len(gate_items)) % 4 == 0
    gate_items = replace(gate_items, sureness=np.where(silent, -np.inf, gate_items.sureness))
    chosen = choose_gate(gate_items, Target.of_error(0.9), 0.95)
    assert chosen.threshold == -np.inf
    assert (gate_items.accepted(chosen.threshold) == ~silent).all()
    assert choose_gate(gate_items, Target.of_escalation(0.2), 0.95).threshold is None


def test_an_escalated_share_is_kept_by_the_strictest_gate() -> None:
    gate_items = items(np.random.default_rng(7), 1_000)
    chosen = choose_gate(gate_items, Target.of_escalation(0.3), 0.95)
    assert chosen.threshold is not None
    escalated = 1 - gate_items.accepted(chosen.threshold).mean()
    assert 0.2 < escalated < 0.3
    drawn = gate_items.taken(gate_items.draw.one)
    assert chosen.test is not None
    assert chosen.test.wrong == (drawn.sureness < chosen.threshold).sum()
    assert chosen.test.accepted == len(drawn)


def test_costs_choose_the_cheapest_gate_that_passes() -> None:
    gate_items = items(np.random.default_rng(8), 1_500)
    by_cost = choose_gate(gate_items, Target.of_costs(wrong=10, review=1), 0.95)
    by_error = choose_gate(gate_items, Target.of_error(0.1), 0.95)
    costs = {}
    for _, threshold in by_hand(gate_items, 0.1, 0.05):
        accepted = gate_items.sureness >= threshold
        costs[threshold] = 10 * (accepted & gate_items.wrong).mean() + 1 - accepted.mean()
    assert by_cost.threshold == pytest.approx(min(costs, key=lambda gate: costs[gate]), abs=2e-9)
    assert by_error.threshold == pytest.approx(min(costs), abs=2e-9)


def test_too_few_families_have_a_number_that_would_do() -> None:
    few, many = (items(np.random.default_rng(9), n) for n in (40, 4_000))
    assert choose_gate(few, Target.of_error(0.05), 0.95).threshold is None
    needed = families_needed(few, Target.of_error(0.05), 0.95)
    assert needed is not None
    assert needed >= 59  # accepted items without an error
    assert choose_gate(many, Target.of_error(0.05), 0.95).threshold is not None
    hopeless = replace(few, wrong=np.ones(len(few), dtype=np.bool_))
    assert families_needed(hopeless, Target.of_error(0.05), 0.95) is None
    silent = replace(few, sureness=np.full(len(few), -np.inf))
    assert families_needed(silent, Target.of_error(0.05), 0.95) is None
    assert families_needed(silent, Target.of_escalation(0.05), 0.95) is None
    # All of them answered: 0.5 escalated of 41 drawn items is assumed.
    trials = trials_needed(0.5 / 41, 0.05, 0.05)
    assert trials is not None
    planned = families_needed(few, Target.of_escalation(0.05), 0.95)
    assert planned == trials


def test_a_check_that_cannot_tell_has_a_number_that_would_do() -> None:
    """Half of 40 items are accepted, none of them wrong: 0.5 wrong of 21 is assumed."""
    few = made(np.random.default_rng(10), 40, (1,))
    few = replace(few, sureness=np.arange(40) / 40, wrong=np.zeros(40, dtype=np.bool_))
    (gate,) = checked_gates({"all": few}, {"all": 0.5}, target=Target.of_error(0.05), level=0.05)
    trials = trials_needed(0.5 / 21, 0.05, 0.05)
    assert trials is not None
    assert (gate.verdict, gate.needed) == ("cannot tell", 2 * trials)


def test_a_plan_does_what_it_says_for_resampled_families() -> None:
    gate_items, target = items(np.random.default_rng(20), 100), Target.of_error(0.1)
    needed = families_needed(gate_items, target, 0.95)
    assert needed is not None
    rng = np.random.default_rng(21)
    gates = [choose_gate(resampled(gate_items, needed, rng), target, 0.95) for _ in range(15)]
    share = np.mean([gate.threshold is not None for gate in gates])
    assert 0.65 <= share <= 1
    fewer = [choose_gate(resampled(gate_items, needed // 3, rng), target, 0.95) for _ in range(10)]
    assert np.mean([gate.threshold is not None for gate in fewer]) < share


@pytest.mark.parametrize("draws", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_unrelated_confidence_gets_no_number(draws: int) -> None:
    rng, numbers = np.random.default_rng(22), 0
    for _ in range(draws):
        gate_items = items(rng, 100)
        gate_items = replace(gate_items, wrong=rng.random(len(gate_items)) < 0.2)
        numbers += families_needed(gate_items, Target.of_error(0.1), 0.95) is not None
    assert numbers <= binom.isf(1e-2, draws, 0.05)  # the test of the relation errs in 5%
    good = replace(gate_items, wrong=rng.random(len(gate_items)) < 0.04)
    assert families_needed(good, Target.of_error(0.1), 0.95) is not None


@pytest.mark.slow
@pytest.mark.parametrize("families", [60, 300])
def test_the_guarantee_holds_and_the_naive_choice_does_not(families: int) -> None:
    rng, target, splits = np.random.default_rng(10), 0.1, 400
    broken, naive, accepted = 0, 0, 0
    for _ in range(splits):
        gate_items = items(rng, families)
        gate = choose_gate(gate_items, Target.of_error(target), 0.9).threshold
        broken += gate is not None and true_error(gate) > target
        accepted += gate is not None
        order = np.argsort(-gate_items.sureness)
        error = np.cumsum(gate_items.wrong[order]) / np.arange(1, order.size + 1)
        kept = np.flatnonzero(error <= target)
        naive += kept.size > 0 and true_error(gate_items.sureness[order[kept[-1]]]) > target
    # Three standard errors above the level of 10%.
    assert broken / splits <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / splits)
    assert naive / splits > 0.3
    assert accepted


def test_cost_against_hand_computation() -> None:
    """Of four items three are accepted, one of them wrong, and one is reviewed."""
    names = np.array(["a", "b", "c", "d"], dtype=np.object_)
    sureness = np.array([0.9, 0.8, 0.7, 0.1])
    wrong = np.array([False, True, False, True])
    items = GateItems(names, names, names, sureness, wrong)
    costs = Target.of_costs(wrong=8, review=1)
    assert expected_cost(items, 0.7, costs) == pytest.approx(8 / 4 + 1 / 4)
    assert expected_cost(items, -np.inf, costs) == pytest.approx(8 * 2 / 4)
    assert expected_cost(items, None, costs) == 1.0
    with pytest.raises(ValueError, match="costs"):
        expected_cost(items, 0.7, Target.of_error(0.1))


@pytest.mark.parametrize("review", [-1.0, 0.0, 8.0, math.nan])
def test_a_review_costs_something_and_less_than_a_wrong_decision(review: float) -> None:
    with pytest.raises(InputError):
        Target.of_costs(wrong=8, review=review)


def surer_by_hand(gate_items: GateItems) -> bool:
    """Whether the covariance of ranks and right answers is 1.645 standard errors above 0."""
    answered = gate_items.sureness > -np.inf
    ranks = rankdata(gate_items.sureness[answered])
    right = 1.0 - gate_items.wrong[answered]
    names = gate_items.unit[answered]
    parts = [
        ((ranks[names == name] - ranks.mean()) * (right[names == name] - right.mean())).sum()
        for name in dict.fromkeys(names)
    ]
    return bool(sum(parts) > 1.645 * math.sqrt(sum(part**2 for part in parts)))


def test_surer_answers_are_right_more_often_by_ranks_and_families() -> None:
    """Small samples on both sides of the limit, with ties, several sizes, and no answers."""
    found = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        drawn = (items, unequal_items)[seed % 2](rng, 14)
        sureness = np.round(drawn.sureness, seed % 3)
        drawn = replace(drawn, sureness=np.where(rng.random(len(drawn)) < 0.1, -np.inf, sureness))
        found.append(surer_is_better(drawn))
        assert found[-1] == surer_by_hand(drawn), seed
    assert 20 < sum(found) < 60
    assert not surer_is_better(replace(drawn, sureness=np.full(len(drawn), -np.inf)))
    assert not surer_is_better(replace(drawn, wrong=np.zeros(len(drawn), dtype=np.bool_)))
