import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import assert_says
from paired_runs import Pairs
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from pact_eval.stats.paired_tests import SignFlipTest, mcnemar, mcnemar_from_counts, sign_flip_test


def enumerated_p(lead: npt.NDArray[np.int64]) -> float:
    """Two-sided p-value over all sign patterns of the leads, one by one."""
    sums = [
        abs(sum(sign * d for sign, d in zip(signs, lead.tolist(), strict=True)))
        for signs in itertools.product((-1, 1), repeat=lead.size)
    ]
    return float(np.mean([s >= abs(int(lead.sum())) for s in sums]))


def runs_with_leads(lead: list[int]) -> SignFlipTest:
    """Tests families that consist of the items of their lead and one on which both agree."""
    a = [d > 0 for d in lead for _ in range(abs(d))] + [True] * len(lead)
    b = [d < 0 for d in lead for _ in range(abs(d))] + [True] * len(lead)
    family = [f for f, d in enumerate(lead) for _ in range(abs(d))] + list(range(len(lead)))
    return sign_flip_test(a, b, family)


@pytest.mark.parametrize("b", [0, 1, 2, 3, 7, 18, 40, 200])
@pytest.mark.parametrize("c", [1, 5, 6, 18, 39, 260])
def test_mcnemar_against_statsmodels(b: int, c: int) -> None:
    expected = statsmodels_mcnemar([[50, b], [c, 9]], exact=True).pvalue
    assert mcnemar_from_counts(b, c, 50, 9).p_value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("b", "c", "p"),
    [
        (19, 19, 1.000),
        (25, 31, 0.504),
        (27, 27, 1.000),
        (13, 24, 0.099),
        (39, 18, 0.008),
        (23, 10, 0.035),
        (92, 27, 0.0),
        (86, 27, 0.0),
        (98, 21, 0.0),
    ],
)
def test_mcnemar_against_the_published_table(b: int, c: int, p: float) -> None:
    assert round(mcnemar_from_counts(b, c, 324 - b - c, 0).p_value, 3) == p


@pytest.mark.parametrize("fewer", [0, 7, 23, 26, 500])
def test_halves_of_an_odd_number_give_exactly_one(fewer: int) -> None:
    """By symmetry; a sum of binomial probabilities gave 0.9999999999999998 for 7 of 15."""
    assert mcnemar_from_counts(fewer, fewer + 1, 0, 0).p_value == 1.0


def test_mcnemar_counts_by_hand() -> None:
    a = np.array([1, 1, 1, 0, 0, 1, 0], dtype=bool)
    b = np.array([1, 0, 0, 1, 0, 1, 0], dtype=bool)
    test = mcnemar(a, b)
    assert (test.b, test.c, test.both, test.neither, test.n) == (2, 1, 2, 2, 7)
    assert test.difference == pytest.approx(1 / 7)
    assert test.p_value == 1.0
    assert_says(test.reason, "only 3 items differ", "p-value below 0.05")


@pytest.mark.parametrize(("b", "c"), [(0, 1), (3, 9), (9, 3), (18, 39), (4, 4)])
def test_mid_p_counts_the_observed_outcome_by_half(b: int, c: int) -> None:
    outcomes = stats.binom.pmf(np.arange(b + c + 1), b + c, 0.5)
    observed = outcomes[b]
    rarer = outcomes[outcomes < observed * (1 - 1e-9)].sum()
    as_rare = outcomes[np.isclose(outcomes, observed)].sum()
    expected = rarer + as_rare / 2 if b != c else 1.0
    test = mcnemar_from_counts(b, c, 0, 0, mid_p=True)
    assert test.p_value == pytest.approx(expected, rel=1e-12)
    assert_says(test.method, "McNemar", "over items", "two-sided", "mid-p")


@pytest.mark.parametrize("mid_p", [False, True])
@pytest.mark.parametrize("differing", range(1, 12))
def test_the_least_p_is_that_of_one_winner(differing: int, mid_p: bool) -> None:
    tests = [mcnemar_from_counts(b, differing - b, 0, 0, mid_p=mid_p) for b in range(differing + 1)]
    least = min(test.p_value for test in tests)
    assert {test.least_p for test in tests} == {least}
    assert least == pytest.approx(2.0 ** (-differing if mid_p else 1 - differing))
    assert all((test.reason is None) == (least <= 0.05) for test in tests)


