"""Remedies of order effects: decodings that cost less than K views, compared at their price.

A remedy takes the first views of every item and gives one distribution: their mean
log-probability, with or without what the letters add. Every item is decoded with a prior and a
temperature of other families, and each remedy is compared with view 0 alone and with all K views,
on the same items and resamples of families. Fits are held fixed in the resamples.

Costs are per item. A prompt is an order that the item had not before: an answer in the same order
is not asked again. Repeats of imported logs are the exception, because each of them was asked.
Through the prefix tree, tokens of a prefix that prompts share count once: that is what views cost
the fork engine. Sent, every prompt is counted in full: that is what they cost at a server that
shares nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, TypeAlias

import numpy as np

from pact_eval._choices import ClusterUnit
from pact_eval._typing import FloatArray, IntArray
from pact_eval.calibration.fitting import best_scalar
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.temperatures import Calibrator
from pact_eval.errors import InputError
from pact_eval.evaluation.conclusions.data import DataLeak
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import MetricSpec, find_metric
from pact_eval.evaluation.resampled_groups import (
    Evidence,
    ResampledGroup,
    adjusted,
    default_resamples,
    metric_difference,
    resampled_groups,
    sign_of,
)
from pact_eval.letter_priors import (
    LetterPrior,
    PriorMethod,
    contextually_calibrated,
    fit_letter_prior,
    usable,
)
from pact_eval.metrics.decoding import NONE_LEFT, normalise
from pact_eval.progress import step, tracked
from pact_eval.results import Result
from pact_eval.runs.folder import CONTENTS, RunFolder, content_free_probabilities, content_free_run
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import Provenance
from pact_eval.stats.clusters import dealt_folds
from pact_eval.stats.estimate import ClusterText, Estimate
from pact_eval.stats.letter_preference import distinct_orders

_REMOVED: Final[Mapping[PriorMethod | None, str]] = {
    None: "",
    "additive": ", prior removed",
    "batch": ", batch calibrated",
}


@dataclass(frozen=True, slots=True)
class Remedy:
    """A decoding of some views of every item: their mean log-probability.

    Attributes:
        views: number of views, from 1.
        prior: the estimator of the letter prior that is removed from every view; None for none.
        contextual: whether every view is divided by its content-free distribution.

    Examples:
        >>> Remedy(2).name, Remedy(1, prior="additive").title
        ('k2', 'K = 1, prior removed')
    """

    views: int
    prior: PriorMethod | None = None
    contextual: bool = False

    @property
    def name(self) -> str:
        """Name in JSON."""
        prior = "" if self.prior is None else f"_{self.prior}"
        return f"k{self.views}{prior}{'_contextual' if self.contextual else ''}"

    @property
    def title(self) -> str:
        """Name in tables."""
        contextual = ", contextual" if self.contextual else ""
        return f"K = {self.views}{_REMOVED[self.prior]}{contextual}"


def remedies_for(
    k: int, *, same_orders: bool = False, content_free: bool = True
) -> tuple[Remedy, ...]:
    """Return one view and the remedies that a run of K views can show, fewest views first.

    Args:
        k: number of views per item.
        same_orders: whether the views repeat one order, as repeats do: they say nothing of letters.
        content_free: whether the run has content-free prompts.

    Examples:
        >>> [remedy.name for remedy in remedies_for(1, content_free=False)]
        ['k1', 'k1_batch']
        >>> [remedy.name for remedy in remedies_for(4)]
        ['k1', 'k1_additive', 'k1_batch', 'k1_contextual', 'k2', 'k2_additive', 'k4']
    """
    several_orders = k > 1 and not same_orders
    letters = {
        Remedy(1, prior="additive"): several_orders,
        Remedy(1, prior="batch"): True,
        Remedy(1, contextual=True): content_free,
        Remedy(2, prior="additive"): several_orders,
    }
    views = [*map(Remedy, sorted({1, min(2, k), k}))]
    remedies = [*views, *(remedy for remedy, possible in letters.items() if possible)]
    return tuple(sorted(remedies, key=lambda remedy: remedy.views))


def remedied(
    predictions: Predictions,
    remedy: Remedy,
    prior: LetterPrior | None,
    content_free: FloatArray | None = None,
) -> Predictions:
    """Decode the views of a run by a remedy.

    Args:
        predictions: views of items; at least as many as the remedy takes.
        remedy: the decoding.
        prior: its letter prior; None if it has none.
        content_free: (n, V, C) content-free probabilities of the first V views, which contextual
            remedies need.

    Returns:
        The same items. Their view 0 is the remedied distribution of the first views. Their view 1,
        if there are twice as many views, is that of the next ones: the flip rate of a remedy says
        whether its answer still depends on the orders that it happened to get. Repeats stay
        repeats, also if there is one view.

    Raises:
        ValueError: the views of an item leave no answer possible.
    """
    if prior is not None:
        by_view = prior.removed(predictions)
    elif remedy.contextual and content_free is not None:
        by_view = contextually_calibrated(predictions, content_free)
    else:
        by_view = predictions.log_probs_by_view
    starts = [start for start in (0, remedy.views) if start + remedy.views <= by_view.shape[1]]
    sets = [
        normalise(by_view[:, start : start + remedy.views].mean(axis=1), NONE_LEFT)
        for start in starts
    ]
    return replace(
        predictions,
        logits=np.stack(sets, axis=1),
        code_order=predictions.code_order[:, starts],
        answer_mass=predictions.answer_mass[:, starts],
        censored=None,
        known="probabilities",
    )


def _temperature(decoded: Predictions) -> Calibrator | None:
    """Fit one temperature on remedied distributions, by view 0.

    None if nothing can be fitted: answers without probabilities, several right answers, or a right
    answer of probability 0.
    """
    if decoded.known != "probabilities" or decoded.accepted is not None:
        return None
    of_right = np.take_along_axis(decoded.logits[:, 0], decoded.reference[:, np.newaxis], axis=1)
    if np.isneginf(of_right).any():
        return None
    return best_scalar(CalibrationItems.from_predictions(decoded, "single"))


FoldUnit = Literal["source family", "family"]
"""What a fold keeps together."""

_SOURCE_FAMILIES: Final = 5
_FOLDS: Final = 10


@dataclass(frozen=True, eq=False)
class Folds:
    """Parts of a run that are decoded in turn with what the others fit.

    Attributes:
        unit: what a fold keeps together: source families if there are five or more, else families.
        fold: (n,) number of the fold of each item, from 0.
    """

    unit: FoldUnit
    fold: IntArray

    @property
    def number(self) -> int:
        """Number of folds."""
        return int(self.fold.max()) + 1


def folds_of(predictions: Predictions) -> Folds:
    """Deal the families of a run into folds of about equal size, at most ten.

    Raises:
        InputError: there is one family only.
    """
    n_sources = len(np.unique(predictions.source_family))
    unit: FoldUnit = "source family" if n_sources >= _SOURCE_FAMILIES else "family"
    names = predictions.source_family if unit == "source family" else predictions.family
    _, codes, sizes = np.unique(names, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        raise InputError(
            "remedies: expected two families or more, to fit on one and apply to others"
        )
    return Folds(unit, dealt_folds(sizes, min(_FOLDS, len(sizes)))[codes])


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """A run under one remedy, each item with a fit of other families.

    Attributes:
        predictions: the remedied distributions; see `remedied`.
        tempered: the same, each fold divided by the temperature that the others fit by NLL; None
            if none can be fitted.
        without_prior: number of items that the remedy leaves as they are, because their number of
            answers has no prior, or they have no content-free probabilities.
        fitted_on: mean number of items that a prior was fitted on; 0 without one.
    """

    predictions: Predictions
    tempered: Predictions | None
    without_prior: int
    fitted_on: float


def cross_fitted(
    predictions: Predictions,
    remedy: Remedy,
    folds: Folds,
    content_free: FloatArray | None = None,
    *,
    temperatures: bool = True,
    priors: dict[tuple[PriorMethod, int], LetterPrior] | None = None,
) -> CrossFitted:
    """Decode a run by one remedy, each item with fits of other families.

    Args:
        predictions: the views of a run with references.
        remedy: the decoding.
        folds: those of the run.
        content_free: (n, V, C) content-free probabilities, for contextual remedies.
        temperatures: whether to fit them.
        priors: letter priors of other remedies of the run, by estimator and fold; those that are
            fitted here are added.

    Raises:
        InputError: see `fit_letter_prior` and `contextually_calibrated`.
    """
    priors = {} if priors is None else priors
    whole = remedied(predictions, replace(remedy, prior=None), None, content_free)
    raw, at_temperature = whole.logits.copy(), whole.logits.copy()
    tempered, without_prior, fitted_on = temperatures, 0, []
    if remedy.contextual and content_free is not None:
        without_prior = int((~usable(content_free, predictions)).sum())
    for fold in range(folds.number):
        rows, others = (np.flatnonzero(part) for part in (folds.fold == fold, folds.fold != fold))
        part, fitted, items = whole.taken(rows), whole.taken(others), 0
        if remedy.prior is not None:
            place = remedy.prior, fold
            if place not in priors:
                priors[place] = fit_letter_prior(predictions.taken(others), remedy.prior)
            prior = priors[place]
            part = remedied(predictions.taken(rows), remedy, prior)
            fitted = remedied(predictions.taken(others), remedy, prior)
            without_prior += int((~prior.covers(part.n_choices)).sum())
            items = sum(prior.items.values())
        raw[rows] = part.logits
        calibrator = _temperature(fitted) if temperatures else None
        tempered = tempered and calibrator is not None
        if calibrator is not None:
            at_temperature[rows] = calibrator.apply(part.logits, part)
        fitted_on.append(items)
    return CrossFitted(
        predictions=replace(whole, logits=raw),
        tempered=replace(whole, logits=at_temperature) if tempered else None,
        without_prior=without_prior,
        fitted_on=float(np.mean(fitted_on)),
    )


NoTokens: TypeAlias = Literal["served", "older", "unknown"]
"""Why tokens through the prefix tree are not known: a server scored the run; the run was scored
before they were counted; nothing is known of its prompts, as of most imports."""

Price: TypeAlias = Literal["computed tokens", "prompts"]
"""What remedies are ordered by: tokens through the prefix tree of a local run that records them,
else prompts, both per item."""


@dataclass(frozen=True)
class RemedyCost:
    """Cost of a remedy; NaN if not known.

    Attributes:
        prompts: per item.
        tokens: per item, through the prefix tree.
        sent_tokens: per item, in full prompts.
    """

    prompts: float
    tokens: float
    sent_tokens: float

    def price(self, price: Price) -> float:
        """Return the cost per item that remedies are ordered by."""
        return self.prompts if price == "prompts" else self.tokens


@dataclass(frozen=True, eq=False)
class ViewCosts:
    """Mean costs per item of the first 1 to K views of a run.

    Attributes:
        prompts: (K,) prompts.
        shared: (K,) tokens through the prefix tree; NaN if not known.
        sent: (K,) tokens in full prompts; NaN if not known. A prompt has the length of that of view
            0 if a server answered.
        no_shared: why `shared` is not known; None if it is.
    """

    prompts: FloatArray
    shared: FloatArray
    sent: FloatArray
    no_shared: NoTokens | None = "unknown"

    @classmethod
    def of_run(cls, predictions: Predictions, provenance: Provenance | None = None) -> ViewCosts:
        """Return the costs of a run, as far as they are known.

        Args:
            predictions: its views; their prompt lengths in view 0 are those of all of their
                prompts, unless the run counted them.
            provenance: has the counts of a run that was scored here; None knows no tokens.

        Examples:
            >>> import polars as pl
            >>> two_answers = Predictions.from_frame(pl.DataFrame({
            ...     "id": "a", "family": "f", "source_family": "s", "domain": "d",
            ...     "kind": "boolean", "variant": "base", "reference": 1, "n_choices": 2,
            ...     "view": [0, 1, 2], "code_order": [[0, 1], [1, 0], [0, 1]],
            ...     "logits": [[0.0, 1.0]] * 3, "prompt_tokens": 9, "answer_mass": 1.0}))
            >>> ViewCosts.of_run(two_answers).prompts.tolist()
            [1.0, 2.0, 2.0]
        """
        views = np.arange(1, predictions.k + 1)
        prompts = np.tile(views, (len(predictions), 1))
        if not predictions.repeats:
            prompts = distinct_orders(predictions.code_order).cumsum(axis=1)
        unknown, lengths = np.full(len(views), math.nan), predictions.prompt_tokens[:, np.newaxis]
        if provenance is None:
            return cls(prompts.mean(axis=0), unknown, unknown)
        counts, records = provenance.view_tokens, provenance.data.records
        if counts is not None and records and len(counts.shared) == predictions.k:
            repeated = (lengths * (views - prompts)).mean(axis=0)
            sent = np.array(counts.prompts) / records - repeated
            return cls(prompts.mean(axis=0), np.array(counts.shared) / records, sent, None)
        sent = (lengths * prompts).mean(axis=0)
        if not np.isfinite(sent).all():
            return cls(prompts.mean(axis=0), unknown, unknown)
        why: NoTokens = "served" if provenance.served else "older"
        return cls(prompts.mean(axis=0), unknown, sent, why)

    def of(self, remedy: Remedy, content_free: ViewCosts | None) -> RemedyCost:
        """Return the cost of a remedy.

        Args:
            remedy: the decoding.
            content_free: costs per content-free prompt, of which a contextual remedy asks
                `CONTENTS` for each item.
        """
        at = remedy.views - 1
        prompts, shared, sent = (
            float(costs[at]) for costs in (self.prompts, self.shared, self.sent)
        )
        if remedy.contextual and content_free is not None:
            contents = len(CONTENTS)
            prompts *= 1 + contents
            shared += contents * float(content_free.shared[at])
            sent += contents * float(content_free.sent[at])
        return RemedyCost(prompts, shared, sent)


@dataclass(frozen=True, eq=False)
class ContentFree:
    """Content-free prompts of the items of a run.

    Attributes:
        probabilities: (n, V, C) their mean distribution in the first V views, canonical order; NaN
            if it is not known.
        costs: per prompt.
    """

    probabilities: FloatArray
    costs: ViewCosts

    @classmethod
    def of_run(cls, run: RunFolder, predictions: Predictions) -> ContentFree | None:
        """Read those of a run; None if it has none.

        Raises:
            RunError: they are not those of the run, or are damaged.
            TamperedError: they have changed since they were sealed.
        """
        own = content_free_run(run)
        if own is None:
            return None
        probabilities = content_free_probabilities(predictions, own.predictions)
        return cls(probabilities, ViewCosts.of_run(own.predictions, own.provenance))


_SETS: Final = 2
"""Most sets of views that a remedy decodes: see `remedied`."""

RAW_METRICS: Final = ("accuracy", "pair_accuracy", "nll_nats", "ece", "flip_rate")
TEMPERED_METRICS: Final = ("nll_nats", "ece")
"""A temperature changes no answer, so only these differ after one."""

_DECIDING: Final = ("accuracy", "nll_nats")

Scope: TypeAlias = Literal["all", "deciding"]
"""all: raw and tempered metrics; deciding: accuracy and NLL alone, in a seventh of the time, for
simulations of many runs."""


@dataclass(frozen=True)
class RemedyDifference:
    """A remedy minus a reference in one metric.

    Attributes:
        difference: with an interval over families; of the same items.
        evidence: its test, adjusted by Holm over all remedies: accuracy and NLL together, which
            decide whether a remedy helps, and the other metrics together.
    """

    difference: Estimate
    evidence: Evidence

    @property
    def marked(self) -> bool:
        """Whether the difference is shown at the 5% level."""
        return self.evidence.marked


@dataclass(frozen=True)
class RemedyMetric:
    """One metric of a remedy.

    Attributes:
        spec: the metric.
        tempered: whether a temperature of other families was applied.
        value: its value.
        differences: by name of the reference remedy, the difference from it.
    """

    spec: MetricSpec
    tempered: bool
    value: Estimate
    differences: Mapping[str, RemedyDifference]

    def is_better(self, reference: str) -> bool:
        """Return whether it is shown to be better than the reference."""
        against = self.differences.get(reference)
        if against is None or not against.marked:
            return False
        return sign_of(against.difference) * self.spec.better > 0

    def interval_is_worse(self, reference: str) -> bool:
        """Return whether the 95% interval is on the worse side of 0, before Holm's adjustment."""
        against = self.differences.get(reference)
        if against is None:
            return False
        difference = against.difference
        return (difference.high if self.spec.better > 0 else -difference.low) < 0


