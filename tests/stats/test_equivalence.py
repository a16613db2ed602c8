import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import assert_says
from paired_runs import Pairs
from scipy import stats

from pact_eval.stats.estimate import ClusterText, Estimate
from pact_eval.stats.power import EquivalenceVerdict, equivalence_verdict
from pact_eval.stats.rate_differences import paired_rates


def judged(
    low: float,
    high: float,
    margin: float = 0.02,
    better: Literal[-1, 0, 1] = 1,
) -> EquivalenceVerdict:
    estimate = Estimate((low + high) / 2, low, high, n=324, clusters=162)
    return equivalence_verdict(estimate, margin, better=better)


@pytest.mark.parametrize(
    ("low", "high", "conclusion", "sentence_start"),
    [
        (-0.01, 0.015, "equivalent", "A and B are equivalent"),
        (0.03, 0.05, "different", "A is better than B by more than the margin."),
        (0.01, 0.05, "different", "A is better than B; whether by more than the margin"),
        (-0.05, -0.01, "different", "A is worse than B; whether by more than the margin"),
        (-0.015, -0.005, "different within the margin", "A is worse than B, but by less than"),
        (-0.03, 0.01, "inconclusive", "Neither a difference nor equivalence is shown"),
    ],
)
def test_verdicts_by_hand(low: float, high: float, conclusion: str, sentence_start: str) -> None:
    verdict = judged(low, high)
    assert verdict.conclusion == conclusion
    assert verdict.sentence.startswith(sentence_start)
    assert (verdict.low, verdict.high, verdict.margin) == (low, high, 0.02)
    assert (verdict.n, verdict.clusters, verdict.reason) == (324, 162, None)


@pytest.mark.parametrize(
    ("better", "above", "below"),
    [(1, "better", "worse"), (-1, "worse", "better"), (0, "higher", "lower")],
)
def test_direction_follows_what_is_better(
    better: Literal[-1, 0, 1], above: str, below: str
) -> None:
    assert judged(0.03, 0.05, better=better).direction == above
    assert judged(-0.05, -0.03, better=better).direction == below
    assert judged(-0.05, 0.03, better=better).direction is None
    assert judged(-0.01, 0.01, better=better).direction is None


def test_ends_that_touch_are_neither_inside_nor_beyond() -> None:
    assert judged(-0.02, 0.01).conclusion == "inconclusive"
    assert judged(-0.01, 0.02).conclusion == "inconclusive"
    assert judged(0.0, 0.01).conclusion == "equivalent"
    assert judged(0.0, 0.05).conclusion == "inconclusive"
    assert_says(judged(0.02, 0.05).sentence, "A is better than B", "more than the margin")


def test_the_90_percent_interval_is_tost_and_the_default_is_stricter() -> None:
    """5% in either tail of a normal difference: both one-sided tests, or the 90% interval."""
    value, error, margin = 0.004, 0.009, 0.02
    tost = max(stats.norm.sf((value + margin) / error), stats.norm.cdf((value - margin) / error))
    assert tost < 0.05
    for confidence, conclusion in ((0.9, "equivalent"), (0.95, "inconclusive")):
        low, high = stats.norm.interval(confidence, value, error)
        assert judged(float(low), float(high), margin).conclusion == conclusion


def test_no_interval_is_inconclusive_for_its_own_reason() -> None:
    nan = math.nan
    estimate = Estimate(0.0, nan, nan, 2, 1, None, ClusterText("one {cluster}: no interval"))
    verdict = equivalence_verdict(estimate, 0.5)
    assert (verdict.conclusion, verdict.direction) == ("inconclusive", None)
    assert verdict.reason == "one family: no interval"
    assert_says(verdict.sentence, "No verdict", "one group", "no interval")
    bare = equivalence_verdict(Estimate(nan, nan, nan, 0, 0), 0.5)
    assert_says(bare.sentence, "No verdict", "there is no interval")


def test_no_width_is_no_certainty() -> None:
    verdict = judged(0.0, 0.0)
    assert verdict.conclusion == "inconclusive"
    assert_says(verdict.sentence, "No verdict", "zero-width interval", "not mean certainty")
    assert math.isnan(verdict.low)


def test_runs_that_agree_on_every_item_are_judged_by_their_score_interval() -> None:
    """162 families without a difference say much: t^2 / (162 + t^2) is 2.35 points."""
    none = paired_rates(np.zeros(324), np.arange(162).repeat(2), 162).estimate()
    assert equivalence_verdict(none, 0.02).conclusion == "inconclusive"
    verdict = equivalence_verdict(none, 0.03)
    assert verdict.conclusion == "equivalent"
    assert (verdict.low, verdict.high) == (none.low, none.high)


