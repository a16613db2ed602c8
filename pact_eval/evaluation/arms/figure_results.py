"""Results behind the figures of arms: main comparison, ECE by kind, and the sweep of K."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from pact_eval._choices import Decoding, GroupBy
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_differences import (
    ArmSummary,
    SeedMatch,
    against,
    arm_difference,
    by_group,
)
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics, MetricCell
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.registry import (
    MetricDecoding,
    MetricSpec,
    find_metric,
    metric_spec,
    registered_metrics,
)
from pact_eval.evaluation.report import swept_group
from pact_eval.evaluation.resampled_groups import ResampledGroup, mean_estimate, resample_items
from pact_eval.evaluation.settings import Settings
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.seeds import SignAgreement, same_sign

SWEPT_METRICS: Final = ("accuracy", "view_tv")
"""Metrics of the sweep of K."""

Source: TypeAlias = Experiment | ArmMetrics
"""Where the numbers of a figure are from: runs, or published metrics, which have no intervals."""


@dataclass(frozen=True)
class MetricMeans:
    """One metric of every arm.

    Attributes:
        spec: the metric.
        arms: the arms, in the order of the runs.
        items: number of items of every run.
        families: number of their families; None for published metrics, which have no intervals.
    """

    spec: MetricSpec
    arms: tuple[ArmSummary, ...]
    items: int
    families: int | None


@dataclass(frozen=True)
class EceByKind:
    """ECE of every arm by field kind.

    Attributes:
        kinds: by name ("all" first), the number of items and the arms.
        items: number of all items.
        families: number of their families; None for published metrics, which have no intervals.
    """

    kinds: Mapping[str, tuple[int, tuple[ArmSummary, ...]]]
    items: int
    families: int | None


@dataclass(frozen=True)
class ArmSweep:
    """One metric of one arm at every number of views.

    Attributes:
        arm: name of the arm.
        views: the numbers of views at which the metric is defined, ascending.
        means: the metric at each of `views`.
    """

    arm: str
    views: tuple[int, ...]
    means: tuple[ArmSummary, ...]


@dataclass(frozen=True)
class ViewsSweep:
    """One metric of every arm against the number of views.

    Attributes:
        spec: the metric.
        arms: the arms, in the order of the runs, except those that have the metric nowhere.
        items: number of items of every run; view TV is of those shown in more than one order.
        families: number of their families; None for a published sweep, which has no intervals.
    """

    spec: MetricSpec
    arms: tuple[ArmSweep, ...]
    items: int
    families: int | None


def main_comparison(source: Source, decoding: Decoding = "single") -> tuple[MetricMeans, ...]:
    """Return the rates in the figure of arms, for every arm over all items.

    Args:
        source: runs, under the decoding of their settings, or published metrics.
        decoding: of published metrics.

    Returns:
        One result per metric. A metric that no arm has (view TV of one view) is left out.

    Raises:
        InputError: there is no run, the item sets differ, or no arm has any of these rates.
    """
    counts = _counts(source)
    rates = (spec for spec in registered_metrics("full", "figure of arms"))
    means = [
        MetricMeans(spec, _means(source, spec.name, decoding), *counts)
        for spec in rates
        if spec.unit == "percent"
    ]
    known = tuple(one for one in means if not all(map(_is_undefined, one.arms)))
    if not known:
        raise InputError(f"no rate of all items under the decoding {decoding}")
    return known


def ece_by_kind(source: Source, decoding: Decoding = "single") -> EceByKind:
    """Return the ECE of every arm by field kind, before and after T(x).

    Args:
        source: runs, under the decoding of their settings, or published metrics.
        decoding: of published metrics.

    Raises:
        InputError: there is no run, the item sets differ, or no arm has an ECE.
    """
    counts = _counts(source)
    if isinstance(source, ArmMetrics):
        source = source.by_group("kind")
        names = dict.fromkeys(row.cell.group for row in source.table.rows)
        items = {name: _published_items(source, name) for name in names}
    else:
        source.require("ece")
        groups = source.evaluation(source.runs[0], calibrated=False).groups
        items = {group.name: group.items for group in groups}
    kinds = {name: (n, _means(source, "ece", decoding, name)) for name, n in items.items()}
    kinds = {name: kind for name, kind in kinds.items() if not all(map(_is_undefined, kind[1]))}
    if not kinds:
        raise InputError(f"no ECE under the decoding {decoding}")
    return EceByKind(kinds, *counts)


def _counts(source: Source) -> tuple[int, int | None]:
    """Return the number of all items, and of their families; None for published metrics."""
    if isinstance(source, ArmMetrics):
        return _published_items(source, "all"), None
    views = source.shared_items().predictions
    return len(views), len(set(views.family.tolist()))


def _published_items(metrics: ArmMetrics, group: str) -> int:
    """Return the largest number of items of published metrics; 0 if none is known."""
    cells = ((row.cell, row.n or 0) for row in metrics.table.rows)
    items = (n for cell, n in cells if (cell.metric, cell.group) == ("accuracy", group))
    return max(items, default=0)


def _means(
    source: Source, metric: str, decoding: Decoding, group: str = "all"
) -> tuple[ArmSummary, ...]:
    """Return the means of every arm; also after T(x) if that changes the metric and all have it."""
    entry = find_metric(metric)
    if isinstance(source, ArmMetrics):
        changed = (entry.noise_floor or entry.uses_all_views) and not entry.argmax_only
        views: Decoding = "ensemble" if entry.uses_all_views else decoding
        raw, after = (
            source.summaries(source.arms, metric, MetricDecoding(views, calibrated), group)
            for calibrated in (False, True)
        )
        after = {arm: mean for arm, mean in after.items() if changed and not math.isnan(mean.mean)}
    else:
        raw = {arm: _mean_of_runs(source, arm, metric, group) for arm in source.arms}
        after = {
            arm: _mean_of_runs(source, arm, metric, group, calibrated=True)
            for arm, runs in source.arms.items()
            if entry.noise_floor and all(run.calibrator is not None for run in runs)
        }
    return tuple(replace(mean, calibrated=after.get(arm)) for arm, mean in raw.items())


def _is_undefined(arm: ArmSummary) -> bool:
    return math.isnan(arm.mean) and arm.calibrated is None


def _mean_of_runs(
    experiment: Experiment, arm: str, metric: str, name: str, *, calibrated: bool = False
) -> ArmSummary:
    """Return the mean of an arm in a group of items."""
    runs = experiment.arms[arm]
    groups = [
        group
        for run in runs
        for group in _groups(experiment, run, calibrated=calibrated)
        if group.name == name
    ]
    return _summary(arm, runs, groups, metric)


def _summary(
    arm: str, runs: Sequence[ExperimentRun], groups: Sequence[ResampledGroup], metric: str
) -> ArmSummary:
    """Return the mean of a metric over the runs of an arm, with its interval over families."""
    seeds = (run.seed for run in runs)
    by_seed = {seed: group.estimate(metric) for seed, group in zip(seeds, groups, strict=True)}
    return ArmSummary.of(arm, by_seed, mean_estimate(groups, metric))


def _groups(
    experiment: Experiment,
    run: ExperimentRun,
    *,
    calibrated: bool = False,
    by: GroupBy | None = None,
    names: Sequence[str] | None = None,
) -> tuple[ResampledGroup, ...]:
    """Return all items of a run, then those of each group, with the resamples of some metrics."""
    settings = experiment.settings
    items = experiment.scored(run, settings.decoding, calibrated=calibrated).over(settings.unit)
    by = by or settings.by
    items = items.grouped(by, settings.bins)
    return resample_items(items, settings, by, names)


def views_sweep(experiment: Experiment) -> tuple[ViewsSweep, ...]:
    """Return accuracy and view TV of every arm against the number of views.

    The values of a run are those of `Experiment.sweep` without calibration. On purpose, this is so
    even if the experiment applies calibrators: not every run of an arm needs to have one.

    Returns:
        One result per metric; a metric that no arm has at any number of views is left out.

    Raises:
        InputError: there is no run, the item sets differ, every run has one view, or the views of
            an item have no answer in common.
    """
    counts = _counts(experiment)
    experiment.require("view_tv")
    arms = {
        arm: [run for run in runs if run.predictions.k > 1] for arm, runs in experiment.arms.items()
    }
    swept = [_arm_sweeps(experiment.settings, arm, runs) for arm, runs in arms.items() if runs]
    if not swept:
        raise InputError("one view only (K is 1): there is nothing to sweep")
    sweeps = []
    for name in SWEPT_METRICS:
        defined = tuple(arm_sweeps[name] for arm_sweeps in swept if arm_sweeps[name].views)
        if defined:
            sweeps.append(ViewsSweep(metric_spec(name), defined, *counts))
    return tuple(sweeps)


def _arm_sweeps(settings: Settings, arm: str, runs: Sequence[ExperimentRun]) -> dict[str, ArmSweep]:
    """Sweep the runs of an arm up to the fewest views; only the values of one K are in memory."""
    means: dict[str, dict[int, ArmSummary]] = {name: {} for name in SWEPT_METRICS}
    for k in range(1, min(run.predictions.k for run in runs) + 1):
        groups = []
        for run in runs:
            with run.naming_errors():
                views = run.predictions
                groups.append(swept_group(views, k, settings, names=SWEPT_METRICS))
        for name, by_k in means.items():
            summary = _summary(arm, runs, groups, name)
            if not math.isnan(summary.mean):
                by_k[k] = summary
    return {name: ArmSweep(arm, tuple(by_k), tuple(by_k.values())) for name, by_k in means.items()}


Grouping = Literal["all", "kind", "domain"]
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
        shown: whether the mean is shown to differ from 0 at the 5% level; False without a test.
    """

    by: Grouping
    name: str
    items: int
    values: tuple[float, ...]
    mean: Estimate
    shown: bool = False

    @property
    def sign(self) -> SignAgreement:
        """Whether all pairs of runs differ in the same direction."""
        return same_sign(self.values)


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


