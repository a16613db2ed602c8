"""The test of a group: every permutation by hand, and Welch's t by scipy."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pact_eval._typing import BoolArray, FloatArray
from pact_eval.stats import group_permutation
from pact_eval.stats.group_permutation import group_permutation_test


def welch(values: FloatArray, inside: BoolArray) -> float:
    """Return Welch's statistic; scipy's is undefined without a spread."""
    sides = values[inside], values[~inside]
    variance = sum(side.var(ddof=1) / side.size for side in sides)
    difference = float(sides[0].mean() - sides[1].mean())
    if variance < 1e-12:
        return np.sign(difference) * np.inf if abs(difference) > 1e-12 else 0.0
    return difference / float(np.sqrt(variance))


@pytest.mark.parametrize("higher", [True, False])
def test_p_value_against_every_permutation_and_scipy(higher: bool) -> None:
    """It is the larger of the share of all 210 choices of four items, and of Welch's t."""
    values = np.array([1.0, 0.2, 0.9, 0.7, 0.1, 0.3, 0.0, 0.6, 0.2, 0.0])
    inside, sign = np.arange(10) < 4, 1 if higher else -1
    least = welch(sign * values, inside)
    every = [
        welch(sign * values, np.isin(np.arange(10), chosen))
        for chosen in combinations(range(10), 4)
    ]
    exact = np.mean(np.array(every) >= least - 1e-9)
    side: Any = "greater" if higher else "less"
    t = stats.ttest_ind(values[inside], values[~inside], equal_var=False, alternative=side).pvalue
    test = group_permutation_test(
        values, np.arange(10), inside, higher=higher, rng=np.random.default_rng(0)
    )
    assert test.p_value == pytest.approx(max(exact, t), abs=0.01)
    assert test.inside == pytest.approx(0.7)
    assert test.outside == pytest.approx(0.2)


def test_of_few_items_p_is_that_of_welch_by_scipy() -> None:
    """Sides of unlike spread, of which permutations know too little: t is the larger p-value."""
    equal = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        few, many = int(rng.integers(2, 5)), int(rng.integers(4, 12))
        inside = np.arange(few + many) < few
        values = np.where(inside, rng.normal(2, 1.5, few + many), rng.normal(0, 0.3, few + many))
        t = stats.ttest_ind(values[inside], values[~inside], equal_var=False, alternative="greater")
        test = group_permutation_test(
            values, np.arange(few + many), inside, higher=True, rng=rng, permutations=199
        )
        assert test.p_value >= t.pvalue * (1 - 1e-9)
        equal += test.p_value == pytest.approx(t.pvalue, rel=1e-9)
    assert equal >= 10


def test_a_group_without_an_error_is_judged_by_permutations() -> None:
    """Fisher's exact test: five right of five, and 12 of 15 others, have no spread for t."""
    values = np.array([1.0] * 5 + [1.0] * 12 + [0.0] * 3)
    inside = np.arange(20) < 5
    test = group_permutation_test(
        values, np.arange(20), inside, higher=True, rng=np.random.default_rng(0)
    )
    table = np.array([[5, 0], [12, 3]])
    assert test.p_value == pytest.approx(stats.fisher_exact(table, "greater").pvalue, abs=0.02)


def test_members_of_a_family_on_both_sides_are_compared_with_each_other() -> None:
    """Families of very different difficulty: the difference within each of them is the same."""
    rng = np.random.default_rng(0)
    family, inside = np.repeat(np.arange(40), 2), np.tile([True, False], 40)
    hard = rng.normal(0, 10, 40)[family]
    values = hard + 0.3 * inside + rng.normal(0, 0.1, 80)
    together = group_permutation_test(
        values, family, inside, higher=True, rng=np.random.default_rng(1)
    )
    apart = group_permutation_test(
        values, np.arange(80), inside, higher=True, rng=np.random.default_rng(1)
    )
    assert together.p_value < 0.001
    assert apart.p_value > 0.3


def test_copies_of_an_item_count_once() -> None:
    """Families of four copies have the p-value of one item each."""
    rng = np.random.default_rng(2)
    values, inside = rng.normal(size=60), np.arange(60) < 20
    one, four = (
        group_permutation_test(
            np.repeat(values, copies),
            np.repeat(np.arange(60), copies),
            np.repeat(inside, copies),
            higher=True,
            rng=np.random.default_rng(3),
        )
        for copies in (1, 4)
    )
    assert four.p_value == pytest.approx(one.p_value)


def test_of_many_families_some_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_permutation, "MOST_CLUSTERS", 50)
    values, inside = np.tile([1.0, 0.0], 500), np.tile([True, False], 500)
    rng = np.random.default_rng(0)
    test = group_permutation_test(values, np.arange(1000), inside, higher=True, rng=rng)
    assert (test.inside, test.outside) == (1.0, 0.0)
    assert test.p_value == 1 / (1 + test.permutations)
    with pytest.raises(ValueError, match="inside"):
        group_permutation_test(values, np.arange(1000), inside | True, higher=True, rng=rng)
    with pytest.raises(ValueError, match="shape"):
        group_permutation_test(values, np.arange(9), inside, higher=True, rng=rng)