def test_no_differing_item_is_p_one_with_a_reason() -> None:
    test = mcnemar([True, False], [True, False])
    assert (test.p_value, test.least_p, test.difference) == (1.0, 1.0, 0.0)
    assert_says(test.reason, "no item differs", "nothing to test")
    assert mcnemar_from_counts(0, 0, 1, 1, mid_p=True).p_value == 1.0


def test_no_items_are_undefined() -> None:
    for test in (mcnemar([], []), sign_flip_test([], [], [])):
        assert math.isnan(test.p_value)
        assert math.isnan(test.least_p)
        assert math.isnan(test.difference)
        assert test.n == 0
        assert_says(test.reason, "no rows", "nothing to test")


@pytest.mark.parametrize("seed", range(12))
def test_sign_flip_against_enumeration(seed: int) -> None:
    """Families of one to five items, every pattern of signs counted."""
    rng = np.random.default_rng(seed)
    n, families = 24, 9
    a, b, family = rng.random(n) < 0.7, rng.random(n) < 0.5, rng.integers(0, families, n)
    lead = np.array([int(a[family == f].sum()) - int(b[family == f].sum()) for f in range(9)])
    test = sign_flip_test(a, b, family)
    assert test.p_value == pytest.approx(enumerated_p(lead), rel=1e-12)
    assert (test.lead_a, test.lead_b) == (lead[lead > 0].sum(), -lead[lead < 0].sum())
    assert (test.clusters_a, test.clusters_b) == ((lead > 0).sum(), (lead < 0).sum())
    assert test.difference == pytest.approx(a.mean() - b.mean())
    assert (test.n, test.clusters) == (24, np.unique(family).size)


@pytest.mark.parametrize(
    "lead",
    [[2, 2, -1], [3, -2, 5, 1, 1], [4, 4, 4, 4], [2, -2, 0, 0], [2, 3, 4, 1], [5, 3, -1, 4, 4]],
)
def test_sign_flip_of_given_leads_against_enumeration(lead: list[int]) -> None:
    expected = enumerated_p(np.array(lead))
    assert runs_with_leads(lead).p_value == pytest.approx(expected, rel=1e-12)


def test_sign_flip_against_the_normal_limit() -> None:
    """With 100,000 pairs the exact p-value is that of a normal sum, but for its steps."""
    runs = Pairs(100_000, 0.2, 0.0015, copies=0.5).draw(np.random.default_rng(3))
    test = sign_flip_test(runs.a, runs.b, runs.family)
    lead = (runs.a.astype(int) - runs.b).reshape(-1, 2).sum(axis=1)
    z = abs(lead.sum()) / math.sqrt((lead**2).sum())
    assert 0.5 < z < 3
    assert test.p_value == pytest.approx(2 * stats.norm.sf(z), rel=0.02)


def test_copies_of_an_item_are_no_evidence() -> None:
    """Every item twice: McNemar is surer by far, while the families know no more than before."""
    a, b = [True] * 9 + [False] * 3, [False] * 9 + [True] * 3
    once, twice = mcnemar(a, b), mcnemar(a * 2, b * 2)
    families = list(range(12)) * 2
    assert twice.p_value < once.p_value / 4
    assert sign_flip_test(a * 2, b * 2, families).p_value == pytest.approx(once.p_value)


def test_clusters_without_a_leader_are_p_one_with_a_reason() -> None:
    test = sign_flip_test([True, False, True, True], [False, True, True, True], [0, 0, 1, 1])
    assert (test.p_value, test.least_p, test.discordant_clusters) == (1.0, 1.0, 0)
    assert_says(test.reason, "no family has a leader", "nothing to test")


def test_too_few_clusters_are_named() -> None:
    few, enough = runs_with_leads([2, 2, 2, 1, 1]), runs_with_leads([2, 2, 2, 2, 1, 1])
    assert (few.p_value, few.least_p) == pytest.approx((0.0625, 0.0625))
    assert_says(few.reason, "only 5 families differ", "p-value below 0.05")
    assert (enough.p_value, enough.least_p) == pytest.approx((0.03125, 0.03125))
    assert enough.reason is None
    reason = runs_with_leads([2]).reason
    assert_says(reason, "only 1 family differs", "p-value below 0.05")


