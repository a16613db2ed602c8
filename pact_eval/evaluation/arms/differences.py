"""Difference between two arms over their seeds, and the arms that are best or tied."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pact_eval.evaluation.marks import Evidence, evidence
from pact_eval.evaluation.metric_differences import metric_difference
from pact_eval.evaluation.metric_specs import MetricSpec
from pact_eval.evaluation.registry import find_metric, registered_metrics
from pact_eval.evaluation.resampled_groups import ResampledGroup
from pact_eval.stats.crossed import crossed_difference
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_eval.stats.seeds import SignAgreement, same_sign

GroupPairs = Sequence[tuple[ResampledGroup, ResampledGroup]]
"""The same group of items in two arms: one pair of runs per shared seed."""

Generalisation = Literal["new families, same seeds", "new families and new seeds"]
"""The data for which an interval of a difference between arms is made."""

Standing = Literal["best", "tied"]
"""best: shown to be better than every other arm; tied: the best value, or not shown worse."""


@dataclass(frozen=True)
class ArmDifference:
    """The mean difference between two arms over their shared seeds, in one metric.

    Attributes:
        spec: the metric.
        same_seeds: the mean with its interval over families; seeds are held fixed.
        new_seeds: the same mean with its interval over families and seeds; without an interval for
            fewer than three shared seeds.
        sign: whether the difference has the same sign at every seed.
        generalises_to: what `evidence` is about: new seeds too if there are three or more.
        evidence: whether the difference is shown at the 5% level, and by which test.
    """

    spec: MetricSpec
    same_seeds: Estimate
    new_seeds: Estimate
    sign: SignAgreement
    generalises_to: Generalisation
    evidence: Evidence

    @property
    def marked(self) -> bool:
        """Whether the difference is marked: shown at the 5% level."""
        return self.evidence.marked

    @property
    def tested(self) -> Estimate:
        """The mean with the interval that `evidence` is about, for sentences that give one."""
        over_seeds = self.generalises_to == "new families and new seeds"
        return self.new_seeds if over_seeds else self.same_seeds


GroupDifferences = Mapping[str, Mapping[str, ArmDifference]]
"""Differences between two arms by group and metric."""


def arm_difference(metric: str, pairs: GroupPairs) -> ArmDifference:
    """Compare two arms in one metric over the seeds that they share.

    Args:
        metric: name of the metric.
        pairs: the group of items in both arms at each shared seed, one or more.
    """
    entry = find_metric(metric)
    by_seed = [a.difference(b, metric).value for a, b in pairs]
    same_seeds, test = metric_difference(metric, pairs)
    crossed = crossed_difference(by_seed, same_seeds)
    new_seeds = entry.within_difference(crossed.estimate)
    if math.isnan(same_seeds.value):
        new_seeds = replace(new_seeds, reason=same_seeds.reason)
    scope: Generalisation = "new families, same seeds"
    if not math.isnan(new_seeds.low):
        scope = "new families and new seeds"
        marked = bool(crossed.p_value <= LEVEL and entry.spec.better)
        test = evidence("t over seeds and families", crossed.p_value, marked=marked)
    sign = same_sign(by_seed)
    return ArmDifference(entry.spec, same_seeds, new_seeds, sign, scope, test)


def arm_differences(by_group: Sequence[GroupPairs]) -> GroupDifferences:
    """Compare two arms in every resampled metric on every group; see `arm_difference`."""
    return {
        pairs[0][0].name: {
            spec.name: arm_difference(spec.name, pairs)
            for spec in registered_metrics()
            if spec.name in pairs[0][0].drawn
        }
        for pairs in by_group
    }


def standings(
    means: Mapping[str, float],
    spec: MetricSpec,
    differences: Mapping[tuple[str, str], ArmDifference],
) -> dict[str, Standing]:
    """Return which arms are best in a metric, as far as paired differences show it.

    Args:
        means: by arm, the mean over its seeds.
        spec: the metric.
        differences: by the names of two arms, the difference over their shared seeds.

    Returns:
        The arm with the best mean is "best" if it is shown to be better than every other arm.
        Otherwise it is "tied", and so is every arm that is not shown to be worse. Nothing if
        neither direction is better, or fewer than two arms have a value.
    """
    defined = {arm: mean for arm, mean in means.items() if not math.isnan(mean)}
    top = best_mean(means, spec)
    if top is None:
        return {}
    tied = [arm for arm in defined if arm != top and not _shown_worse(arm, top, differences)]
    if not tied:
        return {top: "best"}
    return {arm: "tied" for arm in defined if arm in (top, *tied)}


def best_mean(means: Mapping[str, float], spec: MetricSpec) -> str | None:
    """Return the arm with the best mean in a metric.

    Returns:
        None if neither direction is better, fewer than two arms have a value, or it is infinite.

    Examples:
        >>> best_mean({"a": 0.3, "b": 0.2, "c": math.nan}, find_metric("nll_nats").spec)
        'b'
    """
    defined = {arm: mean for arm, mean in means.items() if not math.isnan(mean)}
    if not spec.better or len(defined) < 2:
        return None
    top = max(defined, key=lambda arm: spec.better * defined[arm])
    return None if math.isinf(defined[top]) else top


def _shown_worse(arm: str, top: str, differences: Mapping[tuple[str, str], ArmDifference]) -> bool:
    """Return whether a paired difference shows that an arm is worse than the top arm."""
    for pair, sign in (((top, arm), 1), ((arm, top), -1)):
        if pair in differences:
            difference = differences[pair]
            return difference.marked and sign * difference.spec.better * _lead(difference) > 0
    return False


def _lead(difference: ArmDifference) -> float:
    """Return the middle of the interval behind the mark, which has the sign that is shown."""
    tested = difference.tested
    middle = (tested.low + tested.high) / 2
    return tested.value if math.isnan(middle) else middle
