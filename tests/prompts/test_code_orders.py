from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pact_eval.prompts.contract import code_order, code_orders, to_canonical

seeds = st.integers(min_value=0, max_value=2**31)
ids = st.text(min_size=1, max_size=20)


@given(seeds, ids, st.integers(2, 26), st.integers(1, 10))
def test_view_0_is_canonical_and_every_view_is_a_permutation(
    seed: int, record_id: str, n: int, k: int
) -> None:
    orders = code_orders(seed, record_id, n, k)
    assert len(orders) == k
    assert orders[0] == tuple(range(n))
    assert all(sorted(order) == list(range(n)) for order in orders)


@given(seeds, ids, st.integers(2, 5), st.integers(1, 130))
def test_views_are_distinct_as_long_as_the_factorial_allows(
    seed: int, record_id: str, n: int, k: int
) -> None:
    orders = code_orders(seed, record_id, n, k)
    first = orders[: math.factorial(n)]
    assert len(set(first)) == len(first)
    assert all(orders[view] == first[view % len(first)] for view in range(k))


@given(seeds, ids, st.integers(2, 26), st.integers(1, 60))
def test_answers_visit_the_code_positions_as_evenly_as_k_allows(
    seed: int, record_id: str, n: int, k: int
) -> None:
    orders = code_orders(seed, record_id, n, k)
    for answer in range(n):
        visits = Counter(order.index(answer) for order in orders)
        counts = [visits[position] for position in range(n)]
        assert max(counts) - min(counts) <= 1


@given(seeds, ids, st.integers(2, 8), st.integers(0, 40))
def test_a_view_depends_on_seed_id_and_view_alone(
    seed: int, record_id: str, n: int, view: int
) -> None:
    assert code_orders(seed, record_id, n, 41)[view] == code_order(seed, record_id, n, view)


@pytest.mark.slow
def test_orders_are_independent_of_the_hash_seed() -> None:
    code = "from pact_eval.prompts.contract import code_orders; print(code_orders(17, 'é-1', 5, 4))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("0", "1")
    }
    assert printed == {"[(0, 1, 2, 3, 4), (2, 0, 3, 4, 1), (3, 2, 4, 1, 0), (4, 3, 1, 0, 2)]"}


def test_the_shifts_of_many_records_are_spread_over_all_positions() -> None:
    visits: Counter[int] = Counter(
        code_orders(0, f"record-{number}", 4, 2)[1].index(0) for number in range(3000)
    )
    # View 1 never shows answer 0 where view 0 did; the other three places are equally likely.
    assert set(visits) == {1, 2, 3}
    assert max(visits.values()) - min(visits.values()) < 5 * math.sqrt(1000)


@given(st.permutations(range(6)))
def test_scattering_into_canonical_order_undoes_the_rendering(order: list[int]) -> None:
    canonical = np.arange(6) * 1.5
    shown = canonical[order]
    assert (to_canonical(shown, order) == canonical).all()
    assert (to_canonical(np.stack([shown, shown]), order) == canonical).all()


def test_orders_are_frozen() -> None:
    # Recorded from the first release of the run format: a change would mix views within a run.
    five = [(0, 1, 2, 3, 4), (2, 0, 3, 4, 1), (3, 2, 4, 1, 0), (4, 3, 1, 0, 2)]
    assert code_orders(17, "é-1", 5, 4) == five
    assert code_orders(5, "x", 2, 5) == [(0, 1), (1, 0), (0, 1), (1, 0), (0, 1)]


def test_bad_orders_and_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 answers"):
        code_orders(0, "x", 1, 1)
    with pytest.raises(ValueError, match="and 1 view"):
        code_orders(0, "x", 2, 0)
    with pytest.raises(ValueError, match="expected an order of 3"):
        to_canonical(np.zeros(3), (0, 0, 1))
