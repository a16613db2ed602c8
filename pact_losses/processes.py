"""Sums over the processes of a distributed training, or of the one process that there is."""

from __future__ import annotations

from collections.abc import Mapping

from torch import distributed


def rank_and_count() -> tuple[int, int]:
    """Return the number of this process, from 0, and the number of processes.

    Examples:
        >>> rank_and_count()
        (0, 1)
    """
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def summed(values: Mapping[str, float]) -> dict[str, float]:
    """Sum named numbers over all processes, in the order of the ranks; all processes must call it.

    Args:
        values: the numbers of this process; a name that it lacks counts as 0.

    Returns:
        The sums, the same in every process; names in the order in which they first occur.

    Examples:
        >>> summed({"ce": 4.0})
        {'ce': 4.0}
    """
    _, count = rank_and_count()
    if count == 1:
        return dict(values)
    parts: list[Mapping[str, float]] = [{} for _ in range(count)]
    distributed.all_gather_object(parts, dict(values))
    sums: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            sums[name] = sums.get(name, 0.0) + value
    return sums
