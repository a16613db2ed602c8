"""Rates over clusters: Wilson's interval with the effective number of rows and a t quantile."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from messages import assert_says
from scipy import special, stats
from statsmodels.stats.proportion import proportion_confint

from pact_eval.stats._quantiles import (
    beta_quantile,
    normal_cdf,
    normal_quantile,
    t_quantile,
    t_tail,
)
from pact_eval.stats.rates import effective_rows, rare_limit, rate_estimate, wilson_interval


@pytest.mark.parametrize("dof", [1, 2, 3, 4, 5, 7, 8, 11, 31, 161, 999, 1_000, 1_001, 50_000])
@pytest.mark.parametrize("probability", [1e-4, 0.025, 0.3, 0.5, 0.9, 0.975, 0.995, 0.9999])
def test_t_quantiles_against_scipy(dof: int, probability: float) -> None:
    expected = stats.t.ppf(probability, dof)
    assert t_quantile(probability, dof) == pytest.approx(expected, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("dof", [1.5, 2, 3, 17.3, 39, 40, 41, 161, 999, 9_999])
@pytest.mark.parametrize("t", [0.0, 1e-8, 0.3, 1.73, 1.74, 2.5, 4.0, 8.0, 20.0])
def test_t_tails_against_scipy(dof: float, t: float) -> None:
    """Both sides of the switch between fractions (1.73) and between gamma functions (40)."""
    assert t_tail(t, dof) == pytest.approx(special.stdtr(dof, -t), rel=1e-12)
    assert t_tail(-t, dof) == t_tail(t, dof)


@pytest.mark.parametrize("t", [1e-8, 0.5, 2.0, 1e5, 1e200, math.inf])
def test_t_tails_of_one_degree_against_the_arctangent(t: float) -> None:
    """A Cauchy variable; scipy is off by 3e-9 of the tail at 1e5."""
    assert t_tail(t, 1) == pytest.approx(math.atan(1 / t) / math.pi, rel=1e-12, abs=1e-150)


@pytest.mark.parametrize("dof", [0, -1, math.nan])
def test_t_tail_without_degrees_is_nan_as_in_scipy(dof: float) -> None:
    """One cluster has none: it once ended a comparison with a division by zero."""
    assert math.isnan(special.stdtr(dof, 0.0))
    assert math.isnan(t_tail(0.0, dof))


def test_normal_quantiles_against_scipy() -> None:
    for probability in (1e-6, 0.0057, 0.025, 0.5, 0.975):
        z = float(stats.norm.ppf(probability))
        assert normal_quantile(probability) == pytest.approx(z, rel=1e-12, abs=1e-15)
        assert normal_cdf(z) == pytest.approx(probability, rel=1e-12)


@pytest.mark.parametrize(("probability", "dof"), [(0.0, 3), (1.0, 3), (0.5, 0)])
def test_quantiles_that_do_not_exist_are_refused(probability: float, dof: int) -> None:
    with pytest.raises(ValueError, match=rf"expected a probability .*got {probability}, {dof}"):
        t_quantile(probability, dof)


def test_wilson_against_hand_computation() -> None:
    """Wilson 1927 for 8 of 10 and z = 2: (0.8 + 0.2 -+ sqrt(0.064 + 0.04)) / 1.4."""
    root = math.sqrt(0.4 * 0.16 + 0.04)
    assert wilson_interval(0.8, 10, 2.0) == pytest.approx(((1 - root) / 1.4, (1 + root) / 1.4))


@pytest.mark.parametrize(("positive", "n"), [(0, 47), (3, 20), (266, 324), (20, 20)])
def test_wilson_against_statsmodels(positive: int, n: int) -> None:
    """With independent items and z for t, this is the published interval."""
    expected = proportion_confint(positive, n, method="wilson")
    z = normal_quantile(0.975)
    assert wilson_interval(positive / n, n, z) == pytest.approx(expected, abs=1e-12)


def test_a_rate_against_hand_computation() -> None:
    """Pairs with 2, 2, 1, 0 right: p = 5/8, V = 4/3 (2 * 0.75^2 + 0.25^2 + 1.25^2) / 64."""
    variance = 4 / 3 * (2 * 0.5625 + 0.0625 + 1.5625) / 64
    n_star = 8 / (variance / (0.625 * 0.375 / 8))
    kappa = stats.t.ppf(0.975, 3) ** 2 / n_star
    half = math.sqrt(kappa * 0.625 * 0.375 + kappa**2 / 4)
    estimate = rate_estimate([2, 2, 1, 0], [2, 2, 2, 2])
    assert estimate.value == 0.625
    assert estimate.low == pytest.approx((0.625 + kappa / 2 - half) / (1 + kappa))
    assert estimate.high == pytest.approx((0.625 + kappa / 2 + half) / (1 + kappa))
    # One of the n* = 2.8 rows is negative: the exact limit of rare rows is inside Wilson's.
    assert estimate.high > stats.beta.ppf(0.95, 0.625 * n_star + 1, 0.375 * n_star)
    assert (estimate.n, estimate.clusters, estimate.reason) == (8, 4, None)


@pytest.mark.parametrize("n", [20, 324, 5_000])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 15])
def test_the_limit_of_few_positive_rows_against_scipy(count: int, n: int) -> None:
    exact = float(stats.beta.ppf(0.05, count, n - count + 1))
    assert rare_limit(count / n, n, 0.95) == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("expected", [0.2, 0.5, 1.0, 1.5, 3.0, 4.5, 8.0])
def test_the_coverage_of_rare_rows_by_theory(expected: float) -> None:
    """Over all counts of 324 items, weighted by the binomial; Wilson's alone covers 82 to 92%."""
    n = 324
    counts = np.arange(30)
    chance = stats.binom.pmf(counts, n, expected / n)
    held = np.zeros(counts.size, dtype=np.bool_)
    for count in counts:
        right = np.arange(n) >= count
        estimate = rate_estimate(right, np.ones(n))
        held[count] = estimate.low <= 1 - expected / n <= estimate.high
    assert 0.93 <= float(chance @ held) <= 0.99