@dataclass(frozen=True)
class RemedyRow:
    """One remedy of a run.

    Attributes:
        remedy: the decoding.
        metrics: its metrics, raw ones first.
        without_prior: items that the remedy leaves as they are, because their number of answers has
            no prior, or they have no content-free probabilities.
        fitted_on: mean number of items of a fit; 0 without one.
        cost: prompts and tokens per item.
    """

    remedy: Remedy
    metrics: tuple[RemedyMetric, ...]
    without_prior: int
    fitted_on: float
    cost: RemedyCost

    def metric(self, name: str, *, tempered: bool = False) -> RemedyMetric:
        """Return a metric of the row.

        Raises:
            KeyError: the row has none of that name.
        """
        for metric in self.metrics:
            if (metric.spec.name, metric.tempered) == (name, tempered):
                return metric
        raise KeyError(name)

    def helps(self, reference: str) -> bool:
        """Return whether accuracy or NLL is shown to be better than a reference, and none worse.

        Better is after Holm's adjustment, and worse is by the 95% interval without it: an
        adjustment would hide harm, the more remedies there are.
        """
        better = any(self.metric(name).is_better(reference) for name in _DECIDING)
        return better and not self.is_worse(reference)

    def is_worse(self, reference: str) -> bool:
        """Return whether accuracy or NLL is worse than a reference by its 95% interval."""
        return any(self.metric(name).interval_is_worse(reference) for name in _DECIDING)


