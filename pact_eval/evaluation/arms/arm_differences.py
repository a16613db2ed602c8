"""Arms: recipes over several seeds, their means, and the differences between two arms.

A seed of one arm is compared with the same seed of the other arm, on the same items. Mean and
deviation over seeds describe the variation of training. The tests at one seed describe the
uncertainty from one holdout. The mean difference over seeds has one interval: the families of all
runs are resampled together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Literal, TypeVar

import numpy as np

from pact_eval._choices import ClusterUnit
from pact_eval.errors import InputError
from pact_eval.evaluation.calibration_error import ChanceError
from pact_eval.evaluation.comparison import (
    Comparison,
    GroupPairs,
    MetricComparison,
    compare_groups,
    compare_metric,
    items_at_common_views,
    rate_verdict,
)
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import (
    DifferentViews,
    LargeFamilies,
    SmallGroups,
    UnmatchedSeeds,
    small_groups,
)
from pact_eval.evaluation.registry import MetricSpec, find_metric, metric_spec, registered_metrics
from pact_eval.evaluation.resampled_groups import Evidence, ResampledGroup, resample_items
from pact_eval.evaluation.settings import Settings
from pact_eval.progress import tracked
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_eval.stats.seeds import SignAgreement, crossed_difference, same_sign, seed_summary

_Run = TypeVar("_Run")
_Groups = dict[int | None, tuple[ResampledGroup, ...]]


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


def choose_arm(arms: Mapping[str, bool], method: str | None) -> str:
    """Return the arm that the others are compared with.

    Args:
        arms: whether each arm has a seed.
        method: the arm that a user named; None takes the first arm with a seed, or else the first.

    Raises:
        InputError: there is no such arm, or none.

    Examples:
        >>> choose_arm({"base": False, "pact": True}, None)
        'pact'
    """
    if method in arms or (arms and method is None):
        return method or next((arm for arm, seeded in arms.items() if seeded), next(iter(arms)))
    named = "" if method is None else f" of arm {method!r}"
    raise InputError(f"no run{named}; there are {', '.join(arms) or 'none'}")


def sorted_seeds(runs: Mapping[int | None, object]) -> list[int | None]:
    """Return the seeds in ascending order, a run without a seed first."""
    return sorted(runs, key=lambda seed: (seed is not None, seed or 0))


Generalisation = Literal["new families, same seeds", "new families and new seeds"]
"""The data for which an interval of a difference between arms is made."""

Standing = Literal["best", "tied"]
"""best: shown to be better than every other arm; tied: the best value, or not shown worse."""


@dataclass(frozen=True)
class ArmDifference(MetricComparison):
    """One metric of two arms: the means over the seeds that both have, and their difference.

    Attributes:
        new_seeds: the difference with its interval over families and seeds; without an interval for
            fewer than three shared seeds.
        sign: whether the difference has the same sign at every seed.
        generalises_to: what `evidence` and `verdict` are about: new seeds too if there are three or
            more.
    """

    new_seeds: Estimate
    sign: SignAgreement
    generalises_to: Generalisation

    @property
    def tested(self) -> Estimate:
        """The mean with the interval that `evidence` is about, for sentences that give one."""
        over_seeds = self.generalises_to == "new families and new seeds"
        return self.new_seeds if over_seeds else self.difference


def arm_difference(metric: str, pairs: GroupPairs, margin: float | None = None) -> ArmDifference:
    """Compare two arms in one metric over the seeds that they share; see `compare_metric`."""
    entry, same_seeds = find_metric(metric), compare_metric(metric, pairs, margin)
    by_seed = [a.difference(b, metric).value for a, b in pairs]
    crossed = crossed_difference(by_seed, same_seeds.difference)
    new_seeds = entry.within_difference(crossed.estimate)
    if math.isnan(same_seeds.difference.value):
        new_seeds = replace(new_seeds, reason=same_seeds.difference.reason)
    compared = ArmDifference(
        **vars(same_seeds),
        new_seeds=new_seeds,
        sign=same_sign(by_seed),
        generalises_to="new families, same seeds",
    )
    if math.isnan(new_seeds.low):
        return compared
    marked = bool(crossed.p_value <= LEVEL and entry.spec.better)
    return replace(
        compared,
        generalises_to="new families and new seeds",
        evidence=Evidence("t over seeds and families", crossed.p_value, marked=marked),
        verdict=rate_verdict(entry.spec, new_seeds, margin),
    )


def standings(
    means: Mapping[str, float], spec: MetricSpec, leads: Mapping[str, ArmDifference]
) -> dict[str, Standing]:
    """Return which arms are best in a metric, as far as paired differences show it.

    Args:
        means: by arm, the mean over its seeds.
        spec: the metric.
        leads: the best arm minus each other arm with a shared seed, by that arm.

    Returns:
        The arm with the best mean is "best" if it is shown to be better than every other arm.
        Otherwise it is "tied", and so is every arm that is not shown to be worse. Nothing if
        neither direction is better, or fewer than two arms have a value.
    """
    top = best_mean(means, spec)
    if top is None:
        return {}
    worse = {arm for arm, lead in leads.items() if lead.marked and spec.better * _sign(lead) > 0}
    tied = [arm for arm, mean in means.items() if not math.isnan(mean) and arm not in worse]
    return {top: "best"} if tied == [top] else dict.fromkeys(tied, "tied")


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


def _sign(lead: ArmDifference) -> float:
    """Return the middle of the interval behind the mark, which has the sign that is shown."""
    middle = (lead.tested.low + lead.tested.high) / 2
    return lead.tested.value if math.isnan(middle) else middle


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
    unit = metric_spec(metric).difference_unit
    return "" if unit == "score" else unit


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
        raise ValueError(f'expected {expected}, got "{text}"')
    return Margin(float(match[1]), unit)


GroupMatch = SeedMatch[tuple[ResampledGroup, ...]]
"""The groups of two runs with the same seed, in the same order."""

SeedRuns = Mapping[int | None, ScoredItems]
"""The runs of one arm by seed, all on the same items in the same order. The key is None for a run
without a seed, such as the base model."""


@dataclass(frozen=True)
class ArmSummary:
    """One metric of one arm, in the unit of the metric.

    Attributes:
        arm: name of the arm.
        seeds: seeds of its runs, ascending; None for a run without a seed.
        runs: the metric of each run, in the same order; published metrics have no intervals.
        mean: mean over runs; NaN if a run has no value.
        deviation: sample standard deviation over runs (n - 1); NaN for fewer than two.
        reason: why the mean or the deviation is NaN or infinite; otherwise None.
        low: lower end of the 95% interval of the mean over families, with the runs held fixed; NaN
            if there is none, or it was not computed. The interval of ECE is that of the true error,
            and can lie below the mean.
        high: upper end of the interval.
        standing: whether the arm is best, or tied with the best, of those next to it; None if it
            is neither, or no difference was tested.
        calibrated: the same after T(x); None if a run has no calibrator, or T(x) was not requested.
    """

    arm: str
    seeds: tuple[int | None, ...]
    runs: tuple[Estimate, ...]
    mean: float
    deviation: float
    reason: str | None = None
    low: float = math.nan
    high: float = math.nan
    standing: Standing | None = None
    calibrated: ArmSummary | None = None

    @classmethod
    def of(
        cls, arm: str, runs: Mapping[int | None, Estimate], mean: Estimate | None = None
    ) -> ArmSummary:
        """Summarise the runs of an arm.

        Args:
            arm: name of the arm.
            runs: the metric of each run, by seed.
            mean: their mean with its interval over families; None leaves the interval out.

        Examples:
            >>> runs = {seed: Estimate(value, math.nan, math.nan, 324, 162)
            ...         for seed, value in {17: 0.840, 18: 0.821, 19: 0.877}.items()}
            >>> summary = ArmSummary.of("pact", runs)
            >>> round(summary.mean, 3), round(summary.deviation, 3), summary.seeds
            (0.846, 0.028, (17, 18, 19))
        """
        with np.errstate(invalid="ignore"):
            over_seeds = seed_summary([run.value for run in runs.values()])
        return cls(
            arm=arm,
            seeds=tuple(runs),
            runs=tuple(runs.values()),
            mean=over_seeds.mean if mean is None else mean.value,
            deviation=over_seeds.deviation,
            reason=over_seeds.reason,
            low=math.nan if mean is None else mean.low,
            high=math.nan if mean is None else mean.high,
        )

    @property
    def values(self) -> tuple[float, ...]:
        """The value of each run."""
        return tuple(run.value for run in self.runs)

    @property
    def chance(self) -> ChanceError | None:
        """ECE of these runs expected by chance; None for other metrics."""
        return ChanceError.of(self.runs)


def with_standings(
    summaries: Mapping[str, ArmSummary],
    runs: Mapping[str, Mapping[int | None, ResampledGroup]],
    metric: str,
) -> dict[str, ArmSummary]:
    """Say which arms are best or tied in a metric; each is compared with that of the best mean.

    Args:
        summaries: the metric of each arm.
        runs: the runs of arms that can be compared, by seed.
        metric: its name.
    """
    spec, means = metric_spec(metric), {arm: summaries[arm].mean for arm in runs}
    top = best_mean(means, spec)
    if top is None:
        return {**summaries}
    leads = {
        arm: arm_difference(metric, [(match.a, match.b) for match in matches])
        for arm, matches in against(runs, top).items()
        if matches and not math.isnan(means[arm])
    }
    found = standings(means, spec, leads)
    return {arm: replace(one, standing=found.get(arm)) for arm, one in summaries.items()}


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
    differences: Mapping[str, Mapping[str, ArmDifference]]


@dataclass(frozen=True)
class ArmsComparison:
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


def compare_arms(
    arms: Mapping[str, SeedRuns],
    settings: Settings,
) -> ArmsComparison:
    """Compare the first arm with each of the others.

    Args:
        arms: the runs of each arm by seed; all runs have the same items in the same order.
        settings: grouping, bootstrap and margin.

    Returns:
        Summaries of every arm, and the paired tests by seed.

    Raises:
        InputError: there are fewer than two arms, or an arm has no run.
    """
    if len(arms) < 2 or not all(arms.values()):
        raise InputError(f"expected two arms or more with runs, got {', '.join(arms) or 'none'}")
    keys = [(arm, seed) for arm, of_arm in arms.items() for seed in sorted_seeds(of_arm)]
    labels = [arm if seed is None else f"{arm}, seed {seed}" for arm, seed in keys]
    alike, different = items_at_common_views([arms[arm][seed] for arm, seed in keys], labels)
    drawn: dict[str, _Groups] = {name: {} for name in arms}
    for (arm, seed), items in zip(keys, alike, strict=True):
        drawn[arm][seed] = resample_items(items, settings, settings.by)
    first, *others = arms
    matches = tracked(against(drawn, first).items(), "Comparing arms", "arms")
    pairs = tuple(
        ArmPair(
            first,
            other,
            {match.seed: compare_groups(match.a, match.b, settings) for match in of_pair},
            _differences(of_pair, settings.margin),
        )
        for other, of_pair in matches
    )
    shared = next(iter(drawn[first].values()))
    return ArmsComparison(
        groups=tuple(group.name for group in shared),
        arms=_summarise(drawn),
        pairs=pairs,
        notes=(
            *different,
            *LargeFamilies.of(alike[0]),
            *small_groups({group.name: group.items.n_clusters for group in shared}, alike[0].unit),
            *(note for other in others for note in _note_unmatched(first, other, arms)),
        ),
        unit=alike[0].unit,
    )


def _summarise(drawn: Mapping[str, _Groups]) -> tuple[Arm, ...]:
    """Summarise every metric of every arm on every group, with the arms that are best or tied."""
    summaries: dict[str, dict[str, dict[str, ArmSummary]]] = {arm: {} for arm in drawn}
    for at, group in enumerate(next(iter(next(iter(drawn.values())).values()))):
        runs = {
            arm: {seed: groups[at] for seed, groups in by_seed.items()}
            for arm, by_seed in drawn.items()
        }
        for spec in tracked(registered_metrics(), "Summarising arms", "metrics"):
            of_arms = {
                arm: ArmSummary.of(
                    arm, {seed: _estimate(run, spec.name) for seed, run in by_seed.items()}
                )
                for arm, by_seed in runs.items()
            }
            for arm, summary in with_standings(of_arms, runs, spec.name).items():
                summaries[arm].setdefault(group.name, {})[spec.name] = summary
    return tuple(Arm(arm, tuple(drawn[arm]), of_arm) for arm, of_arm in summaries.items())


def _estimate(group: ResampledGroup, metric: str) -> Estimate:
    """Return a metric of one run: the value alone, but the noise floor with it."""
    if find_metric(metric).noise_floor:
        return replace(group.estimate(metric), value=group.drawn[metric].value)
    basis = group.basis(metric)
    return Estimate.point(group.drawn[metric].value, basis.units, basis.families)


def _differences(
    matches: Sequence[GroupMatch], margin: float | None
) -> dict[str, dict[str, ArmDifference]]:
    """Compare two arms in every resampled metric on every group; see `arm_difference`."""
    return {
        pairs[0][0].name: {
            spec.name: arm_difference(spec.name, pairs, margin)
            for spec in registered_metrics()
            if spec.name in pairs[0][0].drawn
        }
        for pairs in by_group(matches)
    }


def by_group(matches: Sequence[GroupMatch]) -> list[GroupPairs]:
    """Return the runs of two arms group by group: one pair per shared seed."""
    groups = range(len(matches[0].a)) if matches else ()
    return [[(match.a[at], match.b[at]) for match in matches] for at in groups]


def _note_unmatched(a: str, b: str, arms: Mapping[str, SeedRuns]) -> list[UnmatchedSeeds]:
    """Return a note with the seeds of two arms that have no match in the other arm."""
    seeds_a, seeds_b = (sorted_seeds(arms[name]) for name in (a, b))
    if [None] in (seeds_a, seeds_b) or seeds_a == seeds_b:
        return []
    only_a = tuple(seed for seed in seeds_a if seed not in seeds_b)
    only_b = tuple(seed for seed in seeds_b if seed not in seeds_a)
    return [UnmatchedSeeds(a, b, only_a, only_b, len(seeds_a) - len(only_a))]