def arm_differences(
    source: Source, a: str, b: str, decoding: Decoding = "single"
) -> ArmDifferences:
    """Compute the difference in accuracy between two arms, by kind and by domain.

    No temperature is applied, which would change no answer.

    Args:
        source: runs of both arms, under the decoding of their settings, or published metrics.
        a: name of the first arm.
        b: name of the second arm; differences are a minus b.
        decoding: of published metrics.

    Raises:
        InputError: the item sets differ, the arms have no seed in common, or no accuracy there.
    """
    counts = _counts(source)
    if isinstance(source, ArmMetrics):
        arms = {arm: {seed: seed for seed in source.seeds(arm)} for arm in (a, b)}
        shared = against(arms, a)[b]
        seeds = tuple(match.seed for match in shared)
        groups = tuple(_published_groups(source, (a, b), shared, MetricDecoding(decoding)))
    else:
        matches = source.comparisons.against(a).get(b, ())
        seeds = tuple(match.seed for match in matches)
        groups = tuple(_groups_of_runs(source, matches))
    if not seeds:
        raise InputError(f"{a} and {b} have no seed in common")
    if not groups:
        raise InputError(f"no accuracy of {a} and {b} under the decoding {decoding}")
    return ArmDifferences(a, b, seeds, groups, *counts)