def test_many_items_that_are_their_own_clusters_against_statsmodels() -> None:
    right = np.random.default_rng(3).random(20_000) < 0.8
    estimate = rate_estimate(right, np.ones(20_000))
    expected = proportion_confint(int(right.sum()), 20_000, method="wilson")
    assert (estimate.low, estimate.high) == pytest.approx(expected, rel=1e-4)


def test_a_rate_of_0_or_1_has_a_width() -> None:
    """Rows of a family count as copies: 24 families are worth 24 rows, whatever they hold."""
    t = float(stats.t.ppf(0.975, 23))
    none = rate_estimate([0] * 24, [2] * 24)
    assert (none.value, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(proportion_confint(0, 24, 2 * stats.norm.sf(t), "wilson")[1])
    every = rate_estimate([2] * 24, [2] * 24)
    assert (every.value, every.high) == (1.0, 1.0)
    assert every.low == pytest.approx(1 - none.high)


def test_families_that_all_have_one_right_are_worth_one_row_each() -> None:
    assert effective_rows([1] * 10, [2] * 10) == 10
    assert effective_rows([2, 1, 1], [4, 2, 2]) == pytest.approx(64 / 24)


def test_a_design_effect_below_1_is_not_used() -> None:
    """Families whose members alternate vary less than independent rows do."""
    assert effective_rows([1] * 9 + [2], [2] * 10) == 20


def test_clusters_without_rows_do_not_count() -> None:
    some = rate_estimate([2, 1, 0, 0, 1], [2, 2, 1, 0, 2])
    assert some == rate_estimate([2, 1, 0, 1], [2, 2, 1, 2])
    assert some.clusters == 4


def test_no_interval_has_a_reason() -> None:
    none = rate_estimate([0, 0], [0, 0])
    assert np.isnan([none.value, none.low, none.high]).all()
    assert_says(none.reason, "no rows", "nothing to estimate")
    one = rate_estimate([1, 0], [2, 0])
    assert (one.value, one.reason) == (0.5, "one family: no interval")
    assert np.isnan([one.low, one.high]).all()


@pytest.mark.parametrize(
    ("positive", "counted", "confidence", "message"),
    [
        ([1, 2], [1], 0.95, "two equal shapes"),
        ([3], [2], 0.95, "counts in 0..counted"),
        ([math.nan], [2], 0.95, "counts in 0..counted"),
        ([1], [2], 95, "confidence"),
    ],
)
def test_bad_counts_are_refused(
    positive: list[float], counted: list[int], confidence: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        rate_estimate(positive, counted, confidence=confidence)


def pairs_right(
    rng: np.random.Generator, families: int, rate: float, copies: float
) -> npt.NDArray[np.int64]:
    """Draws how many of two items each family has right; a share of families are copies."""
    first, second = rng.random((2, families)) < rate
    second = np.where(rng.random(families) < copies, first, second)
    return np.asarray(first.astype(np.int64) + second)


@pytest.mark.slow
@pytest.mark.parametrize("families", [8, 12, 32, 162])
@pytest.mark.parametrize("copies", [0.0, 0.5])
def test_coverage_with_known_truth(families: int, copies: float) -> None:
    """At least the nominal coverage; few families make Wilson's interval conservative."""
    rng, tries, rate = np.random.default_rng(families), 1_000, 0.8
    covered = 0
    for _ in range(tries):
        interval = rate_estimate(pairs_right(rng, families, rate, copies), np.full(families, 2))
        covered += interval.low <= rate <= interval.high
    low, _ = stats.binom.interval(1 - 2e-4, tries, 0.95)
    assert low <= covered
    assert covered <= (tries if families < 30 else stats.binom.ppf(1 - 1e-4, tries, 0.97))


@pytest.mark.parametrize(("a", "b"), [(0.01, 3.0), (0.5, 324.0), (40.0, 1.0), (1e4, 2e6)])
def test_beta_quantiles_against_scipy(a: float, b: float) -> None:
    for probability in (0.025, 0.05, 0.5, 0.999):
        expected = float(stats.beta.ppf(probability, a, b))
        assert beta_quantile(probability, a, b) == pytest.approx(expected, rel=1e-10)


def test_t_tail_of_nan_is_nan() -> None:
    assert math.isnan(t_tail(math.nan, 5))
