import math
from itertools import combinations, pairwise, permutations, product

import numpy as np
import numpy.typing as npt
import pytest

from pact_eval.metrics import (
    aurc,
    aurc_bounds,
    confidence,
    decode_single,
    risk_coverage,
)


def naive_aurc(sure: npt.NDArray[np.float64], right: npt.NDArray[np.bool_]) -> float:
    """The equation of DESIGN.md, word by word, summed without rounding."""
    terms = []
    followed = errors = 0
    for level in sorted(set(sure.tolist()), reverse=True):
        group = right[sure == level]
        m, e = len(group), int((~group).sum())
        terms += [(errors + j * e / m) / (followed + j) for j in range(1, m + 1)]
        followed, errors = followed + m, errors + e
    return math.fsum(terms) / followed


def tied_items(n: int, levels: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    rng = np.random.default_rng(n)
    sure = rng.integers(1, levels + 1, n) / levels
    return sure, rng.random(n) < 0.3 + 0.6 * sure


def test_aurc_against_hand_computation() -> None:
    """Error rates 0, then expected 1/4 and 1/3 where the two tied items come in either order."""
    value = aurc([0.9, 0.6, 0.6], [True, True, False])
    assert value == pytest.approx((0 + 1 / 4 + 1 / 3) / 3)


@pytest.mark.parametrize("n", [1, 2, 4, 6])
def test_aurc_against_every_order_of_tied_items(n: int) -> None:
    sure, right = tied_items(n, 2)
    values = []
    for order in permutations(range(n)):
        if all(sure[a] >= sure[b] for a, b in pairwise(order)):
            wrong = ~right[list(order)]
            values.append((np.cumsum(wrong) / np.arange(1, n + 1)).mean())
    assert aurc(sure, right) == pytest.approx(np.mean(values), rel=1e-12)


@pytest.mark.parametrize(("n", "levels"), [(50, 5), (3000, 40), (3000, 1), (20_000, 10**9)])
def test_aurc_against_naive_loop(n: int, levels: int) -> None:
    sure, right = tied_items(n, levels)
    expected = naive_aurc(sure, right)
    assert aurc(sure, right) == pytest.approx(expected, rel=0, abs=1e-12)


def test_risk_coverage_against_hand_computation() -> None:
    curve = risk_coverage([0.5, 0.9, 0.5, 0.7], [False, True, True, False])
    np.testing.assert_allclose(curve.coverage, [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(curve.error_rate, [0, 1 / 2, 1.5 / 3, 2 / 4])
    np.testing.assert_allclose(curve.threshold, [0.9, 0.7, 0.5, 0.5])


def test_rounding_does_not_break_ties() -> None:
    """The same logits in another order: tied, whatever the last digits say."""
    logits = np.random.default_rng(52).permuted(np.tile([0.0, 1.7, 2.9, 4.1], (200, 1)), axis=1)
    sure = confidence(decode_single(logits[:, None], np.full(200, 4)))
    sure *= 1 + 2.0**-52 * (np.arange(200) % 2)  # the last digits differ on some processors only
    assert np.unique(sure).size > 1
    right = np.arange(200) % 4 > 0
    tied = aurc(np.full(200, 0.5), right)
    assert aurc(sure, right) == pytest.approx(tied, rel=1e-12)


def test_no_items_have_no_aurc() -> None:
    assert np.isnan(aurc([], []))
    assert risk_coverage([], []).error_rate.shape == (0,)


@pytest.mark.parametrize("seed", range(20))
def test_aurc_bounds_against_all_orders_and_outcomes(seed: int) -> None:
    """The source of truth is every order that the intervals allow, with every outcome."""
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 6, 5) / 8
    high = low + rng.integers(0, 3, 5) / 8
    right = rng.random(5) < 0.6
    wrong = ~right | (rng.random(5) < 0.3)
    options = [[1.0] * int(w) + [0.0] * int(r) for r, w in zip(right, wrong, strict=True)]
    # An order is possible if no item must be surer than one before it.
    orders = [
        list(order)
        for order in permutations(range(5))
        if all(low[after] <= high[before] for before, after in combinations(order, 2))
    ]
    areas = [
        (np.cumsum(np.array(errors)[order]) / np.arange(1, 6)).mean()
        for errors in product(*options)
        for order in orders
    ]
    bounds = aurc_bounds(low, high, right, wrong)
    assert list(bounds) == pytest.approx([min(areas), max(areas)])
