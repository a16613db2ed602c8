"""Report on one run: every number from its predictions, at view 0 and at any number of views."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import metadata
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from pact_eval import metrics
from pact_eval._choices import ClusterUnit, Decoding, GroupBy
from pact_eval._json import Json, sha256_of_json
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.calibration.temperatures import CalibrationWarning, Calibrator, calibrator_sha256
from pact_eval.errors import InputError
from pact_eval.evaluation.conclusions.conclusion import Conclusion
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import (
    IncompletePairs,
    InfiniteNll,
    LargeFamilies,
    LowAnswerMass,
    NearTies,
    PairsWithoutMargin,
    RepeatedPrompts,
    near_ties,
    one_order,
    small_groups,
)
from pact_eval.evaluation.per_answer import QuestionAnswers
from pact_eval.evaluation.registry import (
    ANSWER_MASS,
    Contexts,
    DecodingName,
    MetricSpec,
    decoding_name,
    registered_metrics,
)
from pact_eval.evaluation.resampled_groups import (
    Computed,
    ResampledGroup,
    resample_items,
    resampled_groups,
)
from pact_eval.evaluation.settings import Settings
from pact_eval.evaluation.wrong_items import WrongItems
from pact_eval.progress import step, tracked
from pact_eval.results import Framed, Note
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import UNNAMED
from pact_eval.runs.seal import seal_digest
from pact_eval.stats.bootstrap import same_stream
from pact_eval.stats.consistency_resampling import calibrated_outcomes, shared_draw_rate
from pact_eval.stats.estimate import LEVEL, ClusterText, Estimate
from pact_eval.stats.homogeneity import SlotHomogeneity, slot_homogeneity
from pact_eval.stats.rates import rate_estimate

Calibration = Literal["raw", "calibrated", "as shipped"]
"""Whether distributions were divided by a temperature: fitted, or shipped with a template."""

SMALL_VIEW_TV: Final = 0.01
"""View TV below which an item counts as hardly moved by the order of its answers."""

_NO_ORDERS: Final = "the run does not record the order in which answers were shown"


@dataclass(frozen=True)
class ViewTvQuantiles:
    """Quantiles of view TV over the items that are shown in several orders; fractions.

    Attributes:
        items: number of these items.
        median: half of them have this view TV or less.
        p90: 90% of them have this view TV or less.
        largest: highest view TV of an item.
        share_below_small: share of them with a view TV below `SMALL_VIEW_TV`.
        recorded: whether an imported log states view TV, and the run has one view of an item.
    """

    items: int
    median: float
    p90: float
    largest: float
    share_below_small: float
    recorded: bool

    @classmethod
    def of(cls, items: ScoredItems) -> ViewTvQuantiles | None:
        """Return the quantiles, interpolated between items; None if no item has a view TV."""
        tv = items.values["view_tv"]
        tv = tv[~np.isnan(tv)] if items.repeats == 1 else np.empty(0)
        if not tv.size:
            return None
        median, p90, largest = np.quantile(tv, [0.5, 0.9, 1.0]).tolist()
        return cls(tv.size, median, p90, largest, float(np.mean(tv < SMALL_VIEW_TV)), items.k == 1)


@dataclass(frozen=True, eq=False)
class TopAnswers:
    """The most probable answers of a group of items, as events that are right or wrong.

    Attributes:
        confidence: (n,) their probabilities.
        correct: (n,) whether they are right.
        cluster: (n,) code of the unit of intervals of each item, 0..F-1.
        n_clusters: number of units, F.
        rng: source of draws; it is copied, so draws do not depend on what is drawn before.
    """

    confidence: FloatArray
    correct: BoolArray
    cluster: IntArray
    n_clusters: int
    rng: np.random.Generator

    @classmethod
    def of(cls, group: ResampledGroup) -> TopAnswers | None:
        """Return those of a group; None without confidences, and for ablated contexts."""
        items = group.items
        if items.reference is None or np.isnan(items.confidence).any():
            return None
        arrays = items.confidence, items.correct, items.cluster
        return cls(*arrays, items.n_clusters, same_stream(group.rng))

    def __len__(self) -> int:
        return len(self.confidence)


@dataclass(frozen=True)
class Group:
    """All numbers of one group of items.

    Attributes:
        name: "all", or the kind, domain or source family.
        items: number of items.
        answers: number of answers that means are taken over: items, times repeats if there are any.
        families: number of families.
        clusters: number of units of the intervals: families, or source families.
        estimates: by metric name.
        pairs: outcomes of the complete pairs; None for ablated contexts.
        nll: finite part and number of infinite items; None without probabilities, and for
            ablated contexts.
        top_answers: for `answer_scores` and `chance`; None as above.
    """

    name: str
    items: int
    answers: int
    families: int
    clusters: int
    estimates: Mapping[str, Estimate]
    pairs: metrics.PairOutcomes | None
    nll: metrics.NllSummary | None
    top_answers: TopAnswers | None = field(repr=False, compare=False)

    @cached_property
    def answer_scores(self) -> metrics.AnswerScores | None:
        """Brier and log score of "the answer is right" in parts; None without `top_answers`."""
        answers = self.top_answers
        if answers is None:
            return None
        return metrics.answer_scores(answers.confidence, answers.correct)

    @cached_property
    def chance(self) -> ChanceMiscalibration | None:
        """Their miscalibration if the model were calibrated; None without `top_answers`."""
        answers = self.top_answers
        if answers is None:
            return None
        return chance_miscalibration(answers, rng=same_stream(answers.rng))


@dataclass(frozen=True, repr=False)
class Evaluation(Framed):
    """Every number of the report on one run under one decoding.

    A run on ablated contexts has no references. It has only the metrics that need none; other
    attributes that need references are None.

    Attributes:
        contexts: full, or ablated.
        decoding: single (view 0) or ensemble (K views); all numbers except TV, flips, ensemble gain
            and the letters depend on it.
        calibration: raw or calibrated; the same numbers depend on it.
        k: number of views per item.
        repeats: number of repeats per item; 1 if the views are not repeats of one order. Under the
            decoding single, every number is then a mean over the repeats.
        by: grouping after all items: kind, domain or source_family.
        unit: units of intervals: families, or source families.
        metrics: the metrics of the groups, in the order of the report.
        groups: all items first, then the groups.
        letters: test of letter bias over all items and views; None for ablated contexts.
        mean_answer_mass: mean share of the next-token distribution on the letters; NaN if unknown.
        smallest_probability: smallest probability above 0 in the run.
        near_ties: answers that rounding could have changed; None if the precision is unknown.
        notes: notes on the numbers.
        view_tv: quantiles of view TV over all items; None if no item is shown in several orders.
        warnings: warnings on the run and its calibrator; `pact_eval.evaluate` fills them.
        conclusions: on the order and the probabilities of the run; `pact_eval.evaluate` fills them.
        run: name of the run; "" if unknown. `pact_eval.evaluate` fills it.
        wrong: its surest wrong answers; `pact_eval.evaluate` fills them.
        questions: precision, recall and F1 of every answer; `pact_eval.evaluate` fills them.
    """

    contexts: Contexts
    decoding: Decoding
    calibration: Calibration
    k: int
    repeats: int
    by: GroupBy
    unit: ClusterUnit
    metrics: tuple[MetricSpec, ...]
    groups: tuple[Group, ...]
    letters: SlotHomogeneity | None
    mean_answer_mass: float
    smallest_probability: float
    near_ties: NearTies | None
    notes: tuple[Note, ...]
    view_tv: ViewTvQuantiles | None = None
    warnings: tuple[CalibrationWarning | Note, ...] = ()
    conclusions: tuple[Conclusion, ...] = ()
    run: str = ""
    wrong: WrongItems | None = None
    questions: tuple[QuestionAnswers, ...] = ()

    @property
    def decoding_name(self) -> DecodingName:
        """Name of the decoding in outputs."""
        return decoding_name(self.decoding, self.repeats)


def evaluate_items(
    items: ScoredItems,
    *,
    by: GroupBy,
    rng: np.random.Generator,
    resamples: int | None = None,
    noise: float | None = None,
    notes: tuple[Note, ...] = (),
    shuffled: bool = False,
) -> Evaluation:
    """Compute the report on scored items, in memory or read from a file; see `evaluate`.

    Args:
        items: all items of a run under one decoding.
        by: kind, domain or source_family.
        rng: source of the resamples.
        resamples: bootstrap resamples of each interval; None uses `default_resamples`.
        noise: possible rounding error of a logit; None leaves near ties out.
        notes: notes on the run, to come first.
        shuffled: whether repeats show the answers in other orders.
    """
    drawn = resampled_groups(items, by, rng=rng, resamples=resamples)
    groups = tuple(map(group_numbers, drawn))
    facts = items.facts
    ties = None if noise is None else near_ties(facts.logit_gap, noise)
    letters = None
    if items.reference is not None:  # over all views whose letter order is known
        clusters = items.cluster[facts.of_item]
        letters = slot_homogeneity(facts.picked, facts.held, clusters, facts.weight)
        if not facts.of_item.size:
            letters = replace(letters, reason=ClusterText(_NO_ORDERS))
    return Evaluation(
        contexts=items.contexts,
        decoding=items.decoding,
        calibration="raw" if items.calibrator is None else items.calibrator.name,
        k=max(items.k, items.repeats),
        repeats=items.repeats,
        by=by,
        unit=items.unit,
        metrics=registered_metrics(items.contexts),
        groups=groups,
        letters=letters,
        mean_answer_mass=facts.answer_mass,
        smallest_probability=facts.smallest_probability,
        near_ties=ties,
        notes=(
            *RepeatedPrompts.of(items, shuffled=shuffled),
            *notes,
            *_notes(items, groups[0], ties),
            *LargeFamilies.of(items),
            *small_groups({group.name: group.items.n_clusters for group in drawn}, items.unit),
        ),
        view_tv=ViewTvQuantiles.of(items),
    )


def group_numbers(group: ResampledGroup) -> Group:
    """Return all numbers of a group of items."""
    items, pairs = group.items, None
    if items.reference is not None:
        pairs = metrics.pair_outcomes(items.pairs, items.predicted, items.reference)
        pairs = replace(pairs, same_answer=None) if items.known in UNNAMED else pairs
    nll = items.values.get("nll_nats")
    names = (spec.name for spec in registered_metrics(items.contexts))
    return Group(
        name=group.name,
        items=items.n_items,
        answers=len(items),
        families=len(items.families),
        clusters=items.n_clusters,
        estimates=Computed(names, group.estimate),
        pairs=pairs,
        nll=None if nll is None or np.isnan(nll).any() else metrics.nll_summary(nll),
        top_answers=TopAnswers.of(group),
    )


def _notes(items: ScoredItems, everything: Group, ties: NearTies | None) -> tuple[Note, ...]:
    notes: list[Note] = []
    facts, nll, pairs = items.facts, everything.nll, everything.pairs
    if nll is not None and nll.infinite_items:
        smallest = facts.smallest_probability
        bound = nll.lower_bound(smallest)
        notes.append(InfiniteNll(nll.infinite_items, nll.items, smallest, bound))
    low = LowAnswerMass.of(facts.answer_mass)
    if low is not None:
        notes.append(low)
    if pairs is not None and pairs.incomplete_families and len(items.pairs):
        notes.append(IncompletePairs(pairs.incomplete_families))
    notes += PairsWithoutMargin.of(items)
    notes += one_order(items)
    if ties is not None and ties.items:
        notes.append(ties)
    return tuple(notes)


FORMAT: Final = "pact-digest-2"
_SETTINGS: Final = (
    *("decoding", "calibrated", "by", "unit", "resamples", "seed", "method", "margin"),
)


@dataclass(frozen=True)
class ReportDigest:
    """The digest of a report, with what it covers.

    Attributes:
        version: version of pact-eval.
        settings: decoding, grouping, bootstrap, accepted differences, ...
        runs: for each run, its arm and `seal_digest`, and the SHA-256 of its calibrator (null if
            it has none).
        inputs: SHA-256 of what else decides what is shown, by name: criteria, texts, ...
    """

    version: str
    settings: Mapping[str, Json]
    runs: tuple[Mapping[str, Json], ...]
    inputs: Mapping[str, Json] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """The digest: 64 hex digits."""
        return sha256_of_json(self.content)

    @property
    def content(self) -> dict[str, Json]:
        """Content that the digest covers."""
        return {
            "format": FORMAT,
            "version": self.version,
            "settings": dict(self.settings),
            "runs": [dict(run) for run in self.runs],
            "inputs": dict(self.inputs),
        }

    @property
    def json(self) -> dict[str, Json]:
        """Content, and the digest itself."""
        return {"sha256": self.sha256, **self.content}


def report_digest(
    runs: Sequence[ExperimentRun], settings: Settings, inputs: Mapping[str, Json] | None = None
) -> ReportDigest:
    """Return the digest of a report on runs.

    Args:
        runs: the runs, in the order of the report.
        settings: the settings of all its numbers.
        inputs: SHA-256 of what else decides what is shown, by name.
    """
    run_digests: tuple[Mapping[str, Json], ...] = tuple(
        {
            "arm": run.arm,
            "run": seal_digest(run.run.seal),
            "calibrator": None if run.calibrator is None else calibrator_sha256(run.calibrator),
        }
        for run in runs
    )
    chosen: dict[str, Json] = {name: getattr(settings, name) for name in _SETTINGS}
    chosen["allow"] = [*sorted(set(settings.allow))]
    if settings.bins is not None:
        chosen["bins"] = settings.bins if isinstance(settings.bins, int) else [*settings.bins]
    if settings.without_leaks:
        chosen["without_leaks"] = True
    if settings.target_error is not None:
        chosen["target_error"] = settings.target_error
    return ReportDigest(metadata.version("pact-eval"), chosen, run_digests, inputs or {})


_SAMPLES: Final = 300
# Outcomes drawn for one group: more items get fewer samples, but `_FEWEST` at least.
_MOST_OUTCOMES: Final = 10_000_000
_FEWEST: Final = 100
_MOST_ITEMS: Final = 100_000
# Samples whose ECE without bins is computed.
_SMOOTHED: Final = 100
_ROUNDING: Final = 1e-12


@dataclass(frozen=True)
class ChanceMiscalibration:
    """Miscalibration of a calibrated model with the same confidences and families.

    Attributes:
        brier: mean miscalibration of the Brier score.
        brier_high: 95% quantile of it.
        log_nats: mean miscalibration of the log score, in nats.
        log_nats_high: 95% quantile of it.
        smooth_ece: mean ECE without bins.
        smooth_ece_high: 95% quantile of it.
        p_value: of the hypothesis that the model is calibrated: how often a calibrated model has a
            miscalibration of the Brier score as large.
        reason: why the numbers are NaN, or None.
    """

    brier: float
    brier_high: float
    log_nats: float
    log_nats_high: float
    smooth_ece: float
    smooth_ece_high: float
    p_value: float
    reason: str | None = None


def chance_miscalibration(
    items: ScoredItems | TopAnswers, *, rng: np.random.Generator
) -> ChanceMiscalibration:
    """Draw outcomes at the confidences, and split their scores as those of the items.

    This is the noise floor of miscalibration. Isotonic regression fits noise, so miscalibration is
    above 0 on a calibrated model too.

    Args:
        items: items with references, under one decoding.
        rng: source of the draws.

    Returns:
        Means and 95% quantiles of 300 draws (100 for many items); NaN with a reason without items,
        or for more than 100,000, where chance is below 0.001.

    References:
        Consistency resampling: Broecker and Smith 2007; Vaicenavicius et al. 2019. Parts of scores:
        Dimitriadis, Gneiting and Jordan 2021.
    """
    n = len(items)
    if not 0 < n <= _MOST_ITEMS:
        reason = "more than 100,000 items: chance is below 0.001" if n else "no items"
        nan = math.nan
        return ChanceMiscalibration(nan, nan, nan, nan, nan, nan, nan, reason)
    samples = max(_FEWEST, min(_SAMPLES, _MOST_OUTCOMES // n))
    c, drawn = items.confidence, []
    smooth: list[npt.NDArray[np.float64]] = []
    with step("Drawing outcomes by chance", samples, "samples") as drawing:
        for outcomes in outcomes_if_calibrated(items, rng=rng, samples=samples):
            drawn.append(metrics.miscalibration_samples(c, outcomes))
            first = outcomes[: max(0, _SMOOTHED - sum(part.size for part in smooth))]
            smooth.append(metrics.smooth_ece_samples(c, first))
            drawing.done += len(outcomes)
    brier, log_nats = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    own = metrics.miscalibration_samples(c, items.correct[None])[0][0]
    p_value = (1 + int((brier >= own - _ROUNDING).sum())) / (samples + 1)
    smooth_ece = _summary(np.concatenate(smooth))
    return ChanceMiscalibration(*_summary(brier), *_summary(log_nats), *smooth_ece, p_value)


def outcomes_if_calibrated(
    items: ScoredItems | TopAnswers, *, rng: np.random.Generator, samples: int
) -> Iterator[npt.NDArray[np.bool_]]:
    """Draw outcomes of a calibrated model; members of a family share draws.

    Args:
        items: one or more items with references, under one decoding.
        rng: source of the draws.
        samples: number of draws.

    Yields:
        (b, n) samples, all draws in parts.
    """
    c, right = items.confidence, items.correct
    rate = shared_draw_rate(c, right, items.cluster, items.n_clusters)
    return calibrated_outcomes(
        c, items.cluster, items.n_clusters, rate=rate, rng=rng, resamples=samples
    )


def _summary(drawn: npt.NDArray[np.float64]) -> tuple[float, float]:
    return float(drawn.mean()), float(np.quantile(drawn, 1 - LEVEL))


HEADLINE: Final = ("accuracy", "pair_accuracy")
"""The metrics of brief outputs."""

COMPARED: Final = (*HEADLINE, ANSWER_MASS)
"""The metrics of a conclusion on two runs or arms."""


@dataclass(frozen=True)
class DecodedRates:
    """Accuracy and pair accuracy of a run under one decoding.

    Attributes:
        decoding: single (view 0), ensemble (K views), or those of repeats; see `decoding_name`.
        k: number of views: 1 for view 0.
        repeats: number of repeats per item; 1 if the views are not repeats.
        accuracy: with its interval.
        pair_accuracy: with its interval; undefined without pairs.
        accuracy_of_asked: accuracy if unanswered items count as wrong, as logs count them; None if
            all items are answered.
    """

    decoding: DecodingName
    k: int
    repeats: int
    accuracy: Estimate
    pair_accuracy: Estimate
    accuracy_of_asked: Estimate | None = None

    @classmethod
    def of(
        cls, decoding: Decoding, k: int, estimates: Mapping[str, Estimate], repeats: int = 1
    ) -> DecodedRates:
        """Take the rates from the estimates of all items of a run with k views."""
        rates = [estimates[name] for name in HEADLINE]
        name = decoding_name(decoding, repeats)
        return cls(name, 1 if decoding == "single" else k, repeats, *rates)


def other_decoding(decoding: Decoding) -> Decoding:
    """Return ensemble for single, and single for ensemble."""
    return "ensemble" if decoding == "single" else "single"


def accuracy_of_asked(items: ScoredItems, without: pl.DataFrame) -> Estimate:
    """Return the accuracy if unanswered items count as wrong.

    An item of repeats that lacks some answers counts with those that it has, as in its log.

    Args:
        items: the answered items, with their units of intervals.
        without: the unanswered items, as `unanswered_items` returns them.
    """
    rows = items.asked
    totals, right = np.full(len(without), rows), np.zeros(len(without), dtype=np.int64)
    if rows > 1 or items.k == 1:
        totals, right = (
            without[name].fill_null(default).to_numpy() if name in without.columns else values
            for name, default, values in (("asked", rows, totals), ("right", 0, right))
        )
    names = np.r_[items.clusters.names, without[items.unit].fill_null("").to_numpy()]
    _, codes = np.unique(names.astype(str), return_inverse=True)
    answered = items.n_clusters
    cluster = np.r_[codes[:answered][items.cluster], codes[answered:]]
    return rate_estimate(
        np.bincount(cluster, np.r_[items.correct, right]),
        np.bincount(cluster, np.r_[np.ones(len(items)), totals]),
    )


@dataclass(frozen=True)
class SweepPoint:
    """All numbers of a run as if it had been scored with fewer views.

    Attributes:
        k: number of views; the first k views of every item are used.
        group: all items under the ensemble of these views.
    """

    k: int
    group: Group


def sweep(
    predictions: Predictions, ks: range, settings: Settings, calibrator: Calibrator | None = None
) -> tuple[SweepPoint, ...]:
    """Evaluate a run at every number of views; every point uses the same resamples.

    Args:
        predictions: the scored views of one run.
        ks: numbers of views, from 1 to K; views are used in their order.
        settings: resamples, and units of intervals.
        calibrator: temperatures to divide by; None leaves the distributions raw.

    Raises:
        InputError: the run has fewer views than requested.
        ValueError: the views of an item have no answer in common.
    """
    if not ks or ks.start < 1 or ks[-1] > predictions.k:
        got = f"{ks.start} to {ks.stop - 1}" if len(ks) != 1 else ks.start
        raise InputError(f"expected numbers of views from 1 to {predictions.k}, got {got}")
    points = []
    for k in tracked(ks, "Evaluating views", "views"):
        group = swept_group(predictions, k, settings, calibrator)
        with step("Computing intervals", len(group.items), "items"):
            points.append(SweepPoint(k, group_numbers(group)))
    return tuple(points)


def swept_group(
    predictions: Predictions,
    k: int,
    settings: Settings,
    calibrator: Calibrator | None = None,
    names: Sequence[str] | None = None,
) -> ResampledGroup:
    """Resample all items of a run under the ensemble of its first k views.

    Metrics of several views leave out items that these k views show in one order.

    Args:
        predictions: the scored views of one run.
        k: number of views, from 1 to K.
        settings: resamples, and units of intervals.
        calibrator: temperatures to divide by; None leaves the distributions raw.
        names: names of the metrics; None uses every metric of the report.

    Raises:
        ValueError: the views of an item have no answer in common.
    """
    items = ScoredItems.of(predictions.with_views(k), "ensemble", calibrator).over(settings.unit)
    return resample_items(items, settings, names=names)[0]
