"""Curves of arms over their items: risk-coverage, and the distribution of view TV."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from pact_eval import metrics
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_differences import SeedMatch
from pact_eval.evaluation.curves.probabilities import Band, band_resamples, curve_band
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.registry import PAIR_MARGIN, TRAINED_MARGIN
from pact_eval.runs.provenance import UNNAMED
from pact_eval.stats.estimate import Estimate, Method

_Curve: TypeAlias = Callable[[FloatArray], FloatArray]
"""Maps (n,) weights of the items to the (points,) values of a curve."""

_MOST_COVERAGES: Final = 400
_TIE: Final = 1e-12
_TV_POINTS: Final = 121
_LOWEST_TV: Final = 1e-4


@dataclass(frozen=True, eq=False)
class ArmCurve:
    """The curve of one arm.

    Attributes:
        arm: name of the arm.
        seeds: seeds of its runs, in order; None for a run without a seed.
        by_run: (runs, points) curve of each run.
        mean: (points,) mean over runs.
        band: 95% bootstrap band of the mean over families; None if a band of differences is drawn
            instead.
        summary: one number per run: AURC, or mean view TV.
    """

    arm: str
    seeds: tuple[int | None, ...]
    by_run: FloatArray
    mean: FloatArray
    band: Band | None
    summary: tuple[float, ...]

    @property
    def mean_summary(self) -> float:
        """The mean of `summary` over the runs of the arm."""
        return float(np.mean(self.summary))


@dataclass(frozen=True, eq=False)
class ArmCurves:
    """The curves of all arms over one axis.

    Attributes:
        x: (points,) coverage or view TV, as fractions.
        arms: the arms, in the order of the runs.
        items: number of items behind every curve.
        families: number of their families; None for published curves.
    """

    x: FloatArray
    arms: tuple[ArmCurve, ...]
    items: int
    families: int | None


@dataclass(frozen=True, eq=False)
class RiskReference:
    """Bounds of the risk-coverage curve of an arm: random and oracle order; means over its runs.

    Attributes:
        random: error rate at every coverage if items are kept in random order: that of all items.
        oracle: (points,) error rate if every right answer is more confident than every wrong one.
    """

    random: float
    oracle: FloatArray


@dataclass(frozen=True, eq=False)
class CurveDifference:
    """The curve of one arm minus that of another, at the seeds that they share.

    Attributes:
        a: name of the first arm.
        b: name of the second arm.
        seeds: seeds of the compared pairs of runs; None for two runs without a seed.
        value: (points,) mean difference over the pairs.
        band: its pointwise 95% bootstrap band over families, which both arms share.
    """

    a: str
    b: str
    seeds: tuple[int | None, ...]
    value: FloatArray
    band: Band


@dataclass(frozen=True, eq=False)
class RiskCoverageCurves(ArmCurves):
    """Risk against coverage for all arms, with their references.

    Attributes:
        references: random and oracle order, per arm.
        guessing: the base rate: error rate of a uniformly drawn answer, 1 - mean(1/C); NaN if the
            number of answers is not known.
        differences: the main arm minus each other arm with which it shares a seed.
    """

    references: tuple[RiskReference, ...]
    guessing: float
    differences: tuple[CurveDifference, ...]


def risk_coverage(experiment: Experiment) -> RiskCoverageCurves:
    """Compute the error rate among the most confident items at every coverage, for every arm.

    Returns:
        Curves over the coverages 1/n..1, or over 400 of them if there are more. The curve of a
        single arm has a band; of several arms, the differences have one.

    Raises:
        InputError: there is no run, or the item sets differ.
    """
    first = experiment.shared_items()
    experiment.require("aurc")
    n = len(first.confidence)
    coverage = np.unique(np.linspace(1, n, min(n, _MOST_COVERAGES)).round()) / n
    family = first.families.codes
    scored = {
        arm: [experiment.scored(run, experiment.settings.decoding) for run in runs]
        for arm, runs in experiment.arms.items()
    }
    curves = {
        arm: [error_rate_curve(items.confidence, items.correct, coverage) for items in runs]
        for arm, runs in scored.items()
    }
    arms, references = [], []
    for arm, runs in experiment.arms.items():
        areas = [metrics.aurc(items.confidence, items.correct) for items in scored[arm]]
        rates = [float(1 - items.correct.mean()) for items in scored[arm]]
        oracles = [metrics.oracle_error_rate(rate, coverage) for rate in rates]
        references.append(RiskReference(float(np.mean(rates)), np.mean(oracles, axis=0)))
        banded = len(scored) == 1
        arms.append(_arm_curve(experiment, arm, runs, curves[arm], areas, family, banded=banded))
    return RiskCoverageCurves(
        coverage,
        tuple(arms),
        n,
        len(first.families),
        references=tuple(references),
        guessing=math.nan
        if first.known in UNNAMED
        else float(1 - (1 / first.predictions.n_choices).mean()),
        differences=tuple(_differences(experiment, curves, family)),
    )


def run_risks(
    experiment: Experiment, coverages: Sequence[float]
) -> tuple[tuple[ExperimentRun, tuple[Estimate, ...]], ...]:
    """Compute the error rate of every run at some coverages, as the curve has it.

    Args:
        experiment: runs on the same items.
        coverages: shares of the items that are kept, the most confident ones.

    Returns:
        Every run, and its error rate at each share with its 95% band over families.

    Raises:
        InputError: there is no run, the item sets differ, or a run has no probabilities.
    """
    experiment.shared_items()
    experiment.require("aurc")
    settings, risks = experiment.settings, []
    for run in experiment.runs:
        items = run.scored(settings.decoding)
        family, n = items.families.codes, len(items)
        curve = error_rate_curve(items.confidence, items.correct, np.asarray(coverages))
        band = curve_band(curve, family, settings)
        method = Method.bootstrap("", band_resamples(settings, n))
        numbers = zip(curve(np.ones(n)).tolist(), band.low, band.high, strict=True)
        errors = [
            Estimate(value, float(low), float(high), n, len(items.families), method)
            for value, low, high in numbers
        ]
        risks.append((run, tuple(errors)))
    return tuple(risks)


def _differences(
    experiment: Experiment, curves: Mapping[str, Sequence[_Curve]], family: IntArray
) -> Iterator[CurveDifference]:
    """Yield the main arm minus each other arm, at their shared seeds."""
    curve = {
        run: of_run
        for arm, runs in experiment.arms.items()
        for run, of_run in zip(runs, curves[arm], strict=True)
    }
    main = experiment.main_arm
    for other, matches in experiment.comparisons.against(main).items():
        if not matches:
            continue

        def lead(
            weights: FloatArray, matches: Sequence[SeedMatch[ExperimentRun]] = matches
        ) -> FloatArray:
            leads = [curve[match.a](weights) - curve[match.b](weights) for match in matches]
            return np.asarray(np.mean(leads, axis=0), dtype=np.float64)

        band = curve_band(lead, family, experiment.settings)
        seeds = tuple(match.seed for match in matches)
        yield CurveDifference(main, other, seeds, lead(np.ones(len(family))), band)


def error_rate_curve(confidence: FloatArray, correct: BoolArray, coverage: FloatArray) -> _Curve:
    """Return a function from (n,) item weights to the error rate at every coverage, (points,).

    Items of equal confidence count by their expected order, as in `metrics.risk_coverage`: the
    errors grow linearly within a group of ties.

    Args:
        confidence: (n,) top probabilities.
        correct: (n,) bool.
        coverage: (points,) shares of the weight that are covered, in (0, 1].
    """
    order = np.argsort(-confidence, kind="stable")
    ranked, wrong = confidence[order], ~correct[order]
    ends = np.flatnonzero(np.r_[ranked[:-1] - ranked[1:] > _TIE, True])

    def curve(weights: FloatArray) -> FloatArray:
        ranked_weights = weights[order]
        kept, errors = np.zeros((2, len(ends) + 1))
        kept[1:] = np.cumsum(ranked_weights)[ends]
        errors[1:] = np.cumsum(ranked_weights * wrong)[ends]
        covered = coverage * kept[-1]
        return np.asarray(np.interp(covered, kept, errors) / covered, dtype=np.float64)

    return curve


def view_tv_distribution(experiment: Experiment) -> ArmCurves:
    """Compute the share of items whose view TV is x or less, for every arm.

    Returns:
        Curves over 121 values of view TV from 0.0001 to 1, evenly spaced on a log axis; items below
        the first value count there. Runs with one view are left out.

    Raises:
        InputError: there is no run, the item sets differ, or every run has one view.
    """
    first = experiment.shared_items()
    experiment.require("view_tv")
    x = np.geomspace(_LOWEST_TV, 1.0, _TV_POINTS)
    family, decoding = first.families.codes, experiment.settings.decoding
    arms = []
    for arm, runs in experiment.arms.items():
        several = []
        for run in runs:
            views = run.predictions
            if (views.k > 1 and not views.repeats) or views.view_tv is not None:
                several.append(run)
        if several:
            tv = [run.asked_once().scored(decoding).values["view_tv"] for run in several]
            reached = [np.where(np.isnan(d), -1, np.searchsorted(x + _TIE, d)) for d in tv]
            curves = [partial(_share, of_run) for of_run in reached]
            means = [float(distances[~np.isnan(distances)].mean()) for distances in tv]
            arms.append(_arm_curve(experiment, arm, several, curves, means, family))
    if not arms:
        raise InputError("one view only (K is 1): view TV is between views")
    return ArmCurves(x, tuple(arms), len(family), len(first.families))


def _share(reached: IntArray, weights: FloatArray) -> FloatArray:
    """Return the share of weight at or below each value of view TV, (121,).

    Args:
        reached: (n,) index of the first value that is not below an item's view TV; -1 for items
            that are shown in one order, which do not count.
        weights: (n,) weights of the items.
    """
    weights = weights * (reached >= 0)
    points = np.maximum(reached, 0)
    per_point = np.bincount(points, weights=weights, minlength=_TV_POINTS)[:_TV_POINTS]
    return np.asarray(np.cumsum(per_point) / weights.sum(), dtype=np.float64)


def _arm_curve(
    experiment: Experiment,
    arm: str,
    runs: Sequence[ExperimentRun],
    curves: Sequence[_Curve],
    summary: Sequence[float],
    family: IntArray,
    *,
    banded: bool = True,
) -> ArmCurve:
    def mean(weights: FloatArray) -> FloatArray:
        return np.asarray(sum(curve(weights) for curve in curves) / len(curves), dtype=np.float64)

    band = curve_band(mean, family, experiment.settings) if banded else None
    by_run = np.array([curve(np.ones(len(family))) for curve in curves])
    seeds = tuple(run.seed for run in runs)
    return ArmCurve(arm, seeds, by_run, by_run.mean(axis=0), band, tuple(summary))


@dataclass(frozen=True, eq=False)
class RunMargins:
    """The pairs of one run that have a margin, uncalibrated.

    The margin of a pair is the sum of the leads of its members. A lead is the log-odds of the right
    answer against the right answer of the other member.

    Attributes:
        run: its label.
        base: (P,) lead of the base, nats.
        counterfactual: (P,) lead of the counterfactual, nats.
        mean: mean margin with its interval.
        not_positive: share of the margins at or below 0, with its interval.
        below_trained: share of the margins below `trained`, with its interval.
        trained: the margin that the paper trains with, nats.
        families: number of families of the pairs.
    """

    run: str
    base: FloatArray
    counterfactual: FloatArray
    mean: Estimate
    not_positive: Estimate
    below_trained: Estimate
    trained: float
    families: int

    @property
    def margins(self) -> FloatArray:
        """(P,) margin of each pair, nats."""
        return self.base + self.counterfactual


def run_margins(experiment: Experiment, run: ExperimentRun) -> RunMargins:
    """Return the margins of the pairs of a run under the decoding of the settings.

    Raises:
        InputError: the run does not have the decoding, or no pair has a margin.
    """
    run.require(PAIR_MARGIN)
    items = run.scored(experiment.settings.decoding)
    leads, pairs = items.values[PAIR_MARGIN], items.pairs
    base, counterfactual = leads[pairs.base], leads[pairs.counterfactual]
    finite = np.isfinite(base) & np.isfinite(counterfactual)
    if not finite.any():
        raise InputError("no complete pair has a finite margin")
    estimates = experiment.evaluation(run, calibrated=False).groups[0].estimates
    return RunMargins(
        run=run.label,
        base=base[finite],
        counterfactual=counterfactual[finite],
        mean=estimates[PAIR_MARGIN],
        not_positive=estimates["margin_not_positive"],
        below_trained=estimates["margin_below_trained"],
        trained=TRAINED_MARGIN,
        families=estimates[PAIR_MARGIN].clusters,
    )