RemedyStatus: TypeAlias = Literal["some help", "none shown", "cannot tell"]
"""some help: one or more remedies are shown to improve accuracy or NLL; none shown: none is; cannot
tell: the run has one view, or no interval can be given."""


@dataclass(frozen=True, repr=False)
class RemedyComparison(Result):
    """Remedies of a run, and what they are worth.

    Attributes:
        rows: the remedies: view 0 alone first, then by price.
        price: what cheapest means: computed tokens if the run records them, as local runs do; else
            prompts, which servers count.
        references: names of the remedies that the others are compared with.
        k: views per item of the run.
        items: number of items.
        families: number of families.
        fold_unit: what cross-fitting keeps together.
        folds: number of folds.
        no_tokens: why tokens through the prefix tree are not known; None if they are.
        content_free: whether the run has content-free prompts.
        asked: what views are: orders of the answers, or repeats of one order.
        leak: items of the run that a model may have learnt; None without any.
    """

    rows: tuple[RemedyRow, ...]
    price: Price
    references: tuple[str, ...]
    k: int
    items: int
    families: int
    fold_unit: FoldUnit
    folds: int
    no_tokens: NoTokens | None
    content_free: bool
    asked: Literal["order", "repeat"] = "order"
    leak: DataLeak | None = None

    @property
    def helping(self) -> tuple[str, ...]:
        """Names of the remedies that are shown to help, the cheapest first."""
        first = self.references[0]
        return tuple(row.remedy.name for row in self.rows if row.helps(first))

    @property
    def status(self) -> RemedyStatus:
        """Whether any remedy is shown to help."""
        if self.helping:
            return "some help"
        differences = (
            row.metric(name).differences.get(self.references[0])
            for row in self.rows
            for name in _DECIDING
        )
        has_interval = any(one and math.isfinite(one.difference.low) for one in differences)
        return "none shown" if self.k > 1 and has_interval else "cannot tell"

    @property
    def enough(self) -> str | None:
        """Cheapest remedy that helps and is not worse than all K views by its 95% intervals.

        None if there is none, or if it is all K views themselves. Holm's adjustment is left out: it
        would make this easier, the more remedies there are.
        """
        every = self.references[-1]
        most = self.row(every).cost.price(self.price)
        for row in map(self.row, self.helping):
            if row.cost.price(self.price) < most and not row.is_worse(every):
                return row.remedy.name
        return None

    def row(self, name: str) -> RemedyRow:
        """Return the row of a remedy.

        Raises:
            KeyError: the run has no such remedy.
        """
        for row in self.rows:
            if row.remedy.name == name:
                return row
        raise KeyError(name)


