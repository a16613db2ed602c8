"""Matching of the runs of two arms by seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

_Run = TypeVar("_Run")


@dataclass(frozen=True)
class SeedMatch(Generic[_Run]):
    """Two runs that are compared with each other.

    Attributes:
        seed: seed of both runs, or of the only run that has one; None if neither has a seed.
        a: run of the first arm.
        b: run of the second arm.
    """

    seed: int | None
    a: _Run
    b: _Run


def matched_seeds(
    a: Mapping[int | None, _Run], b: Mapping[int | None, _Run]
) -> tuple[SeedMatch[_Run], ...]:
    """Match the runs of two arms by seed.

    If the only run of an arm has no seed (a base model), it is compared with every run of the other
    arm.

    Args:
        a: runs of the first arm by seed.
        b: runs of the second arm by seed.

    Returns:
        The matches in ascending order of seeds; none if the arms share no seed.

    Examples:
        >>> runs = {1: "a1", 2: "a2"}
        >>> matched_seeds(runs, {2: "b2"})
        (SeedMatch(seed=2, a='a2', b='b2'),)
        >>> [(match.seed, match.b) for match in matched_seeds(runs, {None: "base"})]
        [(1, 'base'), (2, 'base')]
    """
    if set(b) == {None}:
        return tuple(SeedMatch(seed, a[seed], b[None]) for seed in sorted_seeds(a))
    if set(a) == {None}:
        return tuple(SeedMatch(seed, a[None], b[seed]) for seed in sorted_seeds(b))
    return tuple(SeedMatch(seed, a[seed], b[seed]) for seed in sorted_seeds(a) if seed in b)


def against(
    arms: Mapping[str, Mapping[int | None, _Run]], method: str
) -> dict[str, tuple[SeedMatch[_Run], ...]]:
    """Match the runs of an arm with those of every other arm by seed.

    Args:
        arms: by arm, its runs by seed.
        method: name of an arm; the first of each match.

    Returns:
        By the name of each other arm, in their order, the matches; none if it shares no seed.

    Examples:
        >>> arms = {"pact": {1: "p1"}, "ce": {1: "c1"}, "late": {2: "l2"}}
        >>> {arm: [match.b for match in matches] for arm, matches in against(arms, "pact").items()}
        {'ce': ['c1'], 'late': []}
    """
    return {arm: matched_seeds(arms[method], runs) for arm, runs in arms.items() if arm != method}


def sorted_seeds(runs: Mapping[int | None, object]) -> list[int | None]:
    """Return the seeds in ascending order, a run without a seed first."""
    return sorted(runs, key=lambda seed: (seed is not None, seed or 0))
