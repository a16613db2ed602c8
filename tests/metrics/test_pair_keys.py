"""Pairs counted from packed keys are the pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pact_eval.metrics import pair_correct, pair_keys, pair_rows, pair_totals

rows = st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans()), min_size=1, max_size=40)


@given(rows, st.integers(0, 2**32 - 1))
def test_keys_against_the_pair_index(drawn: list[tuple[int, bool, bool]], seed: int) -> None:
    family, is_base, right = (np.array(column) for column in zip(*drawn, strict=True))
    hashes = np.random.default_rng(seed).integers(0, 2**64, 10, dtype=np.uint64)[family]
    pairs = pair_rows(family, is_base)
    found = pair_totals(pair_keys(hashes, is_base, right))
    assert found.pairs == len(pairs)
    assert found.both_right == pair_correct(pairs, right).sum()
    assert found.incomplete_families == pairs.incomplete_families


def test_a_family_of_two_bases_is_no_pair() -> None:
    hashes = np.full(2, 2**63, dtype=np.uint64)
    assert pair_totals(pair_keys(hashes, [True, True], [True, True])).pairs == 0
    found = pair_totals(pair_keys(hashes, [False, True], [True, True]))
    assert (found.pairs, found.accuracy) == (1, 1.0)


def test_parts_are_put_together_before_they_are_counted() -> None:
    hashes = np.array([8, 8], dtype=np.uint64)
    first = pair_keys(hashes[:1], [True], [True])
    second = pair_keys(hashes[1:], [False], [True])
    assert pair_totals(np.r_[first, second]).both_right == 1
    assert np.isnan(pair_totals(first).accuracy)


def test_no_items_have_no_pairs() -> None:
    nothing = pair_totals(np.zeros(0, dtype=np.uint64))
    assert (nothing.pairs, nothing.both_right, nothing.incomplete_families) == (0, 0, 0)


def test_bad_keys_are_refused() -> None:
    with pytest.raises(ValueError, match=r"family_hash: expected uint64 \(n,\)"):
        pair_keys(np.array([1]), [True], [True])
    with pytest.raises(ValueError, match="keys: expected uint64"):
        pair_totals([1, 2])
    with pytest.raises(ValueError, match="expected shape"):
        pair_keys(np.array([4], dtype=np.uint64), [True, True], [True])
