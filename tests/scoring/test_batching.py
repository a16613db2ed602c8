from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pact_eval.scoring.batching import length_sorted_batches


@given(st.lists(st.integers(1, 3000), max_size=60), st.integers(1, 8000))
def test_every_prompt_is_in_one_batch_within_the_budget(
    lengths: list[int], batch_tokens: int
) -> None:
    batches = length_sorted_batches(lengths, batch_tokens)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[index] for index in batch)
        assert padded <= batch_tokens or len(batch) == 1


def test_padding_is_small_because_neighbours_are_alike() -> None:
    lengths = [100 + index % 7 for index in range(70)]
    batches = length_sorted_batches(lengths, 1060)
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    assert padded < 1.01 * sum(lengths)
