"""Metrics of groups of items on resamples of families: values, intervals and differences.

A group of items of a run has each metric as a function of how often a family is drawn. Runs on the
same items see the same resamples, so their metrics can be subtracted, and averaged over seeds.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final, Literal, NamedTuple, TypeVar

import numpy as np

from pact_eval._choices import GroupBy
from pact_eval._typing import FloatArray, IntArray
from pact_eval.evaluation.calibration_error import CalibrationError
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import NOISE
from pact_eval.evaluation.registry import Basis, Inference, Metric, find_metric, metrics_for
from pact_eval.evaluation.settings import Settings
from pact_eval.progress import step
from pact_eval.stats.bootstrap import Resampled, TotalsStatistic, resample, same_stream
from pact_eval.stats.estimate import LEVEL, ClusterText, Estimate
from pact_eval.stats.multiplicity import holm
from pact_eval.stats.rates import few_clusters, few_outcomes, lowest_share, without_interval
from pact_eval.stats.summed_intervals import CombinedDifference, correlations, summed_interval

_OF_ECE: Final = " (differences of ECE)"


_Value = TypeVar("_Value")


class Computed(Mapping[str, _Value]):
    """Values by metric, each computed when it is first asked for.

    A first screen of many runs shows accuracy alone; to compare all metrics takes most of its time.

    Args:
        names: of the metrics, in the order of the report.
        compute: computes the value of a metric from its name.
    """

    def __init__(self, names: Iterable[str], compute: Callable[[str], _Value]) -> None:
        self._names = dict.fromkeys(names)
        self._compute = cache(compute)

    def __getitem__(self, name: str) -> _Value:
        if name not in self._names:
            raise KeyError(name)
        return self._compute(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class DifferencePart(NamedTuple):
    """One run in a difference: a weighted sum of one metric over runs.

    Attributes:
        weight: factor of the run; 1 and -1 for A - B.
        estimate: the metric of the run with its interval.
        drawn: the metric on the resamples, which all runs share, with its statistic.
    """

    weight: float
    estimate: Estimate
    drawn: Resampled


def ece_difference(drawn: Resampled, parts: Sequence[DifferencePart]) -> CombinedDifference:
    r"""Return the inference on a difference of ECE, or of another metric with a noise floor.

    The interval is for the difference of true calibration errors. It combines the debiased values
    of the runs and the ends of their intervals (`summed_interval`). The value is the difference of
    the published ECE, which can lie outside: the noise floors of two runs differ if one is surer
    than the other.

    The errors of two runs on the same items are correlated. Two estimates of this are made, and the
    one is used that makes the interval longer: the correlation of ECE over resamples of families,
    and that of overconfidence, :math:`\pm\sum (c - y)`, over families. The first is too high for
    runs whose gaps are mostly noise, the second for runs whose ECE is near its noise floor. Without
    them, intervals cover 91% if one run is over- and the other underconfident.

    An interval of 95% reaches at most from the lowest A minus the highest B to the highest A minus
    the lowest B, or to 0 if that is further.

    Args:
        drawn: the weighted sum on resamples.
        parts: each run with its weight in the sum, on the same resamples.
    """
    plain, estimates = drawn.estimate(), [part.estimate for part in parts]
    missing = [estimate for estimate in (*estimates, plain) if math.isnan(estimate.low)]
    if missing:
        return CombinedDifference(drawn, None, _OF_ECE, reason=missing[0].reason)
    weights = np.array([part.weight for part in parts])
    centres = [
        estimate.debiased if isinstance(estimate, CalibrationError) else estimate.value
        for estimate in estimates
    ]
    lows, highs = np.array([(estimate.low, estimate.high) for estimate in estimates]).T
    of_ece = correlations([part.drawn.replicates for part in parts])
    of_gaps = correlations([_overconfidence(part.drawn) for part in parts])
    same_sign = np.outer(weights, weights) > 0
    longer = np.where(same_sign, np.maximum(of_ece, of_gaps), np.minimum(of_ece, of_gaps))
    summed = summed_interval(weights, centres, lows, highs, longer, n_clusters=drawn.n_clusters)

    def ends(lows: FloatArray, highs: FloatArray) -> tuple[float, float]:
        low, high = np.where(weights > 0, (lows, highs), (highs, lows))
        return float(weights @ low), float(weights @ high)

    lowest, highest = ends(lows, highs)
    possible, allowed = ends(0 * lows, 0 * lows + 1), (min(lowest, 0.0), max(highest, 0.0))
    return CombinedDifference(drawn, summed, _OF_ECE, possible, allowed, plain.reason)


def _overconfidence(drawn: Resampled) -> FloatArray:
    """Return (F,) sums of confidence minus outcome by family, with the sign of their total."""
    sums: FloatArray = np.zeros(drawn.n_clusters)
    if isinstance(drawn.statistic, TotalsStatistic):
        *_, gaps = drawn.statistic.by_cluster()  # (bins, F)
        sums = np.asarray(gaps.sum(axis=0), dtype=np.float64)
    return sums if sums.sum() >= 0 else -sums


# Families with an error below which their number is the larger part of what is not known.
_FEW_ERRORS: Final = 10

_AnyEstimate = TypeVar("_AnyEstimate", bound=Estimate)


def too_few(metric: Metric, clusters: int, runs: Sequence[ScoredItems]) -> ClusterText | None:
    """Return the reason for no interval of a metric or difference; None if enough families count.

    Args:
        metric: entry of the registry.
        clusters: number of families that count.
        runs: the same items of one or more runs; an item is wrong if it is wrong in any of them.
    """
    reason = few_clusters(clusters)
    if reason is not None or clusters < 2 or not metric.driven_by_errors:
        return reason
    wrong, right = (_families(metric, runs, right=outcome) for outcome in (False, True))
    return few_outcomes(wrong, right)


def reaching_to_fewer_errors(
    metric: Metric, estimate: _AnyEstimate, items: ScoredItems
) -> _AnyEstimate:
    """Return a loss whose interval allows for its number of errors being too large by chance.

    With fewer than 10 families with an error, the lower end is at most the loss times
    `stats.lowest_share` of their number. ECE has no interval then if calibration is rejected: an
    interval that excludes 0, as the test does, would not allow for the number of errors.

    Args:
        metric: entry of the registry.
        estimate: the metric of a run.
        items: of the run.
    """
    if not metric.driven_by_errors or math.isnan(estimate.low):
        return estimate
    count = _families(metric, [items], right=False)
    if count >= _FEW_ERRORS:
        return estimate
    if isinstance(estimate, CalibrationError) and estimate.rejected:
        few = f"{count} {{clusters}} with an error, fewer than {_FEW_ERRORS}"
        return without_interval(
            estimate, ClusterText(f"{few}, and calibration is rejected: no interval")
        )
    share = lowest_share(count, estimate.clusters)
    return replace(estimate, low=min(estimate.low, share * estimate.value))


def _families(metric: Metric, runs: Sequence[ScoredItems], *, right: bool) -> int:
    """Return how many families have an item that is right, or wrong, in any of the runs."""
    members = [metric.members(run) for run in runs]
    rows = np.logical_or.reduce([run.correct == right for run in members])
    return members[0].clusters.count(rows)


TestName = Literal["interval", "t over seeds and families"]
"""What decides whether a difference is marked."""


@dataclass(frozen=True)
class Evidence:
    """Test of a difference, and its mark.

    Attributes:
        test: the test behind the mark.
        p_value: its two-sided p-value; NaN if there is none.
        adjusted_p_value: the same adjusted by Holm for all tests that are named together, or None
            if it is tested alone.
        tests: number of tests that were adjusted together; 0 if it is tested alone.
        marked: whether the difference is shown at the 5% level, after the adjustment. False for
            metrics of which neither direction is better.
    """

    test: TestName
    p_value: float
    adjusted_p_value: float | None = None
    tests: int = 0
    marked: bool = False

    @property
    def deciding(self) -> float:
        """The p-value that decides: adjusted if other tests are adjusted with it."""
        return self.p_value if self.adjusted_p_value is None else self.adjusted_p_value


def sign_of(difference: Estimate) -> int:
    """Return the sign of a difference: of its interval if that excludes 0, else of its value.

    The difference of two published ECE can lie outside the interval of the true difference.

    Examples:
        >>> sign_of(Estimate(0.01, -0.09, -0.02, 324, 162))
        -1
        >>> sign_of(Estimate(0.01, -0.02, 0.04, 324, 162))
        1
    """
    if difference.excludes_zero:
        return 1 if difference.low > 0 else -1
    return (difference.value > 0) - (difference.value < 0)


def adjusted(tests: Sequence[Evidence]) -> list[Evidence]:
    """Adjust the p-values of several differences together, by Holm's procedure.

    Args:
        tests: those that are named together; a p-value of NaN is no test.

    Examples:
        >>> one, two = (Evidence("interval", p, marked=p <= 0.05) for p in (0.03, 0.01))
        >>> [(test.adjusted_p_value, test.marked) for test in adjusted([one, two])]
        [(0.03, True), (0.02, True)]
    """
    together = holm(np.array([test.p_value for test in tests], dtype=np.float64))
    return [
        replace(
            test,
            adjusted_p_value=math.nan if math.isnan(p_value) else p_value,
            tests=int(np.isfinite(together).sum()),
            marked=bool(test.marked and p_value <= LEVEL),
        )
        for test, p_value in zip(tests, together.tolist(), strict=True)
    ]


@dataclass(frozen=True)
class ResampledGroup:
    """A group of items of one run, with the resamples of every metric.

    Attributes:
        name: "all", or the kind, domain or source family.
        items: the items of the group.
        drawn: by metric name, its value and its replicates. Groups of the same items in two runs
            have the same resamples, so their replicates can be subtracted. Metrics of Score items
            resample only the families with such items, so that every group has the same interval.
        bases: by metric name, the units from which the metric is computed, if not all items.
        rng: source of the resamples in its initial state, for intervals that draw more.
    """

    name: str
    items: ScoredItems
    drawn: Mapping[str, Resampled]
    bases: Mapping[str, Basis]
    rng: np.random.Generator
    _estimates: dict[str, Estimate] = field(default_factory=dict, repr=False, compare=False)

    def point(self, metric: str) -> Estimate:
        """Return a metric without an interval; nothing is resampled for it."""
        basis, value = self.basis(metric), self.drawn[metric].value
        undefined = math.isnan(value) and bool(basis.reason_if_none)
        reason = ClusterText(basis.reason_if_none) if undefined else None
        return Estimate.point(value, basis.units, basis.families, reason)

    def estimate(self, metric: str) -> Estimate:
        """Return a metric with its interval; computed once, since a run is in several pairs."""
        if metric in self._estimates:
            return self._estimates[metric]
        entry, undefined = find_metric(metric), self.undefined_reason(metric)
        if not entry.defined_for(self.items.known):
            return Estimate.point(math.nan, reason=undefined)
        with step("Computing intervals"):
            basis = self.basis(metric)
            drawn = entry.interval(self.items, self.drawn[metric], same_stream(self.rng))
            few = too_few(entry, basis.families, [self.items])
            estimate = without_interval(entry.within_bounds(drawn), few)
            estimate = reaching_to_fewer_errors(entry, estimate, self.items)
            reason = undefined or estimate.reason
            self._estimates[metric] = replace(
                estimate, n=basis.units, clusters=basis.families, reason=reason
            )
        return self._estimates[metric]

    def difference(self, other: ResampledGroup, metric: str) -> Resampled:
        """Return a metric of this group minus the same metric of these items in another run."""
        return self.drawn[metric] - other.drawn[metric]

    def basis(self, metric: str) -> Basis:
        """Return the items, pairs or errors from which a metric is computed."""
        return self.bases.get(metric) or Basis(len(self.items), self.items.n_clusters, "")

    def undefined_reason(self, metric: str) -> ClusterText | None:
        """Return why no item of the group has the metric; None if some items have it."""
        basis = self.basis(metric)
        undefined = not basis.units and bool(basis.reason_if_none)
        return ClusterText(basis.reason_if_none) if undefined else None


_MOST_RESAMPLES: Final = 10_000
_FEWEST_RESAMPLES: Final = 200
_LARGE_RESAMPLES: Final = 1_000
# Items times resamples: up to the first, 10,000 resamples; up to the second, 1,000.
_ITEM_DRAWS: Final = 200_000_000
_LARGE_ITEM_DRAWS: Final = 2_000_000_000


def default_resamples(items: int) -> int:
    """Return the default number of resamples; many items need fewer, as their intervals are narrow.

    The default is 10,000 up to 20,000 items. It falls to 1,000 at 200,000 items and stays there up
    to 2,000,000; then it falls to 200.

    Examples:
        >>> [default_resamples(n) for n in (324, 100_000, 1_000_000, 10_000_000)]
        [10000, 2000, 1000, 200]
    """
    n = max(items, 1)
    large = max(_FEWEST_RESAMPLES, min(_LARGE_RESAMPLES, _LARGE_ITEM_DRAWS // n))
    return max(large, min(_MOST_RESAMPLES, _ITEM_DRAWS // n))


def point_estimates(
    items: ScoredItems, by: GroupBy | None = None, names: Sequence[str] | None = None
) -> dict[str, dict[str, Estimate]]:
    """Return metrics of all items and of each group, without intervals.

    Args:
        items: the items of a run under one decoding.
        by: kind, domain or source_family; None has no group but all items.
        names: names of the metrics; None uses every reported metric that is defined for such items.

    Returns:
        The estimates by group, all items first, and by metric.
    """
    entries = _entries(items, names)
    rows_by_group = {"all": None} if by is None else items.rows_by_group(by)
    estimates = {}
    for name, rows in rows_by_group.items():
        members = items if rows is None else items.taken(rows)
        group = _draw_group(name, members, np.random.default_rng(0), 1, entries)
        estimates[name] = {metric: group.point(metric) for metric in group.drawn}
    return estimates


def _entries(items: ScoredItems, names: Sequence[str] | None) -> tuple[Metric, ...]:
    return metrics_for(items.contexts) if names is None else tuple(map(find_metric, names))


def resampled_groups(
    items: ScoredItems,
    by: GroupBy | None = None,
    *,
    rng: np.random.Generator,
    resamples: int | None = None,
    names: Sequence[str] | None = None,
) -> tuple[ResampledGroup, ...]:
    """Resample metrics on all items and on each group; each is drawn once.

    The items keep their groups for further calls that agree on the state of the generator, the
    number of resamples and the metrics. Items that were read from a file keep nothing; see
    `ScoredItems.once`.

    Args:
        items: the items of a run under one decoding.
        by: kind, domain or source_family; None has no group but all items.
        rng: source of the resamples, whose state does not change; every group starts from it.
        resamples: bootstrap resamples of families; None uses `default_resamples`.
        names: names of the metrics; None uses every reported metric that is defined for such items.

    Returns:
        All items first, then the groups in the order of the report.
    """
    resamples = resamples or default_resamples(len(items))
    entries = _entries(items, names)
    key = (pickle.dumps(rng.bit_generator.state), resamples, entries)
    families = items.with_sorted_families()  # a copy, to which the groups may refer

    def group(name: str, rows: IntArray | None = None) -> ResampledGroup:
        if rows is None or len(rows) == len(items):
            drawn = items.once(
                ("all", key), lambda: _draw_group(name, families, rng, resamples, entries)
            )
            return drawn if drawn.name == name else replace(drawn, name=name)
        return items.once(
            (by, name, key),
            lambda: _draw_group(name, families.taken(rows), rng, resamples, entries),
        )

    if by is None:
        return (group("all"),)
    return tuple(group(name, rows) for name, rows in families.rows_by_group(by).items())


def resample_items(
    items: ScoredItems,
    settings: Settings,
    by: GroupBy | None = None,
    names: Sequence[str] | None = None,
) -> tuple[ResampledGroup, ...]:
    """Resample the groups of a run with the seed and the number of resamples of settings."""
    rng, resamples = settings.rng(), settings.resamples
    return resampled_groups(items, by, rng=rng, resamples=resamples, names=names)


def _draw_group(
    name: str,
    items: ScoredItems,
    rng: np.random.Generator,
    resamples: int,
    entries: Sequence[Metric],
) -> ResampledGroup:
    drawn: dict[str, Resampled] = {}
    bases: dict[str, Basis] = {}
    for of_scores in (False, True):
        chosen = [metric for metric in entries if ("score items" in metric.needs) == of_scores]
        if not chosen:
            continue
        members = chosen[0].members(items)
        reduced = {metric.name: metric.reduced(members) for metric in chosen}
        bases |= {key: one.basis for key, one in reduced.items() if one.basis is not None}
        drawn |= resample(
            {key: one.statistic for key, one in reduced.items()},
            n_clusters=members.n_clusters,
            n=len(members),
            rng=same_stream(rng),
            resamples=resamples,
        )
    return ResampledGroup(name, items, drawn, bases, same_stream(rng))


def metric_difference(
    metric: str, pairs: Sequence[tuple[ResampledGroup, ResampledGroup]]
) -> tuple[Estimate, Evidence]:
    """Return A minus B in one metric with its interval and evidence: the mean over pairs of runs.

    Args:
        metric: name of the metric.
        pairs: the same group of items in A and in B; one pair per seed.

    Returns:
        The difference with its interval over families, and whether this interval shows it.
    """
    entry = find_metric(metric)
    drawn = Resampled.mean([a.difference(b, metric) for a, b in pairs])
    groups = [group for pair in pairs for group in pair]
    signs = np.tile([1, -1], len(pairs)) / len(pairs)
    inference: Inference = (
        ece_difference(drawn, _parts(metric, groups, signs))
        if entry.noise_floor
        else entry.difference(drawn)
    )
    estimate = entry.within_difference(inference.estimate())
    ends = (estimate.low, estimate.high, estimate.value)
    if all(abs(end) <= NOISE["float32"] for end in ends):
        # Of two engines, an interval within rounding may exclude 0.
        reason = ClusterText("no difference beyond the rounding of float32")
        estimate = replace(estimate, low=math.nan, high=math.nan, reason=reason)
    # Of rates over the errors of a run, each run needs enough of them.
    fewest = min(group.basis(metric).families for group in groups)
    estimate = _of_runs(metric, estimate, groups, fewest)
    if math.isnan(estimate.low):
        return estimate, Evidence("interval", math.nan)
    marked = bool(estimate.excludes_zero and entry.spec.better)
    return estimate, Evidence("interval", inference.p_value(), marked=marked)


def _parts(
    metric: str, groups: Sequence[ResampledGroup], weights: FloatArray
) -> list[DifferencePart]:
    numbers = zip(weights.tolist(), groups, strict=True)
    return [DifferencePart(w, group.estimate(metric), group.drawn[metric]) for w, group in numbers]


def mean_estimate(groups: Sequence[ResampledGroup], metric: str) -> Estimate:
    """Return the mean of a metric over runs, with its 95% interval over families; runs are fixed.

    Args:
        groups: the same group of items in each run, one or more.
        metric: name of the metric.

    Returns:
        The estimate. For one run it is `ResampledGroup.estimate`; for several, `n` and `clusters`
        are those of one run.
    """
    if len(groups) == 1:
        return groups[0].estimate(metric)
    entry = find_metric(metric)
    drawn = Resampled.mean([group.drawn[metric] for group in groups])
    if entry.noise_floor:
        parts = _parts(metric, groups, np.full(len(groups), 1 / len(groups)))
        estimate = ece_difference(drawn, parts).estimate()
    else:
        estimate = entry.interval(groups[0].items, drawn, same_stream(groups[0].rng))
    return _of_runs(metric, entry.within_bounds(estimate), groups)


def _of_runs(
    metric: str, estimate: Estimate, groups: Sequence[ResampledGroup], fewest: float = math.inf
) -> Estimate:
    """Return an estimate with what it rests on, without an interval if too few families count.

    Args:
        metric: name of the metric.
        estimate: of the runs together.
        groups: the same group of items in each run.
        fewest: families that count, if these are fewer than those of the runs together.
    """
    basis = joint_basis(groups, metric)
    clusters = int(min(basis.families, fewest))
    few = too_few(find_metric(metric), clusters, [group.items for group in groups])
    estimate = without_interval(estimate, few)
    reasons = (group.undefined_reason(metric) for group in groups)
    reason = next(filter(None, reasons), estimate.reason)
    return replace(estimate, n=basis.units, clusters=basis.families, reason=reason)


def joint_basis(groups: Sequence[ResampledGroup], metric: str) -> Basis:
    """Return the items, pairs or errors from which a difference between runs is computed.

    Args:
        groups: the same group of items in each run, one or more.
        metric: name of the metric.

    Returns:
        The basis of the runs. If it depends on the run (errors), it covers the items that count in
        any run.
    """
    bases = [group.basis(metric) for group in groups]
    masks = [basis.rows for basis in bases if basis.rows is not None]
    if len(masks) < len(bases):
        return min(bases, key=lambda basis: basis.units)
    rows = np.logical_or.reduce(masks)
    families = groups[0].items.clusters.count(rows)
    return Basis(int(rows.sum()), families, bases[0].reason_if_none, rows)
