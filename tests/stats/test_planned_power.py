"""The power that plans rest on, against enumeration, theory, and draws of the real tests."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from pact_eval.stats.letter_preference import slot_preferences
from pact_eval.stats.power import (
    Groups,
    equivalence_verdict,
    fewest_groups,
    half_width_of_rate,
    least_lead,
    power_of_difference,
    power_of_letter,
    power_of_margin,
)
from pact_eval.stats.rate_differences import paired_rates
from pact_eval.stats.rates import rate_estimate

LETTERS, LEAST = 4, 0.01


def leads(b: int, c: int, n: int) -> npt.NDArray[np.int64]:
    return np.repeat([1, -1, 0], [b, c, n - b - c])


def is_shown(b: int, c: int, n: int) -> bool:
    return paired_rates(leads(b, c, n), np.arange(n), n).estimate().low > 0


@pytest.mark.parametrize("n", [12, 40])
def test_the_least_lead_is_the_first_that_the_comparison_shows(n: int) -> None:
    """Enumeration: every number of differing items, through `paired_rates` itself."""
    differ = np.arange(min(n, 20) + 1)
    for count, least in zip(differ.tolist(), least_lead(differ, n - 1), strict=True):
        shown = [b for b in range(count // 2, count + 1) if is_shown(b, count - b, n)]
        assert least == min(shown, default=count + 1)


def test_the_power_of_a_difference_is_the_sum_over_all_outcomes() -> None:
    """Hand computation: the trinomial probability of every outcome that is shown."""
    n, difference, differing = 14, 0.4, 0.6
    better, worse = (differing + difference) / 2, (differing - difference) / 2
    chance = sum(
        stats.multinomial.pmf([b, c, n - b - c], n, [better, worse, 1 - differing])
        for b in range(n + 1)
        for c in range(b)
        if b + c <= n and is_shown(b, c, n)
    )
    assert power_of_difference(difference, differing, Groups(n)) == pytest.approx(chance, abs=1e-6)


def test_copies_are_worth_their_groups() -> None:
    """Theory: a group of copies is one item; independent items are worth themselves."""
    copies, single = Groups(300, size=3, alike=1.0), Groups(300)
    assert copies.n_effective == single.n_effective == 300
    assert power_of_difference(0.05, 0.1, copies) == power_of_difference(0.05, 0.1, single)
    assert half_width_of_rate(0.8, copies) == half_width_of_rate(0.8, single)
    assert Groups(300, size=3, alike=0.0).n_effective == 900


def test_the_margin_has_the_power_of_two_one_sided_tests() -> None:
    """Theory (Schuirmann 1987): of many items, 2 Phi(M / s - z) - 1."""
    n, margin, differing = 400_000, 0.002, 0.1
    error = math.sqrt(differing / n)
    expected = 2 * stats.norm.cdf(margin / error - stats.norm.ppf(0.975)) - 1
    assert power_of_margin(margin, differing, Groups(n)) == pytest.approx(expected, abs=0.01)
    assert power_of_margin(0.001, differing, Groups(100)) == 0


def test_the_width_is_that_of_the_interval() -> None:
    """`rate_estimate` itself, on items that are their own groups."""
    estimate = rate_estimate(np.repeat([1, 0], [170, 30]), np.ones(200))
    width = half_width_of_rate(0.85, Groups(200))
    assert width == pytest.approx((estimate.high - estimate.low) / 2)


def test_a_letter_is_planned_for_all_letters_and_beyond_the_least_preference() -> None:
    """Theory: of many items, the normal approximation of the looser of both conditions."""
    groups, share = Groups(100_000), 0.75
    preference, followers = 0.0115, 0.0115 / share
    variance = followers * share**2 + (0.1 - followers) * share / 16 - preference**2
    error = math.sqrt(variance / groups.items)
    power = power_of_letter(preference, 0.1, groups, letters=LETTERS, least=LEAST)
    beyond = stats.norm.sf((LEAST + stats.norm.ppf(0.975) * error - preference) / error)
    assert power == pytest.approx(beyond, abs=0.02)
    small = 0.0008
    followers = small / share
    variance = followers * share**2 + (0.1 - followers) * share / 16 - small**2
    by_holm = stats.norm.sf(stats.norm.ppf(1 - 0.025 / LETTERS) - small / math.sqrt(variance / 1e5))
    power = power_of_letter(small, 0.1, groups, letters=LETTERS, least=-1.0)
    assert 0.5 < by_holm < 0.95
    assert power == pytest.approx(by_holm, abs=0.02)


def test_no_number_is_enough() -> None:
    assert fewest_groups(lambda _: False, Groups(0)) is None
    assert fewest_groups(lambda _: True, Groups(0, 2)) == Groups(5, 2)
    assert fewest_groups(lambda groups: groups.count >= 1_000_000, Groups(0)) == Groups(1_000_000)


def copied(values: npt.NDArray[Any], groups: Groups, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Returns (F, m) values; with the probability `alike`, a group has copies of its first."""
    values = values.copy()
    of_copies = rng.random(groups.count) < groups.alike
    values[of_copies] = values[of_copies, :1]
    return values


