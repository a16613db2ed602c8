import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import assert_says

from pact_eval.stats.seeds import same_sign, seed_summary

numbers = st.lists(st.floats(-100, 100), min_size=2, max_size=8)


@given(numbers)
def test_mean_and_deviation_against_the_standard_library(values: list[float]) -> None:
    summary = seed_summary(values)
    assert summary.mean == pytest.approx(statistics.mean(values), rel=1e-9, abs=1e-12)
    assert summary.deviation == pytest.approx(statistics.stdev(values), rel=1e-6, abs=1e-9)
    assert (summary.n, summary.reason) == (len(values), None)


@pytest.mark.parametrize(
    ("seeds", "mean", "deviation"),
    [([84.0, 82.1, 87.7], 84.6, 2.8), ([87.3, 75.6, 83.6], 82.2, 6.0)],
)
def test_against_the_published_arms(seeds: list[float], mean: float, deviation: float) -> None:
    summary = seed_summary(seeds)
    assert (round(summary.mean, 1), round(summary.deviation, 1)) == (mean, deviation)


@pytest.mark.parametrize(
    ("values", "mean", "reason"),
    [([0.84], 0.84, "one seed: no deviation"), ([], math.nan, "no seeds")],
)
def test_fewer_than_two_seeds_have_no_deviation(
    values: list[float], mean: float, reason: str
) -> None:
    summary = seed_summary(values)
    assert summary.mean == pytest.approx(mean, nan_ok=True)
    assert math.isnan(summary.deviation)
    assert (summary.n, summary.reason) == (len(values), reason)


def test_a_seed_without_a_value_leaves_no_mean() -> None:
    summary = seed_summary([0.8, math.nan, 0.9])
    assert np.isnan([summary.mean, summary.deviation]).all()
    assert_says(summary.reason, "undefined or infinite", "1 of 3 seeds")
    infinite = seed_summary([0.8, math.inf])
    assert infinite.mean == math.inf
    assert_says(infinite.reason, "undefined or infinite", "1 of 2 seeds")
    assert math.isnan(infinite.deviation)
    assert math.isnan(seed_summary([-math.inf, math.inf]).mean)
    assert str(seed_summary([math.nan]).reason).endswith("at 1 of 1 seed")


def test_same_sign_by_hand() -> None:
    """The published differences: PACT against CE-only by seed, and against the base model."""
    mixed = same_sign([-0.034, 0.065, 0.040])
    assert (mixed.same, mixed.sign) == (False, 0)
    assert_says(mixed.reason, "A is above B", "2 of 3 seeds")
    clear = same_sign([0.201, 0.182, 0.238])
    assert (clear.same, clear.sign, clear.n, clear.chance) == (True, 1, 3, 0.25)
    assert clear.reason is None
    assert same_sign([-0.1, -0.2]).sign == -1


def test_no_difference_at_a_seed_breaks_the_agreement() -> None:
    for differences in ([0.0, -0.019, 0.0], [1e-17, -0.019, -1e-17]):
        agreement = same_sign(differences)
        assert not agreement.same
        assert_says(agreement.reason, "no difference", "2 of 3 seeds")


def test_too_little_to_agree() -> None:
    one = same_sign([0.1])
    assert (one.same, one.n) == (False, 1)
    assert_says(one.reason, "one seed", "nothing to agree")
    assert math.isnan(one.chance)
    assert same_sign([]).reason == "no seeds"
    assert same_sign([0.1, math.nan]).reason == "undefined at 1 of 2 seeds"
    assert same_sign([math.inf, 1.0]).same


@given(numbers)
def test_swapping_the_runs_turns_the_sign(values: list[float]) -> None:
    one, other = same_sign(values), same_sign([-value for value in values])
    assert (one.same, one.sign) == (other.same, -other.sign)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"values: .*\(n,\), got \(1, 2\)"):
        seed_summary([[0.1, 0.2]])
    with pytest.raises(ValueError, match=r"differences: .*\(n,\), got \(\)"):
        same_sign(0.1)
