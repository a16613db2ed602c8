"""Arms: recipes over several seeds, and the differences between two arms at each seed.

A seed of one arm is compared with the same seed of the other arm, on the same items. Mean and
deviation over seeds describe the variation of training. The tests at one seed describe the
uncertainty from one holdout. The mean difference over seeds has one interval: the families of all
runs are resampled together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from pact_eval._notebook import NotebookTables
from pact_eval.errors import InputError
from pact_eval.evaluation.common_views import at_common_views
from pact_eval.evaluation.comparison import Comparison, compare_groups, difference_estimate
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import DifferentViews, SmallGroups, UnmatchedSeeds, small_groups
from pact_eval.evaluation.registry import ClusterUnit, GroupBy, registered_metrics
from pact_eval.evaluation.report import default_resamples
from pact_eval.evaluation.statistics import ResampledGroup, resampled_groups
from pact_eval.stats import (
    Estimate,
    HolmAdjustment,
    SeedSummary,
    SignAgreement,
    holm,
    same_sign,
    seed_summary,
)

SeedRuns = Mapping[int | None, ScoredItems]
"""The runs of one arm by seed, all on the same items in the same order. The key is None for a run
without a seed, such as the base model."""

_Run = TypeVar("_Run")
_Groups = Mapping[int | None, tuple[ResampledGroup, ...]]


@dataclass(frozen=True)
class Arm:
    """One recipe over its seeds.

    Attributes:
        name: name of the arm.
        seeds: its seeds in ascending order; None for a run without a seed.
        summaries: by group and metric, mean and deviation over seeds.
    """

    name: str
    seeds: tuple[int | None, ...]
    summaries: Mapping[str, Mapping[str, SeedSummary]]


@dataclass(frozen=True)
class ArmPair:
    """Two arms at their shared seeds.

    Attributes:
        a: name of the first arm.
        b: name of the second arm.
        seeds: the comparison at each seed, in ascending order.
        means: by group and metric, the mean of the differences over these seeds, with one interval
            over families; empty if the arms share no seed.
        signs: by group and metric, whether the difference has the same sign at every seed.
        holm: p-values of the sign flip on all items, adjusted over the seeds.
        group_holm: by group and seed, p-values of the sign flip for the groups after the first,
            adjusted over groups and seeds together.
    """

    a: str
    b: str
    seeds: Mapping[int | None, Comparison]
    means: Mapping[str, Mapping[str, Estimate]]
    signs: Mapping[str, Mapping[str, SignAgreement]]
    holm: HolmAdjustment
    group_holm: Mapping[str, Mapping[int | None, float]]
    notes: tuple[DifferentViews, ...] = ()


@dataclass(frozen=True)
class ArmsComparison(NotebookTables):
    """Several arms compared.

    Attributes:
        groups: names of the groups, "all" first.
        arms: every arm.
        pairs: the first arm compared with each of the others.
        notes: different numbers of views, groups of few families, and seeds without a match.
        unit: units of intervals and sign flips: families, or source families.
    """

    groups: tuple[str, ...]
    arms: tuple[Arm, ...]
    pairs: tuple[ArmPair, ...]
    notes: tuple[DifferentViews | SmallGroups | UnmatchedSeeds, ...]
    unit: ClusterUnit = "family"


def compare_arms(
    arms: Mapping[str, SeedRuns],
    *,
    by: GroupBy,
    rng: np.random.Generator,
    resamples: int | None = None,
    margin: float | None = None,
) -> ArmsComparison:
    """Compare the first arm with each of the others.

    Args:
        arms: the runs of each arm by seed; all runs have the same items in the same order.
        by: kind, domain or source_family.
        rng: source of the resamples.
        resamples: bootstrap resamples of families; None uses `default_resamples`.
        margin: largest difference in a rate that does not matter; see `compare`.

    Returns:
        Summaries of every arm, and the paired tests by seed.

    Raises:
        InputError: there are fewer than two arms, or an arm has no run.
    """
    if len(arms) < 2 or not all(arms.values()):
        message = f"expected two arms or more with runs, got {', '.join(arms) or 'none'}"
        raise InputError(message)
    any_run = next(iter(next(iter(arms.values())).values()))
    resamples = resamples or default_resamples(len(any_run))
    same_k, different = _at_common_views(arms)
    drawn = {
        name: {
            seed: resampled_groups(runs[seed], by, rng=rng, resamples=resamples)
            for seed in sorted_seeds(runs)
        }
        for name, runs in same_k.items()
    }
    first, *others = drawn
    shared = next(iter(drawn[first].values()))
    return ArmsComparison(
        groups=tuple(group.name for group in shared),
        arms=tuple(_arm(name, runs) for name, runs in drawn.items()),
        pairs=tuple(
            _pair((first, drawn[first]), (other, drawn[other]), by, rng, resamples, margin)
            for other in others
        ),
        notes=(
            *different,
            *small_groups({group.name: group.items.n_clusters for group in shared}, any_run.unit),
            *(note for other in others for note in _unmatched(first, other, arms)),
        ),
        unit=any_run.unit,
    )


def compare_seeds(
    a: tuple[str, SeedRuns],
    b: tuple[str, SeedRuns],
    *,
    by: GroupBy,
    rng: np.random.Generator,
    resamples: int | None = None,
    margin: float | None = None,
) -> ArmPair:
    """Compare two arms at their shared seeds.

    Args:
        a: name and runs of the first arm.
        b: name and runs of the second arm, on the same items in the same order.
        by: kind, domain or source_family.
        rng: source of the resamples; every run has the same resamples.
        resamples: bootstrap resamples of families; None uses `default_resamples`.
        margin: largest difference in a rate that does not matter; see `compare`.

    Raises:
        InputError: the arms have no seed in common.
    """
    matches = matched_seeds(a[1], b[1])
    if not matches:
        message = f"{a[0]} and {b[0]} have no seed in common"
        raise InputError(message)
    resamples = resamples or default_resamples(len(matches[0].a))
    compared = {
        name: {
            seed: run
            for seed, run in runs.items()
            if any(run is each.a or run is each.b for each in matches)
        }
        for name, runs in (a, b)
    }
    same_k, notes = _at_common_views(compared)
    drawn = [
        {
            seed: resampled_groups(run, by, rng=rng, resamples=resamples)
            for seed, run in same_k[name].items()
        }
        for name in (a[0], b[0])
    ]
    found = _pair((a[0], drawn[0]), (b[0], drawn[1]), by, rng, resamples, margin)
    return replace(found, notes=notes)


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

    Example:
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


def _at_common_views(
    arms: Mapping[str, SeedRuns],
) -> tuple[dict[str, SeedRuns], tuple[DifferentViews, ...]]:
    """Return the arms with the view metrics of the number of views that all runs have."""
    names = {
        (arm, seed): arm if seed is None else f"{arm}, seed {seed}"
        for arm, runs in arms.items()
        for seed in runs
    }
    found, notes = at_common_views({name: arms[arm][seed] for (arm, seed), name in names.items()})
    same_k: dict[str, SeedRuns] = {
        arm: {seed: found[names[arm, seed]] for seed in runs} for arm, runs in arms.items()
    }
    return same_k, notes


def sorted_seeds(runs: Mapping[int | None, object]) -> list[int | None]:
    """Return the seeds in ascending order, a run without a seed first."""
    return sorted(runs, key=lambda seed: (seed is not None, seed or 0))


def _arm(name: str, runs: _Groups) -> Arm:
    summaries = {}
    for groups in zip(*runs.values(), strict=True):
        summaries[groups[0].name] = {
            spec.name: seed_summary([group.drawn[spec.name].value for group in groups])
            for spec in registered_metrics()
        }
    return Arm(name, tuple(runs), summaries)


def _pair(
    a: tuple[str, _Groups],
    b: tuple[str, _Groups],
    by: GroupBy,
    rng: np.random.Generator,
    resamples: int,
    margin: float | None,
) -> ArmPair:
    matches = matched_seeds(a[1], b[1])
    compared = {
        match.seed: compare_groups(
            match.a, match.b, by=by, rng=rng, resamples=resamples, margin=margin
        )
        for match in matches
    }
    by_group = [
        list(zip(groups[: len(matches)], groups[len(matches) :], strict=True))
        for groups in zip(*(each.a for each in matches), *(each.b for each in matches), strict=True)
    ]
    means = {
        pairs[0][0].name: {
            spec.name: difference_estimate(spec.name, pairs) for spec in registered_metrics()
        }
        for pairs in by_group
    }
    signs = {
        pairs[0][0].name: {
            spec.name: same_sign([one.difference(other, spec.name).value for one, other in pairs])
            for spec in registered_metrics()
        }
        for pairs in by_group
    }
    p_values = [each.groups[0].accuracy.families.p_value for each in compared.values()]
    return ArmPair(
        a=a[0],
        b=b[0],
        seeds=compared,
        means=means,
        signs=signs,
        holm=holm(p_values),
        group_holm=_group_holm(compared),
    )


def _group_holm(compared: Mapping[int | None, Comparison]) -> dict[str, dict[int | None, float]]:
    """Adjust the p-values of all groups at all seeds together; by group and seed."""
    tests = [
        (group.name, seed, group.accuracy.families.p_value)
        for seed, comparison in compared.items()
        for group in comparison.groups[1:]
    ]
    adjusted: dict[str, dict[int | None, float]] = {}
    found = holm([p_value for _, _, p_value in tests]).adjusted.tolist()
    for (name, seed, _), p_value in zip(tests, found, strict=True):
        adjusted.setdefault(name, {})[seed] = p_value
    return adjusted


def _unmatched(a: str, b: str, arms: Mapping[str, SeedRuns]) -> list[UnmatchedSeeds]:
    """Return a note with the seeds of two arms that have no match in the other arm."""
    seeds_a, seeds_b = (sorted_seeds(arms[name]) for name in (a, b))
    if [None] in (seeds_a, seeds_b) or seeds_a == seeds_b:
        return []
    only_a = tuple(seed for seed in seeds_a if seed not in seeds_b)
    only_b = tuple(seed for seed in seeds_b if seed not in seeds_a)
    return [UnmatchedSeeds(a, b, only_a, only_b, len(seeds_a) - len(only_a))]
