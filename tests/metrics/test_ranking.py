"""AURC from packed keys is AURC."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pact_eval.metrics import aurc, aurc_from_keys, confidence_keys, ranking


@pytest.mark.parametrize("chunk", [1, 2, 7, 10**6])
@pytest.mark.parametrize("levels", [1, 3, 40, 10**9])
def test_keys_against_aurc(chunk: int, levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the sorted keys are cut, a group of ties is taken whole."""
    monkeypatch.setattr(ranking, "_CHUNK", chunk)
    rng = np.random.default_rng(levels)
    sure = rng.integers(0, levels + 1, 500) / levels
    right = rng.random(500) < sure
    expected = aurc(sure, right)
    assert aurc_from_keys(confidence_keys(sure, right)) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("chunk", [1, 3, 10**6])
def test_chains_of_near_ties_are_one_group(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours within 1e-12 are tied, though the ends of the chain are 1e-11 apart."""
    monkeypatch.setattr(ranking, "_CHUNK", chunk)
    sure = np.r_[0.7 + 0.9e-12 * np.arange(12), 0.7 + 2e-11, 0.3, 0.3 + 1.1e-12]
    right = np.arange(15) % 3 > 0
    keys = np.random.default_rng(0).permutation(confidence_keys(sure, right))
    assert aurc_from_keys(keys) == pytest.approx(aurc(sure, right), rel=1e-14)


def test_aurc_from_keys_against_hand_computation() -> None:
    """Error rates 0, then expected 1/4 and 1/3 where the two tied items come in either order."""
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        sure, right = np.array([0.9, 0.6, 0.6])[order], np.array([True, True, False])[order]
        assert aurc_from_keys(confidence_keys(sure, right)) == pytest.approx((1 / 4 + 1 / 3) / 3)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30))
def test_keys_lose_nothing_and_sort_by_confidence(rows: list[tuple[float, bool]]) -> None:
    sure, right = (np.array(column) for column in zip(*rows, strict=True))
    keys = confidence_keys(sure, right)
    assert (keys >= 0).all()
    np.testing.assert_array_equal((keys >> 1).view(np.float64), sure)
    np.testing.assert_array_equal(keys & 1 == 0, right)
    np.testing.assert_array_equal((np.sort(keys) >> 1).view(np.float64), np.sort(sure))


def test_a_negative_zero_and_an_overshoot_are_confidences_too() -> None:
    keys = confidence_keys([-0.0, 1 + 1e-12, 0.5], [True, False, True])
    assert (keys >= 0).all()
    assert aurc_from_keys(keys) == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


def test_no_keys_have_no_aurc() -> None:
    assert np.isnan(aurc_from_keys(confidence_keys([], [])))


def test_bad_keys_are_refused() -> None:
    with pytest.raises(ValueError, match=r"keys: expected int64 \(n,\), got float64"):
        aurc_from_keys([0.5])
    with pytest.raises(ValueError, match="keys: expected int64"):
        aurc_from_keys(np.zeros((2, 2), dtype=np.int64))
    with pytest.raises(ValueError, match=r"confidence: expected probabilities in \[0, 1\]"):
        confidence_keys([1.5], [True])
