"""Means of arms over their seeds, with the spread over seeds or the interval of a single run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval.errors import InputError
from pact_eval.evaluation.curves.distributions import shared_items
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import label_codes
from pact_eval.evaluation.registry import MetricSpec, find_metric, metric_spec, registered_metrics
from pact_eval.stats import (
    Estimate,
    cluster_sums,
    linear_inference,
    linearised_ratio,
    rate_estimate,
    seed_summary,
)

FloatArray = npt.NDArray[np.float64]

Spread = Literal["deviation", "interval", "none"]

_SWEPT_METRICS: Final = ("accuracy", "view_tv")


@dataclass(frozen=True)
class ArmMean:
    """One metric of one arm, in the unit of the metric.

    Attributes:
        arm: name of the arm.
        seeds: seeds of its runs, in order; None for a run without a seed.
        values: values of its runs, in the same order.
        mean: mean over runs; NaN if a run has no value.
        low: lower end of the spread; NaN if there is none.
        high: upper end of the spread.
        spread: meaning of `low` and `high`: mean -+ 1 sample standard deviation over seeds, or, for
            one run, its 95% interval over families.
        calibrated: mean after T(x); NaN if a run has no calibrator, or T(x) was not requested.
    """

    arm: str
    seeds: tuple[int | None, ...]
    values: tuple[float, ...]
    mean: float
    low: float
    high: float
    spread: Spread
    calibrated: float = math.nan


@dataclass(frozen=True)
class MetricMeans:
    """One metric of every arm.

    Attributes:
        spec: the metric.
        arms: the arms, in the order of the runs.
        items: number of items of every run.
        families: number of their families.
    """

    spec: MetricSpec
    arms: tuple[ArmMean, ...]
    items: int
    families: int


@dataclass(frozen=True)
class EceByKind:
    """ECE of every arm by field kind.

    Attributes:
        kinds: by name ("all" first), the number of items and the arms.
        items: number of all items.
        families: number of their families.
    """

    kinds: Mapping[str, tuple[int, tuple[ArmMean, ...]]]
    items: int
    families: int


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
    means: tuple[ArmMean, ...]


@dataclass(frozen=True)
class ViewsSweep:
    """One metric of every arm against the number of views.

    Attributes:
        spec: the metric.
        arms: the arms, in the order of the runs, except those with one view.
        items: number of items behind every point.
        families: number of their families.
    """

    spec: MetricSpec
    arms: tuple[ArmSweep, ...]
    items: int
    families: int


def arm_mean(
    arm: str,
    runs: Sequence[ExperimentRun],
    estimates: Sequence[Estimate],
    calibrated: Sequence[Estimate] | None = None,
) -> ArmMean:
    """Return the mean of a metric over the runs of an arm.

    Args:
        arm: name of the arm.
        runs: its runs.
        estimates: the metric of each run.
        calibrated: the same after T(x), if every run has a calibrator.
    """
    values = tuple(each.value for each in estimates)
    summary = seed_summary(values)
    seeds = tuple(run.seed for run in runs)
    mean = ArmMean(arm, seeds, values, summary.mean, math.nan, math.nan, "none")
    if calibrated is not None:
        after = seed_summary([each.value for each in calibrated]).mean
        mean = replace(mean, calibrated=after)
    if not math.isnan(summary.deviation):
        low, high = summary.mean - summary.deviation, summary.mean + summary.deviation
        return replace(mean, low=low, high=high, spread="deviation")
    if len(runs) == 1 and not math.isnan(summary.mean) and not math.isnan(estimates[0].low):
        return replace(mean, low=estimates[0].low, high=estimates[0].high, spread="interval")
    return mean


def main_comparison(experiment: Experiment) -> tuple[MetricMeans, ...]:
    """Compute the rates in the figure of arms, for every arm over all items.

    Returns:
        One result per metric. A metric that no run has (view TV of one view) is left out.

    Raises:
        InputError: there is no run, or the item sets differ.
    """
    views = shared_items(experiment).predictions
    families = len(set(views.family.tolist()))
    found = []
    for spec in registered_metrics("full", "figure of arms"):
        if spec.unit != "percent":
            continue
        arms = tuple(_arm(experiment, arm, spec.name) for arm in experiment.arms)
        if not all(math.isnan(arm.mean) for arm in arms):
            found.append(MetricMeans(spec, arms, len(views), families))
    return tuple(found)


def ece_by_kind(experiment: Experiment) -> EceByKind:
    """Compute the ECE of every arm by field kind, before and after T(x).

    Raises:
        InputError: there is no run, or the item sets differ.
    """
    views = shared_items(experiment).predictions
    groups = experiment.evaluation(experiment.runs[0], calibrated=False).groups
    kinds = {
        group.name: (
            group.items,
            tuple(_arm(experiment, arm, "ece", place) for arm in experiment.arms),
        )
        for place, group in enumerate(groups)
    }
    return EceByKind(kinds, len(views), len(set(views.family.tolist())))


def _arm(experiment: Experiment, arm: str, metric: str, group: int = 0) -> ArmMean:
    def estimates(*, calibrated: bool) -> list[Estimate]:
        evaluations = [experiment.evaluation(run, calibrated=calibrated) for run in runs]
        return [each.groups[group].estimates[metric] for each in evaluations]

    runs = experiment.arms[arm]
    after = None
    if metric == "ece" and all(run.calibrator is not None for run in runs):
        after = estimates(calibrated=True)
    return arm_mean(arm, runs, estimates(calibrated=False), after)


def views_sweep(experiment: Experiment) -> tuple[ViewsSweep, ...]:
    """Compute accuracy and view TV of every arm, raw, against the number of views.

    The value at K is that of the ensemble of the first K views of a run, as in
    `pact_eval.evaluation.sweep`.

    Raises:
        InputError: there is no run, the item sets differ, or every run has one view.
    """
    views = shared_items(experiment).predictions
    arms = {
        arm: [run for run in runs if run.predictions.k > 1] for arm, runs in experiment.arms.items()
    }
    found = {arm: [_estimates_by_views(run) for run in runs] for arm, runs in arms.items() if runs}
    if not found:
        message = "one view only (K is 1): there is nothing to sweep"
        raise InputError(message)
    families = len(set(views.family.tolist()))
    return tuple(
        ViewsSweep(
            metric_spec(name),
            tuple(_arm_sweep(arm, arms[arm], by_run, name) for arm, by_run in found.items()),
            len(views),
            families,
        )
        for name in _SWEPT_METRICS
    )


def _arm_sweep(
    arm: str,
    runs: Sequence[ExperimentRun],
    by_run: Sequence[Sequence[Mapping[str, Estimate]]],
    metric: str,
) -> ArmSweep:
    fewest = min(len(points) for points in by_run)
    means = [
        arm_mean(arm, runs, [points[number][metric] for points in by_run])
        for number in range(fewest)
    ]
    defined = [number for number in range(fewest) if not math.isnan(means[number].mean)]
    return ArmSweep(
        arm, tuple(number + 1 for number in defined), tuple(means[number] for number in defined)
    )


def _estimates_by_views(run: ExperimentRun) -> list[dict[str, Estimate]]:
    """Return accuracy and view TV at 1, 2, ... views, by metric name.

    Raises:
        InputError: the views of an item have no answer in common.
    """
    everything = run.predictions
    family = label_codes(everything.family)
    n_families, n = int(family.max()) + 1, len(family)
    found = []
    for k in range(1, everything.k + 1):
        views = replace(
            everything,
            logits=everything.logits[:, :k],
            code_order=everything.code_order[:, :k],
            answer_mass=everything.answer_mass[:, :k],
        )
        try:
            correct = metrics.correct(views.log_probs("ensemble"), views.reference)
        except ValueError as error:
            message = f"{run.label}: {error}"
            raise InputError(message) from None
        tv = metrics.pairwise_tv(views.log_probs_by_view)
        right, total, counted = cluster_sums(
            np.stack([correct, tv, np.ones(n)], axis=1), family, n_families
        ).T
        found.append(
            {"accuracy": rate_estimate(right, counted), "view_tv": _view_tv(total, counted)}
        )
    return found


def _view_tv(total: FloatArray, counted: FloatArray) -> Estimate:
    """Return view TV from its sums over families, as a report has it; NaN for one view."""
    n, value = int(counted.sum()), float(total.sum() / counted.sum())
    if math.isnan(value):
        return Estimate(value, value, value, n, counted.size, "none", "one view only: K is 1")
    found = linear_inference(value, linearised_ratio(total, counted), n=n).estimate()
    return find_metric("view_tv").within_bounds(found)
