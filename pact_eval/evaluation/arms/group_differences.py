"""Difference in accuracy between two arms, by kind and by domain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from pact_eval._choices import Decoding
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics
from pact_eval.evaluation.arms.cells import MetricCell
from pact_eval.evaluation.arms.comparison import by_group
from pact_eval.evaluation.arms.differences import GroupPairs, arm_difference
from pact_eval.evaluation.arms.matching import SeedMatch, against
from pact_eval.evaluation.decoding import MetricDecoding
from pact_eval.evaluation.experiment import Experiment
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.seeds import SignAgreement, same_sign

_GROUPINGS: Final[tuple[Literal["kind", "domain"], ...]] = ("kind", "domain")


@dataclass(frozen=True)
class GroupDifference:
    """A minus B in accuracy on one group of items, as fractions.

    Attributes:
        by: type of the group.
        name: name of the group.
        items: number of its items.
        values: the difference at each pair of runs.
        mean: mean over the pairs, with the interval behind `shown`: over families, and over seeds
            too if there are three or more.
        sign: whether all pairs of runs differ in the same direction.
        shown: whether the mean is shown to differ from 0 at the 5% level; False without a test.
    """

    by: Literal["all", "kind", "domain"]
    name: str
    items: int
    values: tuple[float, ...]
    mean: Estimate
    sign: SignAgreement
    shown: bool = False


@dataclass(frozen=True)
class ArmDifferences:
    """Two arms, group by group.

    Attributes:
        a: name of the first arm.
        b: name of the second arm.
        seeds: seeds of the compared pairs of runs; None for two runs without a seed.
        groups: all items, then kinds, then domains.
        items: number of all items.
        families: number of their families; None for published metrics, which have no intervals.
    """

    a: str
    b: str
    seeds: tuple[int | None, ...]
    groups: tuple[GroupDifference, ...]
    items: int
    families: int | None


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
    views = experiment.shared_items().predictions
    raw = replace(experiment, settings=replace(experiment.settings, calibrated=False))
    kinds, domains = (raw.comparisons.accuracy_matches(a, b, by) for by in ("kind", "domain"))
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
        mean=difference.tested,
        sign=difference.sign,
        shown=difference.marked,
    )


def published_differences(
    metrics: ArmMetrics, a: str, decoding: Decoding = "single"
) -> tuple[ArmDifferences, ...]:
    """Take the same differences of one arm from every other from published metrics.

    Args:
        metrics: the numbers.
        a: name of the first arm.
        decoding: of the accuracies.

    Raises:
        InputError: no other arm has a seed in common with the first.
    """
    arms = {arm: {seed: seed for seed in metrics.seeds(arm)} for arm in metrics.arms}
    matches = {b: pairs for b, pairs in against(arms, a).items() if pairs}
    if not matches:
        message = f"no other arm has a seed in common with {a}"
        raise InputError(message)
    results = []
    for b, pairs in matches.items():
        groups = tuple(_published(metrics, (a, b), pairs, MetricDecoding(decoding)))
        items = groups[0].items if groups else 0
        results.append(
            ArmDifferences(a, b, tuple(pair.seed for pair in pairs), groups, items, None)
        )
    return tuple(results)


def _published(
    metrics: ArmMetrics,
    arms: tuple[str, str],
    pairs: tuple[SeedMatch[int | None], ...],
    decoding: MetricDecoding,
) -> Iterator[GroupDifference]:
    """Yield the groups of which every compared run has an accuracy."""
    for by in _GROUPINGS:
        table = metrics.by_group(by)
        for name in dict.fromkeys(row.cell.group for row in table.table.rows):
            if by == "domain" and name == "all":
                continue
            rows = [
                [
                    table.row(MetricCell("accuracy", arm, decoding, name), seed)
                    for arm, seed in zip(arms, (pair.a, pair.b), strict=True)
                ]
                for pair in pairs
            ]
            values = [one.value - other.value for one, other in rows]
            if any(map(math.isnan, values)):
                continue
            items = rows[0][0].n or 0
            mean = Estimate(float(np.mean(values)), math.nan, math.nan, items, 0)
            kind: Literal["all", "kind", "domain"] = "all" if name == "all" else by
            yield GroupDifference(kind, name, items, tuple(values), mean, same_sign(values))
