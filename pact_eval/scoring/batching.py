"""Batches of prompts of like length within a token budget. Pure Python."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["length_sorted_batches"]


def length_sorted_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Group prompts so that a padded batch holds at most `batch_tokens` tokens.

    Args:
        lengths: tokens of each prompt.
        batch_tokens: rows times longest row allowed in a batch, padding included. A prompt longer
            than the budget gets a batch of its own.

    Returns:
        Indices into `lengths`, longest first, so that memory runs out at once or not at all. The
        grouping depends on the lengths alone; equal lengths keep their order.

    Example:
        >>> length_sorted_batches([5, 9, 5, 2], batch_tokens=10)
        [[1], [0, 2], [3]]
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