def compare_remedies(
    predictions: Predictions,
    *,
    rng: np.random.Generator,
    resamples: int | None = None,
    unit: ClusterUnit = "family",
    costs: ViewCosts | None = None,
    content_free: ContentFree | None = None,
    scope: Scope = "all",
) -> RemedyComparison:
    """Compare the remedies that a run can show.

    Args:
        predictions: the views of a run with references and probabilities.
        rng: source of the resamples; its state does not change.
        resamples: bootstrap resamples of each interval; None uses `default_resamples`.
        unit: units of intervals: families, or source families.
        costs: those of the run's views; None if its tokens are not known.
        content_free: content-free probabilities, for contextual calibration; None if the run has
            none.
        scope: what is computed; see `Scope`.

    Returns:
        The comparison; differences are the remedy minus the reference.

    Raises:
        InputError: the run has answers and no probabilities, its letter orders are unknown, or it
            has one family.
    """
    folds, k = folds_of(predictions), predictions.k
    costs = costs or ViewCosts.of_run(predictions)
    nothing = None if content_free is None else content_free.probabilities
    remedies = remedies_for(k, same_orders=predictions.repeats, content_free=nothing is not None)
    draw = partial(
        _resampled, rng=rng, resamples=resamples or default_resamples(len(predictions)), unit=unit
    )
    fits: dict[Remedy, CrossFitted] = {}
    groups: dict[tuple[Remedy, bool], ResampledGroup] = {}
    priors: dict[tuple[PriorMethod, int], LetterPrior] = {}
    for remedy in tracked(remedies, "Decoding remedies", "remedies", counts=len(predictions)):
        fits[remedy] = fit = cross_fitted(
            predictions, remedy, folds, nothing, temperatures=scope == "all", priors=priors
        )
        groups[remedy, False] = draw(fit.predictions, RAW_METRICS if scope == "all" else _DECIDING)
        if fit.tempered is not None:
            groups[remedy, True] = draw(fit.tempered, TEMPERED_METRICS)
    references = tuple(dict.fromkeys((Remedy(1), Remedy(k))))
    with step("Comparing remedies", len(remedies), "remedies"):
        metrics = _metrics(groups, references)
        of_content = None if content_free is None else content_free.costs
        rows = [
            RemedyRow(
                remedy,
                tuple(metric for (own, _, _), metric in metrics.items() if own == remedy),
                fit.without_prior,
                fit.fitted_on,
                costs.of(remedy, of_content),
            )
            for remedy, fit in fits.items()
        ]
    computed = not any(math.isnan(row.cost.tokens) for row in rows)
    price: Price = "computed tokens" if computed else "prompts"
    some = groups[Remedy(1), False].items
    return RemedyComparison(
        rows=tuple(sorted(rows, key=lambda row: row.cost.price(price))),
        price=price,
        references=tuple(reference.name for reference in references),
        k=k,
        items=some.n_items,
        families=len(some.families),
        fold_unit=folds.unit,
        folds=folds.number,
        no_tokens=costs.no_shared,
        content_free=content_free is not None,
        asked="repeat" if predictions.repeats else "order",
    )


