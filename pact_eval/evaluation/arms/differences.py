"""Difference between two arms over their seeds, and the arms that are best or tied."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Literal, TypeVar

from pact_eval.evaluation.combined_differences import Evidence, evidence
from pact_eval.evaluation.metric_differences import metric_difference
from pact_eval.evaluation.metric_specs import MetricSpec
from pact_eval.evaluation.registry import find_metric, metric_spec, registered_metrics
from pact_eval.evaluation.resampled_groups import ResampledGroup
from pact_eval.numbers import Unit
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_eval.stats.seeds import SignAgreement, crossed_difference, same_sign

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


_UNIT_WORDS: Final[dict[Unit, str]] = {
    "percent": "points",
    "points": "points",
    "nats": "nats",
    "levels": "levels",
    "score": "",
}
_MARGIN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


@dataclass(frozen=True, slots=True)
class Margin:
    """A distance between two values of a metric, with its unit.

    Attributes:
        amount: at least 0.
        unit: points, nats, levels, or nothing (Brier).

    Examples:
        >>> margin = Margin(2.0, "points")
        >>> str(margin), margin.distance
        ('2 points', 0.02)
    """

    amount: float
    unit: str

    @property
    def distance(self) -> float:
        """The distance in the scale of values: rates are fractions."""
        return self.amount / 100 if self.unit == "points" else self.amount

    def __str__(self) -> str:
        amount = f"{self.amount!r}".removesuffix(".0")
        return f"{amount} {self.unit[:-1] if self.amount == 1 else self.unit}".strip()


NO_MARGIN: Final = Margin(0.0, "")


def margin_unit(metric: str) -> str:
    """Return the unit of differences of a metric; empty if it has none.

    Examples:
        >>> margin_unit("accuracy"), margin_unit("score_mae"), margin_unit("brier")
        ('points', 'levels', '')
    """
    return _UNIT_WORDS[metric_spec(metric).unit]


def parse_margin(text: str, metric: str) -> Margin:
    """Read a margin as hypotheses write it.

    Args:
        text: a number and the unit of the metric's differences.
        metric: name of a registered metric.

    Raises:
        ValueError: it is not a number of at least 0 in that unit.

    Examples:
        >>> parse_margin("2 points", "accuracy")
        Margin(amount=2.0, unit='points')
        >>> parse_margin("2", "accuracy")
        Traceback (most recent call last):
            ...
        ValueError: expected a number of points, such as "2 points", got "2"
    """
    unit = margin_unit(metric)
    match = _MARGIN.fullmatch(text.strip())
    if (
        match is None
        or match[2] not in ({unit, unit[:-1]} if unit else {""})
        or not math.isfinite(float(match[1]))
    ):
        expected = f'a number of {unit}, such as "2 {unit}"' if unit else 'a number, such as "0.01"'
        message = f'expected {expected}, got "{text}"'
        raise ValueError(message)
    return Margin(float(match[1]), unit)
