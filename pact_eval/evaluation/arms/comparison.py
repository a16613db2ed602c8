"""Arms: recipes over several seeds, and the differences between two arms at each seed.

A seed of one arm is compared with the same seed of the other arm, on the same items. Mean and
deviation over seeds describe the variation of training. The tests at one seed describe the
uncertainty from one holdout. The mean difference over seeds has one interval: the families of all
runs are resampled together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, starmap

import numpy as np

from pact_eval._choices import ClusterUnit, GroupBy
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.cells import ArmSummary
from pact_eval.evaluation.arms.differences import (
    GroupDifferences,
    GroupPairs,
    SeedMatch,
    Standing,
    arm_differences,
    matched_seeds,
    sorted_seeds,
    standings,
)
from pact_eval.evaluation.common_views import at_common_views
from pact_eval.evaluation.comparison import Comparison, compare_groups
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.metric_specs import MetricSpec
from pact_eval.evaluation.notes import (
    DifferentViews,
    LargeFamilies,
    SmallGroups,
    UnmatchedSeeds,
    small_groups,
)
from pact_eval.evaluation.registry import find_metric, registered_metrics
from pact_eval.evaluation.report import default_resamples
from pact_eval.evaluation.resampled_groups import ResampledGroup, resampled_groups
from pact_eval.progress import tracked
from pact_eval.results import Result
from pact_eval.stats.estimate import Estimate

SeedRuns = Mapping[int | None, ScoredItems]
"""The runs of one arm by seed, all on the same items in the same order. The key is None for a run
without a seed, such as the base model."""

_Groups = Mapping[int | None, tuple[ResampledGroup, ...]]

GroupMatch = SeedMatch[tuple[ResampledGroup, ...]]
"""The groups of two runs with the same seed, in the same order."""


@dataclass(frozen=True)
class Arm:
    """One recipe over its seeds.

    Attributes:
        name: name of the arm.
        seeds: its seeds in ascending order; None for a run without a seed.
        summaries: by group and metric, mean and deviation over seeds; means have no interval.
    """

    name: str
    seeds: tuple[int | None, ...]
    summaries: Mapping[str, Mapping[str, ArmSummary]]


@dataclass(frozen=True)
class ArmPair:
    """Two arms at their shared seeds.

    Attributes:
        a: name of the first arm.
        b: name of the second arm.
        seeds: the comparison at each seed, in ascending order.
        differences: by group and metric, the difference over all of these seeds; empty if the arms
            share no seed.
    """

    a: str
    b: str
    seeds: Mapping[int | None, Comparison]
    differences: GroupDifferences


@dataclass(frozen=True, repr=False)
class ArmsComparison(Result):
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
    notes: tuple[DifferentViews | LargeFamilies | SmallGroups | UnmatchedSeeds, ...]
    unit: ClusterUnit = "family"

    @property
    def standings(self) -> dict[str, dict[str, dict[str, Standing]]]:
        """By group and metric, the arms that are best or tied."""
        return {
            group: {
                metric: {
                    arm.name: standing
                    for arm in self.arms
                    if (standing := arm.summaries[group][metric].standing) is not None
                }
                for metric in summaries
            }
            for group, summaries in self.arms[0].summaries.items()
        }


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
    arm_summaries = tuple(starmap(_arm, tracked(drawn.items(), "Summarising arms", "arms")))
    matches = {(a, b): matched_seeds(drawn[a], drawn[b]) for a, b in combinations(drawn, 2)}
    pairs = {
        other: _pair((first, other), matches[first, other], by, rng, resamples, margin)
        for other in tracked(others, "Comparing arms", "arms")
    }
    differences = {
        pair: pairs[pair[1]].differences if pair[0] == first else arm_differences(by_group(of_pair))
        for pair, of_pair in matches.items()
    }
    shared = next(iter(drawn[first].values()))
    return ArmsComparison(
        groups=tuple(group.name for group in shared),
        arms=_with_standings(arm_summaries, differences),
        pairs=tuple(
            replace(pair, differences=differences[first, other]) for other, pair in pairs.items()
        ),
        notes=(
            *different,
            *LargeFamilies.of(any_run),
            *small_groups({group.name: group.items.n_clusters for group in shared}, any_run.unit),
            *(note for other in others for note in _unmatched(first, other, arms)),
        ),
        unit=any_run.unit,
    )


def _with_standings(
    arms: Sequence[Arm], differences: Mapping[tuple[str, str], GroupDifferences]
) -> tuple[Arm, ...]:
    """Add the arms that are best or tied, by group and metric."""

    def standing(group: str, spec: MetricSpec) -> dict[str, Standing]:
        means = {arm.name: arm.summaries[group][spec.name].mean for arm in arms}
        of_metric = {
            pair: by_group[group][spec.name] for pair, by_group in differences.items() if by_group
        }
        return standings(means, spec, of_metric)

    by_place = {
        (group, spec.name): standing(group, spec)
        for group in arms[0].summaries
        for spec in registered_metrics()
    }
    return tuple(
        replace(
            arm,
            summaries={
                group: {
                    metric: replace(summary, standing=by_place[group, metric].get(arm.name))
                    for metric, summary in summaries.items()
                }
                for group, summaries in arm.summaries.items()
            },
        )
        for arm in arms
    )


def _at_common_views(
    arms: Mapping[str, SeedRuns],
) -> tuple[dict[str, SeedRuns], tuple[DifferentViews, ...]]:
    """Return the arms with the view metrics of the number of views that all runs have."""
    names = {
        (arm, seed): arm if seed is None else f"{arm}, seed {seed}"
        for arm, runs in arms.items()
        for seed in runs
    }
    cut_runs, notes = at_common_views(
        {name: arms[arm][seed] for (arm, seed), name in names.items()}
    )
    same_k: dict[str, SeedRuns] = {
        arm: {seed: cut_runs[names[arm, seed]] for seed in runs} for arm, runs in arms.items()
    }
    return same_k, notes


def _arm(name: str, runs: _Groups) -> Arm:
    summaries = {
        groups[0].name: {
            spec.name: ArmSummary.of(
                name,
                {
                    seed: _estimate(group, spec.name)
                    for seed, group in zip(runs, groups, strict=True)
                },
            )
            for spec in registered_metrics()
        }
        for groups in zip(*runs.values(), strict=True)
    }
    return Arm(name, tuple(runs), summaries)


def _estimate(group: ResampledGroup, metric: str) -> Estimate:
    """Return a metric of one run: the value alone, but the noise floor with it."""
    if find_metric(metric).noise_floor:
        return replace(group.estimate(metric), value=group.drawn[metric].value)
    basis = group.basis(metric)
    return Estimate(group.drawn[metric].value, math.nan, math.nan, basis.units, basis.families)


def by_group(matches: Sequence[GroupMatch]) -> list[GroupPairs]:
    """Return the runs of two arms group by group: one pair per shared seed."""
    groups = range(len(matches[0].a)) if matches else ()
    return [[(match.a[at], match.b[at]) for match in matches] for at in groups]


def _pair(
    arms: tuple[str, str],
    matches: Sequence[GroupMatch],
    by: GroupBy,
    rng: np.random.Generator,
    resamples: int,
    margin: float | None,
) -> ArmPair:
    compared = {
        match.seed: compare_groups(
            match.a, match.b, by=by, rng=rng, resamples=resamples, margin=margin
        )
        for match in matches
    }
    return ArmPair(*arms, compared, arm_differences(by_group(matches)))


def _unmatched(a: str, b: str, arms: Mapping[str, SeedRuns]) -> list[UnmatchedSeeds]:
    """Return a note with the seeds of two arms that have no match in the other arm."""
    seeds_a, seeds_b = (sorted_seeds(arms[name]) for name in (a, b))
    if [None] in (seeds_a, seeds_b) or seeds_a == seeds_b:
        return []
    only_a = tuple(seed for seed in seeds_a if seed not in seeds_b)
    only_b = tuple(seed for seed in seeds_b if seed not in seeds_a)
    return [UnmatchedSeeds(a, b, only_a, only_b, len(seeds_a) - len(only_a))]
