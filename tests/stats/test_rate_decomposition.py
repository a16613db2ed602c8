"""Kitagawa's decomposition: by hand, by its symmetry, and its errors against the jackknife."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pact_eval.stats.rate_differences import GroupedOutcomes, mix_shift


def sample(counts: list[tuple[int, int]], start: int = 0) -> GroupedOutcomes:
    """Returns items of groups with so many right and wrong ones, each its own cluster."""
    right = np.concatenate([np.r_[np.ones(yes), np.zeros(no)] for yes, no in counts])
    group = np.arange(len(counts)).repeat([yes + no for yes, no in counts])
    return GroupedOutcomes(right, group, start + np.arange(right.size))


def test_parts_by_hand() -> None:
    # A: 60 items at 90%, 40 at 50%. B: 20 at 80%, 80 at 45%.
    decomposition = mix_shift(sample([(54, 6), (20, 20)]), sample([(16, 4), (36, 44)], 100))
    assert decomposition.total == pytest.approx(0.52 - 0.74)
    # (0.2 - 0.6) 0.85 + (0.8 - 0.4) 0.475;  (0.8 - 0.9) 0.4 + (0.45 - 0.5) 0.6
    assert decomposition.mix.value == pytest.approx(-0.15)
    assert decomposition.within.value == pytest.approx(-0.07)
    assert (decomposition.unshared.value, [group.rows for group in decomposition.groups]) == (
        0.0,
        [(60, 20), (40, 80)],
    )
    # Against the mean rate, 0.4 0.85 + 0.6 0.475 = 0.625.
    assert [group.mix for group in decomposition.groups] == pytest.approx([-0.09, -0.06])


def test_a_group_of_one_sample_has_its_own_part() -> None:
    # The shared group is the same in both; B has 50 more items at 20%.
    decomposition = mix_shift(sample([(45, 5)]), sample([(45, 5), (10, 40)], 50))
    assert (decomposition.mix.value, decomposition.within.value) == pytest.approx((0.0, 0.0))
    assert decomposition.unshared.value == pytest.approx(0.55 - 0.9)
    assert decomposition.total == pytest.approx(decomposition.unshared.value)


def drawn(rng: np.random.Generator, families: int, tilt: float, start: int) -> GroupedOutcomes:
    group = rng.choice(3, families, p=[0.3 + tilt, 0.4, 0.3 - tilt]).repeat(2)
    chance = 0.9 - 0.2 * group + rng.normal(0, 0.1, families).repeat(2)
    right = (rng.random(2 * families) < chance).astype(np.float64)
    return GroupedOutcomes(right, group, (start + np.arange(families)).repeat(2))


@pytest.mark.parametrize("start", [0, 60])
def test_errors_are_those_of_the_jackknife_over_families(start: int) -> None:
    """Two samples of other families, and of families that both have (start 0)."""
    rng = np.random.default_rng(4)
    a, b = drawn(rng, 60, 0.0, 0), drawn(rng, 60, 0.15, start)
    if not start:
        b = replace(b, group=a.group)
    clusters = 60 + start
    whole = mix_shift(a, b)

    def without(one: GroupedOutcomes, cluster: int) -> GroupedOutcomes:
        kept = one.cluster != cluster
        return GroupedOutcomes(one.positive[kept], one.group[kept], one.cluster[kept])

    for name in ("mix", "within"):
        left: Any = [
            getattr(
                mix_shift(without(a, left_out), without(b, left_out)),
                name,
            ).value
            for left_out in range(clusters)
        ]
        # Of two samples, each family is one of 60, not of 120.
        error = np.sqrt(59 / 60 * np.square(left - np.mean(left)).sum())
        part = getattr(whole, name)
        if error > 1e-9:
            assert (part.high - part.low) / 2 / 1.99 == pytest.approx(error, rel=0.12)


def test_the_other_direction_changes_every_sign() -> None:
    rng = np.random.default_rng(5)
    a, b = drawn(rng, 40, 0.0, 0), drawn(rng, 50, 0.2, 40)
    there, back = mix_shift(a, b), mix_shift(b, a)
    for name in ("mix", "within", "unshared"):
        one, other = getattr(there, name), getattr(back, name)
        assert one.value == pytest.approx(-other.value)
        assert one.low == pytest.approx(-other.high, abs=1e-12, nan_ok=True)
    parts = there.mix.value + there.within.value + there.unshared.value
    assert parts == pytest.approx(there.total)
