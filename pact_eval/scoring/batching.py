"""Batches of token sequences within a token budget. Pure Python."""

from __future__ import annotations

from collections.abc import Sequence


def length_sorted_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Group prompts so that a padded batch holds at most `batch_tokens` tokens.

    Args:
        lengths: tokens of each prompt.
        batch_tokens: rows times longest row allowed in a batch, padding included. A prompt longer
            than the budget gets its own batch.

    Returns:
        Indices into `lengths`, longest first. The first batch needs the most memory. The grouping
        depends on the lengths alone; equal lengths keep their order.

    Examples:
        >>> length_sorted_batches([5, 9, 5, 2], batch_tokens=10)
        [[1], [0, 2], [3]]
    """
    batches: list[list[int]] = []
    for index in _longest_first(lengths):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def tight_batches(
    lengths: Sequence[int], *, prefix: int, new_tokens: int, cached_tokens: float, padding: float
) -> list[list[int]]:
    """Group continuations of a cached prefix with little padding.

    Args:
        lengths: new tokens of each row.
        prefix: cached tokens of each row.
        new_tokens: limit on rows times longest row in a batch.
        cached_tokens: limit on rows times (prefix + longest row) in a batch.
        padding: largest share of padding in a batch, from 0 (equal lengths only) to 1.

    Returns:
        Indices into `lengths`, longest first; a row over the budgets gets its own batch.

    Examples:
        >>> lengths = [30, 29, 30, 12]
        >>> tight_batches(lengths, prefix=90, new_tokens=99, cached_tokens=999, padding=0.05)
        [[0, 2, 1], [3]]
        >>> tight_batches(lengths, prefix=90, new_tokens=99, cached_tokens=999, padding=0)
        [[0, 2], [1], [3]]
    """
    batches: list[list[int]] = []
    held = 0
    for index in _longest_first(lengths):
        if batches:
            rows, longest = len(batches[-1]) + 1, lengths[batches[-1][0]]
            fits = rows * longest <= new_tokens and rows * (prefix + longest) <= cached_tokens
            if fits and rows * longest - held - lengths[index] <= padding * rows * longest:
                batches[-1].append(index)
                held += lengths[index]
                continue
        batches.append([index])
        held = lengths[index]
    return batches


def consecutive_batches(
    lengths: Sequence[int], behind: Sequence[int], new_tokens: int, cached_tokens: float
) -> list[list[int]]:
    """Group segments in their order, for passes that concatenate them without padding.

    Args:
        lengths: new tokens of each segment.
        behind: tokens of the prefix of each segment.
        new_tokens: limit on the new tokens of a batch.
        cached_tokens: limit on the new tokens of a batch plus those of the prefixes, counted once
            per segment.

    Returns:
        Indices into `lengths`; a segment over the budgets gets its own batch.

    Examples:
        >>> consecutive_batches([30, 12, 40, 30], [90, 90, 5, 5], 80, cached_tokens=999)
        [[0, 1], [2, 3]]
        >>> consecutive_batches([30, 12, 40, 30], [90, 90, 5, 5], 80, cached_tokens=200)
        [[0], [1, 2], [3]]
    """
    batches: list[list[int]] = []
    new = cached = 0
    for index, (length, before) in enumerate(zip(lengths, behind, strict=True)):
        fits = new + length <= new_tokens and cached + before + length <= cached_tokens
        if not batches or not fits:
            batches.append([])
            new = cached = 0
        batches[-1].append(index)
        new += length
        cached += before + length
    return batches


def _longest_first(lengths: Sequence[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lambda index: -lengths[index])