DESIGNS = [
    (0.02, 0.1, Groups(0, 2, 0.5)),
    (0.05, 0.1, Groups(0, 4, 0.5)),
    (0.1, 0.2, Groups(0)),
    (0.2, 0.3, Groups(0, 2, 0.5)),
    (0.05, 0.06, Groups(0)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("difference", "differing", "like"), DESIGNS)
def test_four_of_five_comparisons_show_the_difference(
    difference: float, differing: float, like: Groups
) -> None:
    """Simulation: 2,000 draws through the real interval; its standard error is 0.9%."""
    groups = fewest_groups(
        lambda some: power_of_difference(difference, differing, some) >= 0.8, like
    )
    assert groups is not None
    rng, family = np.random.default_rng(57), np.repeat(np.arange(groups.count), groups.size)
    shares = [(differing + difference) / 2, (differing - difference) / 2, 1 - differing]
    shown = 0
    for _ in range(2_000):
        drawn = rng.choice([1, -1, 0], (groups.count, groups.size), p=shares)
        lead = copied(drawn, groups, rng).ravel()
        shown += paired_rates(lead, family, groups.count).estimate().low > 0
    assert 0.77 < shown / 2_000 < 0.83


@pytest.mark.slow
@pytest.mark.parametrize(("margin", "differing", "like"), DESIGNS[:4])
def test_four_of_five_equal_pairs_are_shown_to_be_equivalent(
    margin: float, differing: float, like: Groups
) -> None:
    groups = fewest_groups(lambda some: power_of_margin(margin, differing, some) >= 0.8, like)
    assert groups is not None
    rng, family = np.random.default_rng(57), np.repeat(np.arange(groups.count), groups.size)
    shares = [differing / 2, differing / 2, 1 - differing]
    equal = 0
    for _ in range(2_000):
        drawn = rng.choice([1, -1, 0], (groups.count, groups.size), p=shares)
        lead = copied(drawn, groups, rng).ravel()
        estimate = paired_rates(lead, family, groups.count).estimate()
        equal += equivalence_verdict(estimate, margin).conclusion == "equivalent"
    assert 0.77 < equal / 2_000 < 0.83


@pytest.mark.slow
@pytest.mark.parametrize("like", [Groups(0), Groups(0, 2, 0.5), Groups(0, 4, 1.0)])
def test_the_interval_is_as_wide_as_planned(like: Groups) -> None:
    groups = fewest_groups(lambda some: half_width_of_rate(0.85, some) <= 0.04, like)
    assert groups is not None
    rng, counted = np.random.default_rng(57), np.full(groups.count, groups.size)
    widths = []
    for _ in range(400):
        right = copied(rng.random((groups.count, groups.size)) < 0.85, groups, rng)
        estimate = rate_estimate(right.sum(axis=1), counted)
        widths.append((estimate.high - estimate.low) / 2)
    assert np.mean(widths) == pytest.approx(0.04, rel=0.03)


def picks(
    groups: Groups, preference: float, moved: float, rng: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns Latin orders (n, C, C), and the choices (n, C) that `power_of_letter` assumes."""
    square = (np.arange(LETTERS)[:, None] + np.arange(LETTERS)) % LETTERS
    orders = rng.permuted(np.tile(np.arange(LETTERS), (groups.items, 1)), axis=1)[:, square]
    followers = preference * LETTERS / (LETTERS - 1)
    shares = [followers, max(0.0, moved - followers)]
    drawn = rng.choice(3, (groups.count, groups.size), p=[*shares, 1 - sum(shares)])
    kind = copied(drawn, groups, rng).ravel()
    chosen = np.repeat(rng.integers(0, LETTERS, groups.items)[:, None], LETTERS, axis=1)
    chosen[kind == 0] = orders[kind == 0, :, 0]
    chosen[kind == 1] = rng.integers(0, LETTERS, (int((kind == 1).sum()), LETTERS))
    return orders, chosen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preference", "moved", "like"),
    [(0.1, 0.1, Groups(0)), (0.1, 0.3, Groups(0)), (0.08, 0.2, Groups(0, 2, 1.0))],
)
def test_four_of_five_audits_name_the_letter(preference: float, moved: float, like: Groups) -> None:
    """Simulation: 400 draws through the permutation test and t; a standard error of 2%."""

    def enough(some: Groups) -> bool:
        return power_of_letter(preference, moved, some, letters=LETTERS, least=LEAST) >= 0.8

    groups = fewest_groups(enough, like)
    assert groups is not None
    rng, family = np.random.default_rng(57), np.repeat(np.arange(groups.count), groups.size)
    named = 0
    for _ in range(400):
        drawn = picks(groups, preference, moved, rng)
        slot = slot_preferences(*drawn, family, rng=rng).slots[0]
        named += slot.marked and slot.preference.low >= LEAST
    assert 0.73 < named / 400 < 0.87