@pytest.mark.parametrize(("families", "conclusion"), [(6, "inconclusive"), (7, "different")])
def test_all_of_few_clusters_differ(families: int, conclusion: str) -> None:
    """A right and B wrong throughout: seven families are enough, six are not."""
    lead = paired_rates(np.ones(2 * families), np.arange(families).repeat(2), families)
    assert equivalence_verdict(lead.estimate(), 0.02).conclusion == conclusion


def test_infinite_differences_are_differences() -> None:
    assert judged(0.1, math.inf, better=-1).direction == "worse"
    assert judged(math.inf, math.inf).conclusion == "different"
    assert judged(-math.inf, math.inf).conclusion == "inconclusive"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("families", "discordance", "copies", "most"),
    [(162, 0.01, 0.0, 0.025), (162, 0.02, 1.0, 0.025), (162, 0.1, 0.6, 0.08)],
)
def test_false_equivalence_where_the_margin_is_reached(
    families: int, discordance: float, copies: float, most: float
) -> None:
    """The true difference is the margin, and all that differs is in favour of A: the worst case."""
    rng, tries, claims = np.random.default_rng(7), 400, 0
    margin = discordance if discordance < 0.1 else discordance / 2
    for _ in range(tries):
        runs = Pairs(families, discordance, margin, copies).draw(rng)
        estimate = paired_rates(runs.a.astype(float) - runs.b, runs.family, families).estimate()
        verdict = equivalence_verdict(estimate, margin)
        claims += verdict.low > -margin and verdict.high < margin
    assert claims <= stats.binom.isf(1e-3, tries, most)


finite = st.floats(-1, 1)


@given(finite, finite, st.floats(1e-6, 1))
def test_swapping_the_runs_turns_the_verdict_round(x: float, y: float, margin: float) -> None:
    low, high = sorted((x, y))
    one, other = judged(low, high, margin), judged(-high, -low, margin)
    assert one.conclusion == other.conclusion
    turned = {"better": "worse", "worse": "better", None: None}
    assert one.direction == turned[other.direction]
    assert judged(low, high, margin, better=-1).direction == other.direction


@given(finite, finite, st.floats(1e-6, 1), st.floats(1, 10))
def test_a_wider_margin_never_loses_equivalence(
    x: float, y: float, margin: float, factor: float
) -> None:
    low, high = sorted((x, y))
    inside = {"equivalent", "different within the margin"}
    if judged(low, high, margin).conclusion in inside:
        assert judged(low, high, margin * factor).conclusion in inside


def test_bad_arguments_are_refused() -> None:
    for margin in (0.0, -0.1, math.nan, math.inf):
        with pytest.raises(ValueError, match="margin: .*finite number above 0"):
            judged(-0.1, 0.1, margin)


def test_the_estimates_reason_is_passed_on() -> None:
    estimate = Estimate(0.0, -0.01, 0.01, 20, 10, None, ClusterText("2% left out"))
    assert equivalence_verdict(estimate, 0.02).reason == "2% left out"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.01, 0.015, "plan B and {a} A are equivalent: the entire interval lies inside the"),
        (0.03, 0.05, "plan B is better than {a} A by more than the margin."),
        (-0.015, -0.005, "plan B is worse than {a} A, but by less than the margin."),
    ],
)
def test_a_verdict_takes_names_as_they_are(low: float, high: float, expected: str) -> None:
    """By hand: names that hold the letters A and B, or braces."""
    verdict = judged(low, high)
    assert verdict.about("plan B", "{a} A").startswith(expected)
    assert verdict.sentence == verdict.about("A", "B")


def test_a_difference_that_other_tests_do_not_leave_shown_by_hand() -> None:
    """The interval excludes 0, the adjusted test does not show it: equivalent only if inside."""
    gap = Estimate(0.04, 0.01, 0.07, n=900, clusters=450)
    wide, narrow = (equivalence_verdict(gap, margin, shown=False) for margin in (0.08, 0.02))
    assert (wide.conclusion, wide.direction) == ("equivalent", None)
    assert (narrow.conclusion, narrow.direction) == ("inconclusive", None)
    assert_says(narrow.sentence, "after adjustment for other tests")
    few = ClusterText("1 {cluster} has 30% of the items")
    held = equivalence_verdict(replace(gap, concentration=few), 0.08, shown=False)
    assert (held.conclusion, held.reason) == ("inconclusive", few)
