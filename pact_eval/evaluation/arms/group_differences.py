"""Difference in accuracy between two arms, by kind and by domain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pact_eval.evaluation.arms.comparison import by_group
from pact_eval.evaluation.arms.differences import GroupPairs, arm_difference
from pact_eval.evaluation.arms.means import shared_items
from pact_eval.evaluation.experiment import Experiment
from pact_eval.stats.arms import SignAgreement
from pact_eval.stats.estimate import Estimate


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

    No temperature is applied, which would change no answer.

    Args:
        experiment: an experiment with the runs of both arms.
        a: name of the first arm.
        b: name of the second arm; differences are a minus b.

    Raises:
        InputError: the item sets differ, or the arms have no seed in common.
    """
    views = shared_items(experiment).predictions
    raw = replace(experiment, settings=replace(experiment.settings, calibrated=False))
    kinds, domains = (raw.accuracy_matches(a, b, by) for by in ("kind", "domain"))
    groups = (
        *(_difference("kind", pairs) for pairs in by_group(kinds)),
        *(_difference("domain", pairs) for pairs in by_group(domains)[1:]),
    )
    families = len(set(views.family.tolist()))
    seeds = tuple(match.seed for match in kinds)
    return ArmDifferences(
        a, b, seeds, (replace(groups[0], by="all"), *groups[1:]), len(views), families
    )


def _difference(by: Literal["kind", "domain"], pairs: GroupPairs) -> GroupDifference:
    difference = arm_difference("accuracy", pairs)
    group, _ = pairs[0]
    return GroupDifference(
        by=by,
        name=group.name,
        items=group.items.n_items,
        values=tuple(left.difference(right, "accuracy").value for left, right in pairs),
        mean=difference.same_seeds,
        sign=difference.sign,
    )
