import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import assert_says
from paired_runs import Pairs
from scipy import stats

from pact_eval.stats.paired_tests import mcnemar_from_counts, sign_flip_test
from pact_eval.stats.power import design_effect, detectable_difference, items_needed, mcnemar_power


@pytest.mark.parametrize("level", [0.05, 0.1, 0.5])
@pytest.mark.parametrize(
    ("n", "discordance", "difference"),
    [(6, 0.9, 0.8), (8, 0.7, 0.4), (8, 1.0, 0.5), (9, 0.5, 0.5), (12, 0.6, -0.3), (7, 0.8, 0.0)],
)
def test_power_against_enumeration(
    n: int, discordance: float, difference: float, level: float
) -> None:
    """Every outcome (b, c) of n items, with its p-value and its probability."""
    shares = [(discordance + difference) / 2, (discordance - difference) / 2, 1 - discordance]
    expected = sum(
        float(stats.multinomial.pmf([b, c, n - b - c], n, shares))
        for b, c in itertools.product(range(n + 1), repeat=2)
        if b + c <= n and mcnemar_from_counts(b, c, n - b - c, 0).p_value <= level + 1e-12
    )
    power = mcnemar_power(n, discordance, difference, level=level)
    assert power == pytest.approx(expected, rel=1e-9, abs=1e-10)


def test_power_of_six_items_by_hand() -> None:
    """Only six wins of six give p below 0.05: either run has to win them all."""
    assert mcnemar_power(6, 0.9, 0.5) == pytest.approx(0.7**6 + 0.2**6, rel=1e-10)
    assert mcnemar_power(5, 1.0, 1.0) == 0.0
    assert mcnemar_power(10, 0.0, 0.0) == 0.0
    assert mcnemar_power(10, 1e-310, 1e-310) == 0.0
    assert mcnemar_power(0, 0.5, 0.2) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(("n", "discordance", "difference"), [(324, 0.176, 0.065), (60, 0.3, 0.2)])
def test_power_against_simulation(n: int, discordance: float, difference: float) -> None:
    rng, tries = np.random.default_rng(1), 20_000
    shares = [(discordance + difference) / 2, (discordance - difference) / 2, 1 - discordance]
    outcomes, times = np.unique(
        rng.multinomial(n, shares, tries)[:, :2], axis=0, return_counts=True
    )
    p = [mcnemar_from_counts(b, c, 0, 0).p_value for b, c in outcomes.tolist()]
    rejected = int(times[np.array(p) <= 0.05].sum())
    low, high = stats.binom.interval(0.999, tries, mcnemar_power(n, discordance, difference))
    assert low <= rejected <= high


@pytest.mark.parametrize(("n", "discordance"), [(2000, 0.2), (20_000, 0.1), (1_000_000, 0.2)])
def test_detectable_difference_against_the_normal_limit(n: int, discordance: float) -> None:
    """Connor's formula, which the exact test approaches from above."""
    difference = detectable_difference(n, discordance).value
    z, z_power = float(stats.norm.ppf(0.975)), float(stats.norm.ppf(0.8))
    limit = (
        z * math.sqrt(discordance) + z_power * math.sqrt(discordance - difference**2)
    ) / math.sqrt(n)
    assert limit * 0.999 < difference < limit * (1 + 2 / math.sqrt(n * discordance))


def test_detectable_difference_has_the_power_asked_for() -> None:
    detectable = detectable_difference(324, 0.176, power=0.9)
    assert detectable.power == pytest.approx(0.9, abs=1e-6)
    assert detectable.power == pytest.approx(mcnemar_power(324, 0.176, detectable.value), abs=1e-12)
    assert mcnemar_power(324, 0.176, detectable.value - 1e-4) < 0.9
    assert (detectable.n, detectable.n_effective, detectable.discordance) == (324, 324, 0.176)
    assert detectable.reason is None
    assert_says(detectable.method, "exact McNemar", "over items", "two-sided at 0.05")


def test_a_share_too_small_for_the_difference_is_raised() -> None:
    """At 1% discordance no split of 324 items is likely to be seen; six must differ at all."""
    detectable = detectable_difference(324, 0.01)
    assert detectable.discordance == detectable.value > 0.01
    assert stats.binom.sf(5, 324, detectable.value) == pytest.approx(0.8, abs=1e-6)
    assert_says(detectable.reason, "more items must differ", "1.0% assumed")
    assert detectable.value == pytest.approx(detectable_difference(324, 0.0).value, abs=1e-8)


