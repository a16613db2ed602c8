"""Arms: recipes over several seeds, and how two of them differ seed by seed.

A seed of one arm is compared with the same seed of the other, on the same items. Mean and deviation
over seeds tell how training varies; the tests within a seed tell how much one holdout can show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pact_eval.errors import InputError
from pact_eval.evaluation.comparison import Comparison, compare
from pact_eval.evaluation.items import ScoredItems, group_rows
from pact_eval.evaluation.specs import METRICS, GroupBy
from pact_eval.evaluation.statistics import group_statistics, point_values
from pact_eval.stats import (
    HolmAdjustment,
    SeedSummary,
    SignAgreement,
    holm,
    same_sign,
    seed_summary,
)

__all__ = ["Arm", "ArmPair", "ArmsComparison", "compare_arms"]

SeedRuns = Mapping[int, ScoredItems]
"""The runs of one arm by seed, all on the same items in the same order."""


@dataclass(frozen=True)
class Arm:
    """One recipe over its seeds.

    Attributes:
        name: of the arm.
        seeds: in ascending order.
        summaries: by group and metric, mean and deviation over seeds.
    """

    name: str
    seeds: tuple[int, ...]
    summaries: Mapping[str, Mapping[str, SeedSummary]]


@dataclass(frozen=True)
class ArmPair:
    """Two arms at the seeds that both have.

    Attributes:
        a: name of the first arm.
        b: name of the second arm.
        seeds: the comparison at each seed, in ascending order.
        signs: by group and metric, whether the difference has one sign at every seed.
        holm: p-values over families of all items, adjusted over the seeds.
        group_holm: those of the groups after the first, adjusted over groups and seeds together: by
            group and seed.
    """

    a: str
    b: str
    seeds: Mapping[int, Comparison]
    signs: Mapping[str, Mapping[str, SignAgreement]]
    holm: HolmAdjustment
    group_holm: Mapping[str, Mapping[int, float]]


@dataclass(frozen=True)
class ArmsComparison:
    """Arms beside each other.

    Attributes:
        groups: names of the groups, "all" first.
        arms: every arm.
        pairs: the first arm against each of the others.
        notes: seeds that could not be matched.
    """

    groups: tuple[str, ...]
    arms: tuple[Arm, ...]
    pairs: tuple[ArmPair, ...]
    notes: tuple[str, ...]


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
        arms: the runs of each arm by seed; all runs hold the same items in the same order.
        by: kind, domain or source_family.
        rng: source of the resamples.
        resamples: bootstrap resamples of families.
        margin: largest difference in a rate that does not matter; see `compare`.

    Returns:
        Summaries of every arm, and the paired tests by seed.

    Raises:
        InputError: there are fewer than two arms, or one has no run.
    """
    if len(arms) < 2 or not all(arms.values()):
        message = f"expected two arms or more with runs, got {', '.join(arms) or 'none'}"
        raise InputError(message)
    first, *others = arms
    any_run = next(iter(arms[first].values()))
    pairs = []
    notes: list[str] = []
    for other in others:
        shared = sorted(set(arms[first]) & set(arms[other]))
        notes += _unmatched(first, other, arms)
        compared = {
            seed: compare(
                arms[first][seed],
                arms[other][seed],
                by=by,
                rng=rng,
                resamples=resamples,
                margin=margin,
            )
            for seed in shared
        }
        pairs.append(_pair(first, other, compared))
    return ArmsComparison(
        groups=tuple(group_rows(any_run.predictions, by)),
        arms=tuple(_arm(name, runs, by) for name, runs in arms.items()),
        pairs=tuple(pairs),
        notes=tuple(dict.fromkeys(notes)),
    )


def _arm(name: str, runs: SeedRuns, by: GroupBy) -> Arm:
    seeds = sorted(runs)
    rows = group_rows(runs[seeds[0]].predictions, by)
    summaries = {}
    for group, taken in rows.items():
        values = [point_values(group_statistics(runs[seed].taken(taken))) for seed in seeds]
        summaries[group] = {
            spec.name: seed_summary([each[spec.name] for each in values]) for spec in METRICS
        }
    return Arm(name, tuple(seeds), summaries)


def _pair(a: str, b: str, compared: Mapping[int, Comparison]) -> ArmPair:
    groups: dict[str, dict[str, list[float]]] = {}
    for comparison in compared.values():
        for group in comparison.groups:
            differences = groups.setdefault(group.name, {})
            for name, metric in group.metrics.items():
                differences.setdefault(name, []).append(metric.difference.value)
    p_values = [each.groups[0].accuracy.families.p_value for each in compared.values()]
    return ArmPair(
        a=a,
        b=b,
        seeds=compared,
        signs={
            group: {name: same_sign(values) for name, values in metrics.items()}
            for group, metrics in groups.items()
        },
        holm=holm(p_values),
        group_holm=_group_holm(compared),
    )


def _group_holm(compared: Mapping[int, Comparison]) -> dict[str, dict[int, float]]:
    """Adjust the p-values of all groups at all seeds together; by group and seed."""
    tests = [
        (group.name, seed, group.accuracy.families.p_value)
        for seed, comparison in compared.items()
        for group in comparison.groups[1:]
    ]
    adjusted: dict[str, dict[int, float]] = {}
    found = holm([p_value for _, _, p_value in tests]).adjusted.tolist()
    for (name, seed, _), p_value in zip(tests, found, strict=True):
        adjusted.setdefault(name, {})[seed] = p_value
    return adjusted


def _unmatched(a: str, b: str, arms: Mapping[str, SeedRuns]) -> list[str]:
    """Say which seeds of two arms have no match in the other."""
    notes = []
    if not set(arms[a]) & set(arms[b]):
        notes.append(f"{a} and {b} have no seed in common: nothing is compared by seed")
    for name, rest in ((a, b), (b, a)):
        alone = sorted(set(arms[name]) - set(arms[rest]))
        if alone:
            notes.append(f"{name} has seeds that {rest} lacks: {_listed(alone)}")
    return notes


def _listed(seeds: list[int]) -> str:
    return ", ".join(map(str, seeds))