def remedies_of_run(experiment: Experiment, run: ExperimentRun) -> RemedyComparison:
    """Compare the remedies of a run of an experiment, with its resamples, seed and units.

    Args:
        experiment: the runs and their settings.
        run: a run on full contexts.

    Raises:
        InputError: see `compare_remedies`.
        RunError: the run is on ablated contexts, which have no references.
    """
    run.run.require_references()
    settings = experiment.settings
    comparison = compare_remedies(
        run.predictions,
        rng=settings.rng(),
        resamples=settings.resamples,
        unit=settings.unit,
        costs=ViewCosts.of_run(run.predictions, run.provenance),
        content_free=ContentFree.of_run(run.run, run.predictions),
    )
    return replace(comparison, leak=experiment.data.leak)


def _resampled(
    decoded: Predictions,
    names: Sequence[str],
    *,
    rng: np.random.Generator,
    resamples: int,
    unit: ClusterUnit,
) -> ResampledGroup:
    items = ScoredItems.of(decoded, "single")
    if decoded.repeats:  # of K repeats, some remedies show one set, and some two
        items = items.with_repeats(_SETS)
    return resampled_groups(items.over(unit), rng=rng, resamples=resamples, names=names)[0]


def _metrics(
    groups: Mapping[tuple[Remedy, bool], ResampledGroup], references: Sequence[Remedy]
) -> dict[tuple[Remedy, bool, str], RemedyMetric]:
    """Return the metrics of all remedies, with their differences from the references.

    They are adjusted by Holm: per reference, the deciding metrics, and then the others.
    """
    differences: dict[tuple[Remedy, bool, str], dict[str, RemedyDifference]] = {}
    together: dict[tuple[Remedy, bool], list[RemedyDifference]] = {}
    for (remedy, tempered), group in groups.items():
        names = TEMPERED_METRICS if tempered else RAW_METRICS
        for name in names:
            if name not in group.drawn:
                continue
            own = differences.setdefault((remedy, tempered, name), {})
            for reference in references:
                other = groups.get((reference, tempered))
                if reference != remedy and other is not None:
                    difference = RemedyDifference(*metric_difference(name, [(group, other)]))
                    own[reference.name] = difference
                    decides = name in _DECIDING and not tempered
                    together.setdefault((reference, decides), []).append(difference)
    evidence = {
        id(difference): test
        for tested in together.values()
        for difference, test in zip(tested, adjusted([one.evidence for one in tested]), strict=True)
    }
    metrics = {}
    for (remedy, tempered, name), own in differences.items():
        group = groups[remedy, tempered]
        value, items = group.estimate(name), group.items
        if math.isnan(value.value) and name == "flip_rate" and max(items.k, items.repeats) < 2:
            value = replace(value, reason=ClusterText(f"needs {2 * remedy.views} views per item"))
        metrics[remedy, tempered, name] = RemedyMetric(
            find_metric(name).spec,
            tempered,
            value,
            {
                reference: replace(difference, evidence=evidence[id(difference)])
                for reference, difference in own.items()
            },
        )
    return metrics
