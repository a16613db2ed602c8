"""Difference in accuracy between two arms, by kind and by domain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pact_eval.evaluation.experiment import Experiment
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.seeds import SignAgreement


@dataclass(frozen=True)
class GroupDifference:
    """A minus B in accuracy on one group of items, as fractions.

    Attributes:
        by: type of the group.
        name: name of the group.
        items: number of its items.
        values: the difference at each pair of runs.
        mean: mean over the pairs, with its 95% bootstrap interval over families.
        sign: whether all pairs of runs differ in the same direction.
    """

    by: Literal["all", "kind", "domain"]
    name: str
    items: int
    values: tuple[float, ...]
    mean: Estimate
    sign: SignAgreement


@dataclass(frozen=True)
class ArmDifferences:
    """Two arms, group by group.

    Attributes:
        a: name of the first arm.
        b: name of the second arm.
        seeds: seeds of the compared pairs of runs; None for two runs without a seed.
        groups: all items, then kinds, then domains.
        items: number of all items.
        families: number of their families.
    """

    a: str
    b: str
    seeds: tuple[int | None, ...]
    groups: tuple[GroupDifference, ...]
    items: int
    families: int


def arm_differences(experiment: Experiment, a: str, b: str) -> ArmDifferences:
    """Compute the difference in accuracy between two arms, by kind and by domain.

    The numbers are those of `Experiment.seeds`.

    Args:
        experiment: an experiment with the runs of both arms.
        a: name of the first arm.
        b: name of the second arm; differences are a minus b.

    Raises:
        InputError: the item sets differ, or the arms have no seed in common.
    """
    views = experiment.shared_items().predictions
    groups: list[GroupDifference] = []
    seeds: tuple[int | None, ...] = ()
    kinds: tuple[Literal["kind", "domain"], ...] = ("kind", "domain")
    for by in kinds:
        settings = replace(experiment.settings, by=by, calibrated=False)
        pair = replace(experiment, settings=settings).seeds(a, b)
        compared = list(pair.seeds.values())
        seeds = tuple(pair.seeds)
        for place, group in enumerate(compared[0].groups):
            if by == "domain" and place == 0:
                continue
            values = [
                comparison.groups[place].metrics["accuracy"].difference for comparison in compared
            ]
            groups.append(
                GroupDifference(
                    by="all" if place == 0 else by,
                    name=group.name,
                    items=group.items,
                    values=tuple(difference.value for difference in values),
                    mean=pair.differences[group.name]["accuracy"].same_seeds,
                    sign=pair.differences[group.name]["accuracy"].sign,
                )
            )
    families = len(set(views.family.tolist()))
    return ArmDifferences(a, b, seeds, tuple(groups), len(views), families)
