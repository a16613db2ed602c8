"""Numbers against bounds: hand computation, the normal distribution, and random estimates."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import assert_says
from scipy import stats
from statsmodels.stats.multitest import multipletests

from pact_eval.stats.bounds import Bounded, BoundTest, Side, at_confidence, bound_tests
from pact_eval.stats.estimate import ClusterText, Estimate
from pact_eval.stats.multiplicity import hochberg, holm

MANY = 100_000
Z = stats.norm.ppf(0.975)


def number(z: float, side: Side = 1, *, clusters: int = MANY, **more: Any) -> Bounded:
    """A number that is z standard errors on the right side of its bound, 0.8."""
    value = 0.8 + side * 0.01 * z
    half = 0.01 * stats.t.ppf(0.975, clusters - 1)
    estimate = Estimate(value, value - half, value + half, 2 * clusters, clusters, **more)
    return Bounded(estimate, 0.8, side)


def one(bounded: Bounded) -> BoundTest:
    (test,) = bound_tests([bounded])
    return test


def test_hochberg_against_statsmodels() -> None:
    rng = np.random.default_rng(0)
    some = [(rng.random(m) ** 3).tolist() for m in (2, 5, 12)]
    for p in ([1.0], *some, [0.02, 0.02, 0.5, 0.0, 1.0]):
        expected = multipletests(p, method="simes-hochberg")[1]
        np.testing.assert_allclose(hochberg(p), expected, rtol=1e-12)
    assert hochberg([]).shape == (0,)


def test_hochberg_by_hand() -> None:
    np.testing.assert_allclose(hochberg([0.01, 0.04, 0.03, 0.005]), [0.03, 0.04, 0.04, 0.02])
    np.testing.assert_allclose(hochberg([0.04, math.nan, 0.01]), [0.04, math.nan, 0.02])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_all_are_significant_if_the_largest_is(p: list[float]) -> None:
    adjusted = hochberg(p)
    assert adjusted.max() == max(p)
    assert (adjusted >= np.array(p)).all()
    assert (adjusted <= holm(p)).all()


@pytest.mark.parametrize("side", [1, -1])
def test_one_bound_is_judged_by_its_interval(side: Side) -> None:
    findings = {1.97: "shown", 1.95: "not shown", -1.95: "not shown", -1.97: "contradicted"}
    assert {z: one(number(z, side)).finding for z in findings} == findings


def test_the_p_value_is_that_of_the_interval() -> None:
    for z in (0.3, 2.0, -1.2, -3.0):
        expected = 2 * stats.t.sf(abs(z), 11)
        assert one(number(z, clusters=12)).p_value == pytest.approx(expected, rel=1e-6)


def test_an_end_that_touches_the_bound_shows_nothing() -> None:
    estimate = Estimate(0.85, 0.8, 0.9, 100, 100)
    assert one(Bounded(estimate, 0.8, 1)).finding == "not shown"
    assert one(Bounded(estimate, 0.8 - 1e-9, 1)).finding == "shown"
    assert one(Bounded(estimate, 0.9, 1)).finding == "not shown"
    assert one(Bounded(estimate, 0.9 + 1e-9, 1)).finding == "contradicted"


def test_all_are_shown_if_every_interval_is_on_its_side_whatever_the_number_of_bounds() -> None:
    assert {test.finding for test in bound_tests([number(1.97)] * 40)} == {"shown"}


def test_one_that_is_not_shown_leaves_the_others_adjusted() -> None:
    """Two bounds: beside one that is not shown, the other needs 2.5%, z = 2.24."""
    assert [test.finding for test in bound_tests([number(2.23), number(0)])] == 2 * ["not shown"]
    shown, open_ = bound_tests([number(2.25), number(0)])
    assert (shown.finding, open_.finding) == ("shown", "not shown")
    adjusted, _ = bound_tests([number(2.1), number(-0.1)])
    assert_says(adjusted.reason, "shown", "2")
    against, _ = bound_tests([number(-2.1), number(0.1)])
    assert_says(against.reason, "contradicted", "2")


def test_contradictions_are_adjusted_by_holm() -> None:
    """Three bounds: the first contradiction needs 5% / 3, z = 2.394, the second 2.5%."""
    shown = number(9)
    assert bound_tests([number(-2.38), shown, shown])[0].finding == "not shown"
    assert bound_tests([number(-2.40), shown, shown])[0].finding == "contradicted"
    two = bound_tests([number(-2.40), number(-2.25), shown])
    assert [test.finding for test in two[:2]] == 2 * ["contradicted"]
    two = bound_tests([number(-2.40), number(-2.23), shown])
    assert [test.finding for test in two[:2]] == ["contradicted", "not shown"]


def test_without_an_interval_nothing_is_shown() -> None:
    few = ClusterText("4 {clusters}, fewer than 5: no interval")
    nothing = one(Bounded(Estimate(0.9, math.nan, math.nan, 8, 4, None, few), 0.8, 1))
    assert (nothing.finding, nothing.reason, nothing.needed) == ("not shown", few, None)
    assert one(Bounded(Estimate(0.9, 0.9, 0.9, 8, 8), 0.8, 1)).finding == "not shown"
    undefined = Estimate(math.nan, math.nan, math.nan, 0, 0)
    assert one(Bounded(undefined, 0.8, 1)).finding == "not shown"
    # It takes no share of the level from the others.
    found = bound_tests([number(-1.97), Bounded(undefined, 0.8, 1)])
    assert found[0].finding == "contradicted"


def test_few_large_clusters_show_nothing_and_contradict() -> None:
    large = ClusterText("one {cluster} has half of the rows")
    assert one(number(5, concentration=large)).finding == "not shown"
    assert one(number(5, concentration=large)).reason == large
    assert one(number(-5, concentration=large)).finding == "contradicted"


def test_clusters_that_would_do_by_hand() -> None:
    """A lead of one standard error takes (1.96 + 0.84)^2 = 7.85 times as many."""
    needed = one(number(1.0)).needed
    assert needed == pytest.approx(MANY * (Z + stats.norm.ppf(0.8)) ** 2, rel=1e-3)
    assert one(number(-1.0)).needed is None
    assert one(number(0.1)).needed is None  # more than a million
    assert one(number(2.5)).needed is None


def test_a_number_with_bias_reaches_from_its_centre() -> None:
    """An interval that is cut off at 0 reaches as far below as above."""
    error = Estimate(0.05, 0.0, 0.06, MANY, MANY)
    shown = Bounded(error, 0.08, -1, centre=0.02, ends_at_zero=True)
    expected = 2 * stats.norm.sf(Z * 0.06 / 0.04)
    assert one(shown).finding == "shown"
    assert one(shown).p_value == pytest.approx(expected, rel=1e-3)
    assert one(Bounded(error, 0.055, -1, centre=0.02, ends_at_zero=True)).finding == "not shown"


def test_other_confidences_grow_with_the_quantile() -> None:
    wider = at_confidence(number(2.0), 0.99)
    z = stats.norm.ppf(0.995)
    assert wider.value == pytest.approx(0.02)
    assert (wider.low, wider.high) == pytest.approx((0.02 - 0.01 * z, 0.02 + 0.01 * z), rel=1e-4)
    same = at_confidence(number(2.0), 0.95)
    assert same.low == number(2.0).estimate.low - 0.8


def test_false_findings_of_independent_bounds() -> None:
    """At the bound itself: all shown in 2.5%, any shown or any contradicted in at most 5%."""
    rng, draws = np.random.default_rng(5), 800
    every, some, against = 0, 0, 0
    for z in rng.normal(size=(draws, 4)):
        found = [test.finding for test in bound_tests([number(value) for value in z])]
        some += "shown" in found
        against += "contradicted" in found
        # Three that are far from their bounds, and one at it.
        near = bound_tests([number(z[0]), number(9), number(9), number(9)])
        every += all(test.finding == "shown" for test in near)
    limit = 0.05 + 2.9 * math.sqrt(0.05 * 0.95 / draws)
    assert 0.01 < every / draws < 0.025 + 2.9 * math.sqrt(0.025 * 0.975 / draws)
    assert some / draws < limit
    assert against / draws < limit