@pytest.mark.parametrize(("n", "effect"), [(0, 1.0), (5, 1.0), (11, 2.0)])
def test_where_nothing_is_detectable_there_is_a_reason(n: int, effect: float) -> None:
    detectable = detectable_difference(n, 0.3, design_effect=effect)
    assert math.isnan(detectable.value)
    assert math.isnan(detectable.power)
    assert detectable.n_effective < 6
    items = detectable.n_effective
    assert_says(detectable.reason, "no difference is detectable", f"{items} independent items")
    assert detectable_difference(6, 0.3).value > 0.9


def test_a_design_effect_below_one_is_not_counted_in_favour() -> None:
    assert detectable_difference(324, 0.2, design_effect=0.5) == detectable_difference(324, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("copies", [0.0, 0.6, 1.0])
def test_the_sign_flip_has_the_power_that_the_effective_items_promise(copies: float) -> None:
    """162 pairs with correlated differences: about 80% at the difference said to be detectable."""
    rng, tries = np.random.default_rng(2), 600
    detectable = detectable_difference(324, 0.176, design_effect=1 + copies)
    pairs = Pairs(162, 0.176, detectable.value, copies)
    rejected = 0
    for _ in range(tries):
        runs = pairs.draw(rng)
        rejected += sign_flip_test(runs.a, runs.b, runs.family).p_value <= 0.05
    low, high = stats.binom.interval(0.999, tries, 0.8)
    assert low - 0.02 * tries <= rejected <= high + 0.03 * tries


@settings(max_examples=40)
@given(st.integers(6, 400), st.floats(0.01, 1), st.floats(0, 1), st.floats(0, 1))
def test_power_grows_with_the_difference(n: int, share: float, x: float, y: float) -> None:
    less, more = sorted((x * share, y * share))
    assert mcnemar_power(n, share, less) <= mcnemar_power(n, share, more) + 1e-10
    assert mcnemar_power(n, share, -less) == pytest.approx(mcnemar_power(n, share, less))


@settings(max_examples=40)
@given(st.integers(0, 400), st.floats(0, 1))
def test_the_size_never_exceeds_the_level(n: int, share: float) -> None:
    assert 0 <= mcnemar_power(n, share, 0.0) <= 0.05 + 1e-12


@settings(max_examples=20)
@given(st.integers(6, 300), st.floats(0, 1), st.floats(1, 3))
def test_more_items_detect_smaller_differences(n: int, share: float, effect: float) -> None:
    one = detectable_difference(n, share, design_effect=effect).value
    twice = detectable_difference(2 * n, share, design_effect=effect).value
    assert math.isnan(one) or twice <= one + 1e-8


def test_design_effect_of_copies_and_of_single_items() -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(-1, 2, 400)
    single = design_effect(values, np.arange(400))
    assert single.value == pytest.approx(1.0)
    assert (single.n, single.clusters, single.reason) == (400, 400, None)
    assert single.n_effective == pytest.approx(400)
    copies = design_effect(values.repeat(2), np.arange(400).repeat(2))
    assert copies.value == pytest.approx(2 * (800 - 1) / 800 * 400 / 399)
    assert copies.n_effective == pytest.approx(400, rel=0.01)


def test_design_effect_against_the_intraclass_correlation() -> None:
    """Equal families of m: 1 + (m - 1) times the correlation from the analysis of variance."""
    rng, m, families = np.random.default_rng(4), 4, 2000
    values = rng.standard_normal((families, 1)) * 0.7 + rng.standard_normal((families, m))
    between = m * values.mean(axis=1).var(ddof=1)
    within = values.var(axis=1, ddof=1).mean()
    correlation = (between - within) / (between + (m - 1) * within)
    effect = design_effect(values.ravel(), np.arange(families).repeat(m))
    assert effect.value == pytest.approx(1 + (m - 1) * correlation, rel=0.002)
    assert effect.value == pytest.approx(1 + 3 * 0.49 / 1.49, abs=0.1)


def test_design_effect_against_two_bootstraps() -> None:
    """Unequal families: the ratio of the variances over families and over items."""
    rng = np.random.default_rng(5)
    family = rng.integers(0, 300, 900)
    values = (rng.standard_normal(300)[family] + rng.standard_normal(900) > 0.5).astype(float)
    codes = np.unique(family, return_inverse=True)[1]
    clusters = codes.max() + 1
    drawn = rng.multinomial(clusters, np.full(clusters, 1 / clusters), 8000)[:, codes]
    over_families = ((drawn * values).sum(axis=1) / drawn.sum(axis=1)).var()
    over_items = values.var() / 900
    effect = design_effect(values, family)
    # The variance of 8,000 replicates has a standard error of 1.6%.
    assert effect.value == pytest.approx(over_families / over_items, rel=0.07)
    assert effect.n_effective == pytest.approx(900 / effect.value)


def test_families_that_err_apart_have_an_effect_below_one() -> None:
    effect = design_effect([1, -1] * 20, np.arange(20).repeat(2))
    assert (effect.value, effect.n_effective) == (0.0, 40.0)


def test_a_design_effect_of_zero_is_not_counted_in_favour() -> None:
    """Leads that cancel within every family that differs have a design effect of 0."""
    detectable = detectable_difference(18, 0.2, design_effect=0.0)
    assert detectable == detectable_difference(18, 0.2)


def test_undefined_design_effects_have_a_reason() -> None:
    for values, cluster, reason in (
        ([], [], "no rows"),
        ([1.0, 0.0], [7, 7], "one family: no variance between families"),
        ([0, 0, 0], [1, 2, 3], "the values do not vary"),
    ):
        effect = design_effect(values, cluster)
        assert math.isnan(effect.value)
        assert math.isnan(effect.n_effective)
        assert effect.reason == reason


@given(st.data())
def test_permuting_rows_changes_no_design_effect(data: st.DataObject) -> None:
    row = st.tuples(st.integers(-1, 1), st.integers(0, 5))
    drawn = data.draw(st.lists(row, min_size=2, max_size=30))
    other = data.draw(st.permutations(drawn))
    one, two = (design_effect(*zip(*sample, strict=True)) for sample in (drawn, other))
    assert one.value == pytest.approx(two.value, rel=1e-9, abs=1e-9, nan_ok=True)
    assert one.reason == two.reason


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"\|difference\| <= discordance <= 1, got n=9, discordance=0.2"
    ):
        mcnemar_power(9, 0.2, 0.3)
    with pytest.raises(ValueError, match="expected n >= 0"):
        mcnemar_power(-1, 0.2, 0.1)
    with pytest.raises(ValueError, match=r"level: .*\(0, 1\), got 5"):
        mcnemar_power(9, 0.2, 0.1, level=5)
    with pytest.raises(ValueError, match=r"design_effect >= 0, got 9, 0\.2 and nan"):
        detectable_difference(9, 0.2, design_effect=math.nan)
    with pytest.raises(ValueError, match=r"power: .*level 0\.05"):
        detectable_difference(9, 0.2, power=0.04)
    with pytest.raises(ValueError, match=r"power: .*\(0, 1\)"):
        detectable_difference(9, 0.2, power=80)
    with pytest.raises(ValueError, match="values: expected finite numbers"):
        design_effect([1.0, math.nan], [0, 1])
    with pytest.raises(ValueError, match=r"cluster: expected shape \(2,\)"):
        design_effect([1.0, 2.0], [0])


@pytest.mark.parametrize(("difference", "share"), [(0.02, 0.15), (0.065, 0.176), (0.01, 0.0)])
def test_items_needed_against_the_approximation_of_connett(difference: float, share: float) -> None:
    # Connett, Smith and McHugh 1987; the exact test needs a few per cent more.
    psi = max(share, difference)
    spread = 1.959964 * math.sqrt(psi) + 0.841621 * math.sqrt(psi - difference**2)
    approximate = (spread / difference) ** 2
    needed = items_needed(difference, share)
    assert approximate < needed < 1.13 * approximate
    assert (
        mcnemar_power(needed, psi, difference) >= 0.8 > mcnemar_power(needed - 1, psi, difference)
    )


def test_items_needed_inverts_the_detectable_difference() -> None:
    detectable = detectable_difference(324, 0.176, design_effect=1.5)
    again = items_needed(detectable.value, 0.176, design_effect=1.5)
    assert abs(again - 324) < 12


@pytest.mark.parametrize(
    "wrong", [{"difference": 0.0}, {"difference": 1.1}, {"discordance": -0.1}, {"power": 0.01}]
)
def test_items_needed_refuses_what_is_out_of_range(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        items_needed(**({"difference": 0.02, "discordance": 0.1} | wrong))