def _groups_of_runs(
    experiment: Experiment, matches: Sequence[SeedMatch[ExperimentRun]]
) -> Iterator[GroupDifference]:
    """Yield all items, then each kind and each domain, of matched runs."""
    for by in _GROUPINGS:
        drawn = [
            SeedMatch(match.seed, *(_groups(experiment, run, by=by, names=("accuracy",))
                                    for run in (match.a, match.b)))
            for match in matches
        ]  # fmt: skip
        for at, pairs in enumerate(by_group(drawn)):
            if at == 0 and by == "domain":
                continue
            difference, group = arm_difference("accuracy", pairs), pairs[0][0]
            values = tuple(left.difference(right, "accuracy").value for left, right in pairs)
            numbers = values, difference.tested, difference.marked
            kind: Grouping = by if at else "all"
            yield GroupDifference(kind, group.name, group.items.n_items, *numbers)


def _published_groups(
    metrics: ArmMetrics,
    arms: tuple[str, str],
    matches: Sequence[SeedMatch[int | None]],
    decoding: MetricDecoding,
) -> Iterator[GroupDifference]:
    """Yield the same groups of published metrics, if every compared run has an accuracy."""
    for by in _GROUPINGS:
        table = metrics.by_group(by)
        for name in dict.fromkeys(row.cell.group for row in table.table.rows):
            if by == "domain" and name == "all":
                continue
            rows = [
                [
                    table.row(MetricCell("accuracy", arm, decoding, name), seed)
                    for arm, seed in zip(arms, (match.a, match.b), strict=True)
                ]
                for match in matches
            ]
            values = [one.value - other.value for one, other in rows]
            if not values or any(map(math.isnan, values)):
                continue
            items = rows[0][0].n or 0
            mean = Estimate.point(float(np.mean(values)), items)
            kind: Grouping = "all" if name == "all" else by
            yield GroupDifference(kind, name, items, tuple(values), mean)
