"""Results behind the figures of arms: main comparison, ECE by kind, and the sweep of K."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from pact_eval._choices import Decoding, GroupBy
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics, MetricCell, MetricRow
from pact_eval.evaluation.arms.comparison import (
    ArmSummary,
    GroupPairs,
    SeedMatch,
    against,
    arm_difference,
    by_group,
)
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
from pact_eval.evaluation.resampled_groups import (
    ResampledGroup,
    mean_estimate,
    resample_items,
)
from pact_eval.evaluation.settings import Settings
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.seeds import SignAgreement, same_sign

SWEPT_METRICS: Final = ("accuracy", "view_tv")
"""Metrics of the sweep of K."""


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


def main_comparison(experiment: Experiment) -> tuple[MetricMeans, ...]:
    """Compute the rates in the figure of arms, for every arm over all items.

    Returns:
        One result per metric. A metric that no run has (view TV of one view) is left out.

    Raises:
        InputError: there is no run, or the item sets differ.
    """
    views = experiment.shared_items().predictions
    families = len(set(views.family.tolist()))
    means = []
    for spec in registered_metrics("full", "figure of arms"):
        if spec.unit != "percent":
            continue
        calibrated = find_metric(spec.name).noise_floor
        arms = tuple(
            _arm(experiment, arm, spec.name, calibrated=calibrated) for arm in experiment.arms
        )
        if not all(math.isnan(arm.mean) for arm in arms):
            means.append(MetricMeans(spec, arms, len(views), families))
    return tuple(means)


def ece_by_kind(experiment: Experiment) -> EceByKind:
    """Compute the ECE of every arm by field kind, before and after T(x).

    Raises:
        InputError: there is no run, or the item sets differ.
    """
    views = experiment.shared_items().predictions
    experiment.require_confidences()
    groups = experiment.evaluation(experiment.runs[0], calibrated=False).groups
    kinds = {
        group.name: (
            group.items,
            tuple(_arm(experiment, arm, "ece", place, calibrated=True) for arm in experiment.arms),
        )
        for place, group in enumerate(groups)
    }
    return EceByKind(kinds, len(views), len(set(views.family.tolist())))


def published_comparison(
    metrics: ArmMetrics, decoding: Decoding = "single"
) -> tuple[MetricMeans, ...]:
    """Gather the rates in the figure of arms from published metrics; see `main_comparison`.

    Raises:
        InputError: no arm has any of these rates.
    """
    means = []
    for spec in registered_metrics("full", "figure of arms"):
        arms = _summarise_published(metrics, spec.name, decoding)
        if spec.unit == "percent" and not all(map(_is_undefined, arms)):
            means.append(MetricMeans(spec, arms, _items(metrics.rows_of("all")), None))
    if not means:
        raise InputError(f"no rate of all items under the decoding {decoding}")
    return tuple(means)


def published_ece_by_kind(metrics: ArmMetrics, decoding: Decoding = "single") -> EceByKind:
    """Gather the ECE of every arm by field kind from published metrics; see `ece_by_kind`.

    Raises:
        InputError: no arm has an ECE.
    """
    metrics = metrics.by_group("kind")
    kinds = {
        group: (
            _items(metrics.rows_of(group)),
            _summarise_published(metrics, "ece", decoding, group),
        )
        for group in dict.fromkeys(row.cell.group for row in metrics.table.rows)
    }
    defined = {
        name: (items, arms)
        for name, (items, arms) in kinds.items()
        if not all(map(_is_undefined, arms))
    }
    if not defined:
        raise InputError(f"no ECE under the decoding {decoding}")
    return EceByKind(defined, _items(metrics.rows_of("all")), None)


def _summarise_published(
    metrics: ArmMetrics, metric: str, decoding: Decoding, group: str = "all"
) -> tuple[ArmSummary, ...]:
    """Summarise a metric of every arm; also after T(x) if that changes the metric."""
    entry = find_metric(metric)
    views: Decoding = "ensemble" if entry.uses_all_views else decoding
    raw, after = (
        metrics.summaries(metrics.arms, metric, MetricDecoding(views, calibrated), group)
        for calibrated in (False, True)
    )
    calibrated = (entry.noise_floor or entry.uses_all_views) and not entry.argmax_only
    return tuple(
        replace(summary, calibrated=after[arm])
        if calibrated and not math.isnan(after[arm].mean)
        else summary
        for arm, summary in raw.items()
    )


def _is_undefined(arm: ArmSummary) -> bool:
    return math.isnan(arm.mean) and arm.calibrated is None


def _items(rows: Sequence[MetricRow]) -> int:
    """Return the largest number of items of published metrics; 0 if none is known."""
    return max((row.n or 0 for row in rows if row.cell.metric == "accuracy"), default=0)


def _arm(
    experiment: Experiment, arm: str, metric: str, group: int = 0, *, calibrated: bool = False
) -> ArmSummary:
    """Return the mean of an arm; with `calibrated`, also after T(x) if every run has one."""

    def mean(*, calibrated: bool) -> ArmSummary:
        groups = [_groups(experiment, run, calibrated=calibrated)[group] for run in runs]
        return _summary(arm, runs, groups, metric)

    runs = experiment.arms[arm]
    raw = mean(calibrated=False)
    if calibrated and all(run.calibrator is not None for run in runs):
        return replace(raw, calibrated=mean(calibrated=True))
    return raw


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
    items = run.scored(settings.decoding, calibrated=calibrated).over(settings.unit)
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
    views = experiment.shared_items().predictions
    experiment.require_probabilities()
    arms = {
        arm: [run for run in runs if run.predictions.k > 1] for arm, runs in experiment.arms.items()
    }
    swept = [_arm_sweeps(experiment.settings, arm, runs) for arm, runs in arms.items() if runs]
    if not swept:
        raise InputError("one view only (K is 1): there is nothing to sweep")
    families = len(set(views.family.tolist()))
    sweeps = []
    for name in SWEPT_METRICS:
        defined = tuple(arm_sweeps[name] for arm_sweeps in swept if arm_sweeps[name].views)
        if defined:
            sweeps.append(ViewsSweep(metric_spec(name), defined, len(views), families))
    return tuple(sweeps)


def _arm_sweeps(settings: Settings, arm: str, runs: Sequence[ExperimentRun]) -> dict[str, ArmSweep]:
    """Sweep the runs of an arm up to the fewest views; only the values of one K are in memory."""
    means: dict[str, dict[int, ArmSummary]] = {name: {} for name in SWEPT_METRICS}
    for k in range(1, min(run.predictions.k for run in runs) + 1):
        groups = [_swept(settings, run, k) for run in runs]
        for name, by_k in means.items():
            summary = _summary(arm, runs, groups, name)
            if not math.isnan(summary.mean):
                by_k[k] = summary
    return {name: ArmSweep(arm, tuple(by_k), tuple(by_k.values())) for name, by_k in means.items()}


def _swept(settings: Settings, run: ExperimentRun, k: int) -> ResampledGroup:
    with run.naming_errors():
        return swept_group(
            run.predictions,
            k,
            rng=settings.rng(),
            resamples=settings.resamples,
            unit=settings.unit,
            metrics=SWEPT_METRICS,
        )


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
    matches = experiment.comparisons.against(a).get(b, ())
    if not matches:
        raise InputError(f"{a} and {b} have no seed in common")
    kinds, domains = (_accuracies(experiment, matches, by) for by in _GROUPINGS)
    groups = (
        *(_difference("kind", pairs) for pairs in kinds),
        *(_difference("domain", pairs) for pairs in domains[1:]),
    )
    families = len(set(views.family.tolist()))
    seeds = tuple(match.seed for match in matches)
    return ArmDifferences(
        a, b, seeds, (replace(groups[0], by="all"), *groups[1:]), len(views), families
    )


def _accuracies(
    experiment: Experiment, matches: Sequence[SeedMatch[ExperimentRun]], by: GroupBy
) -> list[GroupPairs]:
    """Resample the accuracy of matched runs, group by group; all items first."""
    matched = [
        SeedMatch(match.seed, *(_groups(experiment, run, by=by, names=("accuracy",))
                                for run in (match.a, match.b)))
        for match in matches
    ]  # fmt: skip
    return by_group(matched)


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
        raise InputError(f"no other arm has a seed in common with {a}")
    results = []
    for b, pairs in matches.items():
        groups = tuple(
            _group_differences_published(metrics, (a, b), pairs, MetricDecoding(decoding))
        )
        items = groups[0].items if groups else 0
        results.append(
            ArmDifferences(a, b, tuple(pair.seed for pair in pairs), groups, items, None)
        )
    return tuple(results)


def _group_differences_published(
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
