from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pact_eval.scoring.prefix_tree import (
    consecutive_batches,
    length_sorted_batches,
    tight_batches,
)


@given(st.lists(st.integers(1, 3000), max_size=20), st.integers(1, 8000))
def test_every_prompt_is_in_one_batch_within_the_budget(
    lengths: list[int], batch_tokens: int
) -> None:
    batches = length_sorted_batches(lengths, batch_tokens)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[index] for index in batch)
        assert padded <= batch_tokens or len(batch) == 1


Segments = st.lists(st.tuples(st.integers(1, 900), st.integers(0, 900)), max_size=40)


@given(Segments, st.integers(1, 3000), st.integers(1, 9000))
def test_segments_side_by_side_stay_in_order_and_within_both_budgets(
    segments: list[tuple[int, int]], new_tokens: int, cached_tokens: int
) -> None:
    lengths, behind = [length for length, _ in segments], [before for _, before in segments]
    batches = consecutive_batches(lengths, behind, new_tokens, cached_tokens)
    assert [index for batch in batches for index in batch] == list(range(len(segments)))
    for number, batch in enumerate(batches):
        new = sum(lengths[index] for index in batch)
        cached = sum(sum(segments[index]) for index in batch)
        assert (new <= new_tokens and cached <= cached_tokens) or len(batch) == 1
        if number + 1 < len(batches):  # the next one did not fit
            after = batches[number + 1][0]
            full = new + lengths[after] > new_tokens
            assert full or cached + sum(segments[after]) > cached_tokens


@given(st.lists(st.integers(1, 900), max_size=40), st.integers(1, 3000), st.floats(0, 0.2))
def test_rows_of_a_tight_batch_hardly_differ(
    lengths: list[int], new_tokens: int, padding: float
) -> None:
    batches = tight_batches(
        lengths, prefix=50, new_tokens=new_tokens, cached_tokens=4000, padding=padding
    )
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        padded, rows = len(batch) * longest, len(batch)
        assert rows == 1 or (padded <= new_tokens and rows * (50 + longest) <= 4000)
        assert padded - sum(lengths[index] for index in batch) <= padding * padded + 1e-9
