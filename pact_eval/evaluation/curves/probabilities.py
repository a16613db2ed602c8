"""Probabilities and correctness: reliability curves, and confidence of right and wrong answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pact_eval import metrics
from pact_eval._typing import FloatArray, IntArray
from pact_eval.calibration.temperatures import Calibrator, ItemFacts
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.report import outcomes_if_calibrated
from pact_eval.evaluation.resampled_groups import default_resamples
from pact_eval.evaluation.settings import Settings
from pact_eval.progress import step, tracked
from pact_eval.stats.bootstrap import cluster_sums, expanded_tail
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.rates import rate_estimate

_MOST_RESAMPLES: Final = 1_000


@dataclass(frozen=True, eq=False)
class Band:
    """A pointwise 95% interval of a curve: both ends are (points,); NaN if undefined."""

    low: FloatArray
    high: FloatArray


def band_resamples(settings: Settings, items: int) -> int:
    """Return the number of resamples of a band: at most 1,000, since each computes a full curve.

    Examples:
        >>> from pact_eval.evaluation.settings import Settings
        >>> band_resamples(Settings(), 324), band_resamples(Settings(resamples=200), 324)
        (1000, 200)
    """
    return min(_MOST_RESAMPLES, settings.resamples or default_resamples(items))


def curve_band(
    curve: Callable[[FloatArray], FloatArray], family: IntArray, settings: Settings
) -> Band:
    """Resample families and return the middle 95% of the curve at every point.

    Args:
        curve: maps (n,) integer weights of the items to (points,) values; NaN if no items have
            weight.
        family: (n,) code of each item's family, in 0..F-1.
        settings: seed and number of the resamples; see `band_resamples`.

    Returns:
        The percentile band; NaN everywhere if there is one family.
    """
    rng, resamples = settings.rng(), band_resamples(settings, len(family))
    n_families = int(family.max(initial=-1)) + 1
    ends = np.full((2, len(curve(np.ones(len(family))))), np.nan)
    if n_families < 2:
        return Band(*ends)
    replicates = np.empty((resamples, ends.shape[1]))
    for row in tracked(range(resamples), "Resampling a curve", "resamples"):
        drawn = np.bincount(rng.integers(0, n_families, n_families), minlength=n_families)
        replicates[row] = curve(drawn[family].astype(np.float64))
    tail, undefined = expanded_tail(0.95, n_families), np.isnan(replicates)
    defined = ~undefined.all(axis=0)
    if not undefined.any():  # nanquantile goes through one column after the other
        ends = np.quantile(replicates, [tail, 1 - tail], axis=0)
    elif defined.any():
        ends[:, defined] = np.nanquantile(replicates[:, defined], [tail, 1 - tail], axis=0)
    return Band(*ends)


_POINTS: Final = 101
_TAIL: Final = 0.025
# Outcomes drawn for a band: beyond this, many items get fewer samples, but 100 at least.
_MOST_OUTCOMES: Final = 20_000_000
_FEWEST_SAMPLES: Final = 100


@dataclass(frozen=True, eq=False)
class RecalibratedCurve:
    """Accuracy by isotonic regression on confidence, with a consistency band.

    Attributes:
        pools: the bins that isotonic regression finds, with their counts; fractions.
        confidence: (101,) points from the lowest to the highest confidence.
        accuracy: (101,) the regression at these points.
        band: its pointwise 95% consistency band: where the regressions of a calibrated model with
            these confidences and families lie.
    """

    pools: metrics.Recalibration
    confidence: FloatArray
    accuracy: FloatArray
    band: Band


def recalibrated_curve(items: ScoredItems, settings: Settings) -> RecalibratedCurve:
    """Fit isotonic regression to the items, and to outcomes drawn at their confidences.

    Args:
        items: one or more items with references, under one decoding.
        settings: seed and number of the draws.
    """
    c = items.confidence
    pools = metrics.recalibrate(c, items.correct)
    points = np.linspace(pools.lowest[0], pools.highest[-1], _POINTS)
    samples = band_resamples(settings, len(items))
    samples = min(samples, max(_FEWEST_SAMPLES, _MOST_OUTCOMES // len(items)))
    curves = []
    with step("Drawing outcomes by chance", samples, "samples") as drawing:
        for outcomes in outcomes_if_calibrated(items, rng=settings.rng(), samples=samples):
            curves.append(metrics.recalibrate_samples(c, outcomes).at(points))
            drawing.done += len(outcomes)
    low, high = np.quantile(np.concatenate(curves), (_TAIL, 1 - _TAIL), axis=0)
    return RecalibratedCurve(
        pools=pools, confidence=points, accuracy=pools.at(points), band=Band(low, high)
    )


_CONFIDENCE_BINS: Final = 20


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """One reliability curve in bins, as fractions, and without them.

    Attributes:
        calibrated: whether the probabilities were divided by T(x).
        bins: count, mean confidence and accuracy of each bin of ECE.
        low: (bins,) lower end of the 95% interval of the accuracy over families; NaN for an empty
            bin, or if the items of the bin form one family.
        high: (bins,) upper end of this interval.
        ece: ECE with its interval, as in the run's evaluation.
        isotonic: by isotonic regression, with its consistency band; None for published bins, and
            if bins alone are asked for.
    """

    calibrated: bool
    bins: metrics.Reliability
    low: FloatArray
    high: FloatArray
    ece: Estimate
    isotonic: RecalibratedCurve | None


@dataclass(frozen=True, eq=False)
class RunReliability:
    """Reliability of one run.

    Attributes:
        run: its label.
        arm: its arm.
        curves: raw, then calibrated if the run has a calibrator.
        items: number of items behind every curve.
        families: number of their families; None for published bins.
    """

    run: str
    arm: str
    curves: tuple[ReliabilityCurve, ...]
    items: int
    families: int | None


@dataclass(frozen=True, eq=False)
class AnswerConfidence:
    """Confidence of the right answers, or of the wrong answers.

    Attributes:
        count: (20,) number of items in each bin of width 0.05.
        median: median confidence; NaN without such answers.
        low: lower end of its 95% bootstrap interval over families; NaN if there is none.
        high: upper end of this interval.
    """

    count: IntArray
    median: float
    low: float
    high: float

    @property
    def items(self) -> int:
        """Number of such answers."""
        return int(self.count.sum())


@dataclass(frozen=True, eq=False)
class RunConfidence:
    """Confidence of one run's answers, uncalibrated.

    Attributes:
        run: its label.
        edges: (21,) edges of the bins, from 0 to 1.
        right: the right answers.
        wrong: the wrong answers.
        confident_errors: share of the errors made with confidence 0.9 or more, with its interval.
        items: number of answers.
        families: number of their families.
    """

    run: str
    edges: FloatArray
    right: AnswerConfidence
    wrong: AnswerConfidence
    confident_errors: Estimate
    items: int
    families: int


def reliability(
    experiment: Experiment, run: ExperimentRun, *, binned: bool = False
) -> RunReliability:
    """Compute the reliability of a run in the bins of ECE, and without bins, before and after T(x).

    Args:
        experiment: has the run.
        run: on full contexts.
        binned: bins alone.

    Raises:
        InputError: the run does not have the decoding, or its calibrator cannot be applied.
    """
    run.require("ece")
    settings, curves = experiment.settings, []
    for calibrated in (False, True) if run.calibrator is not None else (False,):
        items = run.scored(settings.decoding, calibrated=calibrated)
        evaluation = experiment.evaluation(run, calibrated=calibrated)
        bin_of_item = metrics.bin_index(items.confidence, items.ece_bins)
        members = bin_of_item[:, None] == np.arange(items.ece_bins)
        family, n = items.families.codes, len(items.families)
        counted = cluster_sums(members, family, n)
        positive = cluster_sums(members & items.correct[:, None], family, n)
        rates = [rate_estimate(*counts) for counts in zip(positive.T, counted.T, strict=True)]
        curve = ReliabilityCurve(
            calibrated=calibrated,
            bins=metrics.reliability(items.confidence, items.correct, items.ece_bins),
            low=np.array([rate.low for rate in rates]),
            high=np.array([rate.high for rate in rates]),
            ece=evaluation.groups[0].estimates["ece"],
            isotonic=None if binned else recalibrated_curve(items, settings),
        )
        curves.append(curve)
    first = curves[0].ece
    return RunReliability(run.label, run.arm, tuple(curves), first.n, first.clusters)


def answer_confidence(experiment: Experiment, run: ExperimentRun) -> RunConfidence:
    """Compute the uncalibrated confidence of the right and of the wrong answers of a run.

    Raises:
        InputError: the run does not have the decoding.
    """
    run.require("confident_errors")
    items, settings = run.scored(experiment.settings.decoding), experiment.settings
    family, sides = items.families.codes, []
    for which in (items.correct, ~items.correct):
        bins = metrics.bin_index(items.confidence[which], _CONFIDENCE_BINS)
        # Sort once here, not in every resample.
        rows = np.flatnonzero(which)
        rows = rows[np.argsort(items.confidence[rows], kind="stable")]
        ranked = items.confidence[rows]

        def median(
            weights: FloatArray, rows: IntArray = rows, ranked: FloatArray = ranked
        ) -> FloatArray:
            return np.array([ranked_median(ranked, weights[rows])])

        value = low = high = math.nan
        if rows.size:
            band = curve_band(median, family, settings)
            value = float(median(np.ones(len(family)))[0])
            low, high = float(band.low[0]), float(band.high[0])
        count = np.bincount(bins, minlength=_CONFIDENCE_BINS)
        sides.append(AnswerConfidence(count, value, low, high))
    evaluation = experiment.evaluation(run, calibrated=False)
    return RunConfidence(
        run=run.label,
        edges=np.linspace(0, 1, _CONFIDENCE_BINS + 1),
        right=sides[0],
        wrong=sides[1],
        confident_errors=evaluation.groups[0].estimates["confident_errors"],
        items=len(family),
        families=len(items.families),
    )


def ranked_median(ranked: FloatArray, weights: FloatArray) -> float:
    """Return the median of values with integer weights; NaN if all weights are 0.

    Args:
        ranked: (n,) values in ascending order.
        weights: (n,) their weights.

    Examples:
        >>> ranked_median(np.array([0.2, 0.4, 0.9]), np.array([1.0, 1.0, 2.0]))
        0.65
    """
    reached = weights.cumsum()
    if not reached.size or not reached[-1]:
        return math.nan
    half = reached[-1] / 2
    left, right = (reached.searchsorted(half, side=side) for side in ("left", "right"))
    return float((ranked[left] + ranked[min(right, ranked.size - 1)]) / 2)


_LENGTHS: Final = 60
_MIDDLE: Final = (5.0, 95.0)


@dataclass(frozen=True, eq=False)
class LengthCurve:
    """T(x) of the items with one number of answers.

    Attributes:
        n_choices: number of answers, C.
        items: number of items with C answers.
        tokens: (points,) prompt lengths, from the shortest to the longest of these items.
        temperature: (points,) T at these lengths.
        middle: 5th and 95th percentiles of the lengths of these items; None if they are unknown.
    """

    n_choices: int
    items: int
    tokens: FloatArray
    temperature: FloatArray
    middle: tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class TemperatureByLength:
    """T(x) against prompt length for each number of answers, for one run.

    Attributes:
        run: label of the run.
        curves: the curves, by ascending C.
        items: number of items of all curves.
        identified: whether the data of the fit identify the slope on length, according to the
            calibrator's file; None if unknown.
    """

    run: str
    curves: tuple[LengthCurve, ...]
    items: int
    identified: bool | None


@dataclass(frozen=True, eq=False)
class RunTemperatures:
    """T against the number of answers, for one run.

    Attributes:
        run: label of the run.
        arm: arm of the run.
        seed: seed of the run, or None.
        n_choices: (m,) each C that occurs in its items.
        temperature: (m,) mean T of the items with C answers, at one prompt length.
        identified: whether the data of the fit identify the slope on C; None if unknown.
    """

    run: str
    arm: str
    seed: int | None
    n_choices: IntArray
    temperature: FloatArray
    identified: bool | None


@dataclass(frozen=True, eq=False)
class TemperatureByChoices:
    """T against the number of answers, for every run with a calibrator.

    Attributes:
        runs: the runs, in order.
        tokens: prompt length at which T is computed; NaN if no run records prompt lengths.
    """

    runs: tuple[RunTemperatures, ...]
    tokens: float


def temperature_by_length(run: ExperimentRun) -> TemperatureByLength:
    """Compute T(x) against the prompt length, for each number of answers of a run's items.

    Raises:
        InputError: the run has no calibrator, its calibrator does not depend on the length, or the
            run does not record prompt lengths.
    """
    calibrator = run.calibrator
    if calibrator is None:
        raise InputError("no calibrator")
    if not calibrator.weights.log_tokens:
        raise InputError(f"T(x) does not depend on prompt length ({calibrator.mode} calibrator)")
    predictions = run.predictions
    if np.isnan(predictions.prompt_tokens).any():
        raise InputError("the run does not know its prompt lengths")
    curves = []
    for c in np.unique(predictions.n_choices).tolist():
        rows = predictions.n_choices == c
        lengths = predictions.prompt_tokens[rows]
        low, high = np.percentile(lengths, _MIDDLE).tolist()
        even = np.linspace(lengths.min(), lengths.max(), _LENGTHS).tolist()
        tokens = np.array(sorted({*even, low, high}))
        kinds = np.full(tokens.size, predictions.kind[rows][0])
        temperature = calibrator.temperatures(ItemFacts(kinds, np.full(tokens.size, c), tokens))
        curves.append(LengthCurve(c, int(rows.sum()), tokens, temperature, (low, high)))
    identified = _is_identified(calibrator, "log_tokens")
    return TemperatureByLength(run.label, tuple(curves), len(predictions), identified)


def temperature_by_choices(experiment: Experiment) -> TemperatureByChoices:
    """Compute T against C for every run with a calibrator, at the median prompt length of the runs.

    Raises:
        InputError: no run has a calibrator.
    """
    runs = [(run, run.calibrator) for run in experiment.runs if run.calibrator is not None]
    if not runs:
        raise InputError("no run has a calibrator")
    lengths = np.concatenate([run.predictions.prompt_tokens for run, _ in runs])
    recorded = lengths[~np.isnan(lengths)]
    tokens = float(np.median(recorded)) if recorded.size else math.nan
    by_run = []
    for run, calibrator in runs:
        views = run.predictions
        alike = replace(views, prompt_tokens=np.full(len(views), tokens))
        temperature, choices = calibrator.temperatures(alike), np.unique(views.n_choices)
        means = np.array([temperature[views.n_choices == c].mean() for c in choices])
        identified = _is_identified(calibrator, "log_choices")
        by_run.append(RunTemperatures(run.label, run.arm, run.seed, choices, means, identified))
    return TemperatureByChoices(tuple(by_run), tokens)


def _is_identified(calibrator: Calibrator, parameter: str) -> bool | None:
    """Return whether a parameter is identified, from the calibrator's file; None if unknown."""
    listed = (calibrator.fit or {}).get("parameters")
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, Mapping) and entry.get("name") == parameter:
            identified = entry.get("identified")
            return identified if isinstance(identified, bool) else None
    return None