@pytest.mark.slow
@pytest.mark.parametrize(("families", "copies"), [(162, 0.6), (162, 1.0), (60, 0.6)])
def test_level_on_dependent_pairs(families: int, copies: float) -> None:
    """No true difference: the sign flip holds 5%, McNemar over items does not."""
    rng, tries = np.random.default_rng(5), 1500
    rejected = np.zeros(2)
    for _ in range(tries):
        runs = Pairs(families, 0.18, copies=copies).draw(rng)
        p = sign_flip_test(runs.a, runs.b, runs.family).p_value, mcnemar(runs.a, runs.b).p_value
        rejected += np.array(p) <= 0.05
    most = stats.binom.isf(1e-3, tries, 0.05)
    assert rejected[0] <= most
    assert rejected[0] >= stats.binom.isf(1 - 1e-3, tries, 0.02)
    assert rejected[1] > stats.binom.isf(1e-3, tries, 0.05)


rows = st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 6)), min_size=1, max_size=40)


def columns(drawn: list[tuple[bool, bool, int]]) -> tuple[Any, Any, Any]:
    a, b, family = zip(*drawn, strict=True)
    return np.array(a), np.array(b), np.array(family)


@given(rows)
def test_swapping_the_runs_negates_the_difference_and_keeps_p(
    drawn: list[tuple[bool, bool, int]],
) -> None:
    a, b, family = columns(drawn)
    for mid_p in (False, True):
        one, other = mcnemar(a, b, mid_p=mid_p), mcnemar(b, a, mid_p=mid_p)
        assert (one.b, one.c, one.difference) == (other.c, other.b, -other.difference)
        assert (one.p_value, one.reason) == (other.p_value, other.reason)
    first, second = sign_flip_test(a, b, family), sign_flip_test(b, a, family)
    assert (first.lead_a, first.clusters_a) == (second.lead_b, second.clusters_b)
    assert (first.difference, first.p_value) == (-second.difference, second.p_value)


@given(st.data())
def test_permuting_rows_and_renaming_families_changes_nothing(data: st.DataObject) -> None:
    drawn = data.draw(rows)
    a, b, family = columns(drawn)
    other_a, other_b, other_family = columns(data.draw(st.permutations(drawn)))
    names = np.array([f"f{(5 * f) % 7}" for f in other_family])
    assert mcnemar(a, b) == mcnemar(other_a, other_b)
    assert sign_flip_test(a, b, family) == sign_flip_test(other_a, other_b, names)


@given(rows)
def test_single_items_as_clusters_are_mcnemars(drawn: list[tuple[bool, bool, int]]) -> None:
    a, b, _ = columns(drawn)
    items, clusters = mcnemar(a, b), sign_flip_test(a, b, np.arange(a.size))
    assert (clusters.lead_a, clusters.lead_b) == (items.b, items.c)
    assert clusters.p_value == pytest.approx(items.p_value, rel=1e-10)
    assert clusters.least_p == pytest.approx(items.least_p)


@given(rows)
def test_no_p_value_is_below_the_least(drawn: list[tuple[bool, bool, int]]) -> None:
    a, b, family = columns(drawn)
    for test in (mcnemar(a, b), mcnemar(a, b, mid_p=True), sign_flip_test(a, b, family)):
        assert test.least_p * (1 - 1e-9) <= test.p_value <= 1


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="counts of 0 or more, got"):
        mcnemar_from_counts(-1, 2, 0, 0)
    with pytest.raises(ValueError, match="correct_b: .*bool, got int64"):
        mcnemar([True, False], [1, 0])
    with pytest.raises(ValueError, match=r"correct_a: .*\(n,\), got \(1, 2\)"):
        mcnemar([[True, False]], [True, False])
    with pytest.raises(ValueError, match="the same items .*got 2 and 1"):
        mcnemar([True, False], [True])
    with pytest.raises(ValueError, match=r"cluster: expected shape \(2,\), got \(1,\)"):
        sign_flip_test([True, False], [True, False], ["f"])
