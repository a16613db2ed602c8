"""Remedies of one run next to each other: what each costs, and what it gains over fewer prompts.

Each remedy is compared with view 0 alone and with all K views, on the same items and resamples of
families. A fit is not repeated in the resamples: it is held fixed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from pact_eval._choices import ClusterUnit
from pact_eval.evaluation.comparison import metric_difference
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.marks import Evidence, adjusted, sign_of, too_few_resamples
from pact_eval.evaluation.metric_specs import MetricSpec
from pact_eval.evaluation.notes import TooFewResamples
from pact_eval.evaluation.registry import find_metric
from pact_eval.evaluation.report import default_resamples
from pact_eval.evaluation.resampled_groups import ResampledGroup, resampled_group
from pact_eval.progress import step, tracked
from pact_eval.remedies.cross_fitting import CrossFitted, FoldUnit, cross_fitted, folds_of
from pact_eval.remedies.decodings import Remedy, remedies_for
from pact_eval.remedies.sequential import SequentialReplay, replay_views
from pact_eval.results import Result
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.estimate import ClusterText, Estimate

RAW_METRICS: Final = ("accuracy", "pair_accuracy", "nll_nats", "ece", "flip_rate")
TEMPERED_METRICS: Final = ("nll_nats", "ece")
"""A temperature changes no answer, so only these differ after one."""

NO_PROBABILITIES: Final = "a majority has no probabilities"

_DECIDING: Final = ("accuracy", "nll_nats")


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
        return self._sign(reference) > 0

    def is_worse(self, reference: str) -> bool:
        """Return whether it is shown to be worse than the reference."""
        return self._sign(reference) < 0

    def _sign(self, reference: str) -> int:
        against = self.differences.get(reference)
        if against is None or not against.marked:
            return 0
        return sign_of(against.difference) * self.spec.better


@dataclass(frozen=True)
class RemedyRow:
    """One remedy of a run.

    Attributes:
        remedy: the decoding.
        metrics: its metrics, raw ones first.
        without_prior: items that kept their letter prior, because their number of answers has none.
        fitted_on: mean number of items of a fit; 0 without one.
        fitting_prompts: mean number of prompts of a fit.
        paid_back: number of items from which on the fit and the remedy take fewer prompts than all
            K views; None if the remedy takes as many.
    """

    remedy: Remedy
    metrics: tuple[RemedyMetric, ...]
    without_prior: int
    fitted_on: float
    fitting_prompts: float
    paid_back: int | None

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
        """Return whether accuracy or NLL is shown to be better than a reference, and none worse."""
        deciding = [self.metric(name) for name in _DECIDING]
        better = any(metric.is_better(reference) for metric in deciding)
        return better and not any(metric.is_worse(reference) for metric in deciding)


RemedyStatus: TypeAlias = Literal["some help", "none shown", "cannot tell"]
"""some help: one or more remedies are shown to improve accuracy or NLL; none shown: none is; cannot
tell: the run has one view, or no interval can be given."""


@dataclass(frozen=True, repr=False)
class RemedyComparison(Result):
    """Remedies of a run, and what they are worth.

    Attributes:
        status: whether any remedy is shown to help.
        helping: names of the remedies that are shown to help, the cheapest first.
        enough: the cheapest of them that is not shown to be worse than all K views; None if there
            is none, or if it is all K views themselves.
        rows: the remedies: view 0 alone first, then by prompts.
        references: names of the remedies that the others are compared with.
        k: views per item of the run.
        items: number of items.
        families: number of families.
        fold_unit: what cross-fitting keeps together.
        folds: number of folds.
        letter_shares: (C,) share of items whose reference is at letter A, B, ... in view 0.
        sequential: views one by one against all of them; None of a run of one view.
        notes: too few resamples for Holm's adjustment.
    """

    status: RemedyStatus
    helping: tuple[str, ...]
    enough: str | None
    rows: tuple[RemedyRow, ...]
    references: tuple[str, ...]
    k: int
    items: int
    families: int
    fold_unit: FoldUnit
    folds: int
    letter_shares: tuple[float, ...]
    sequential: SequentialReplay | None
    notes: tuple[TooFewResamples, ...]

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
) -> RemedyComparison:
    """Compare the remedies that a run can show.

    Args:
        predictions: the views of a run with references and probabilities.
        rng: source of the resamples; its state does not change.
        resamples: bootstrap resamples of each interval; None uses `default_resamples`.
        unit: units of intervals: families, or source families.

    Returns:
        The comparison; differences are the remedy minus the reference.

    Raises:
        InputError: the run has answers and no probabilities, its letter orders are unknown, or it
            has one family.
    """
    predictions.require_all_views("remedies")
    folds = folds_of(predictions)
    remedies = remedies_for(predictions.k, same_orders=predictions.repeats)
    resamples = resamples or default_resamples(len(predictions))
    sampled: dict[Remedy, _Sampled] = {}
    for remedy in tracked(remedies, "Decoding remedies", "remedies", counts=len(predictions)):
        fitted = cross_fitted(predictions, remedy, folds)
        sampled[remedy] = _Sampled.of(fitted, rng=rng, resamples=resamples, unit=unit)
    all_views = Remedy(predictions.k)
    references = tuple(dict.fromkeys((Remedy(1), all_views)))
    with step("Comparing remedies", len(sampled), "remedies"):
        rows = [_row(remedy, sampled, references, predictions.k) for remedy in remedies]
        rows, notes = _adjusted(rows)
    some = next(iter(sampled.values())).raw.items
    helping = tuple(row.remedy.name for row in rows if row.helps(Remedy(1).name))
    sequential = None
    if predictions.k > 1:
        sequential = replay_views(predictions, rng=rng, resamples=resamples, unit=unit)
    return RemedyComparison(
        status=_status(rows, predictions.k, helping),
        helping=helping,
        enough=_enough(rows, all_views),
        rows=tuple(rows),
        references=tuple(reference.name for reference in references),
        k=predictions.k,
        items=some.n_items,
        families=some.n_families,
        fold_unit=folds.unit,
        folds=folds.number,
        letter_shares=_letter_shares(predictions),
        sequential=sequential,
        notes=notes,
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
    return compare_remedies(
        run.predictions, rng=settings.rng(), resamples=settings.resamples, unit=settings.unit
    )


@dataclass(frozen=True, eq=False)
class _Sampled:
    """A remedied run with the resamples of its metrics."""

    fitted: CrossFitted
    raw: ResampledGroup
    tempered: ResampledGroup | None

    @classmethod
    def of(
        cls, fitted: CrossFitted, *, rng: np.random.Generator, resamples: int, unit: ClusterUnit
    ) -> _Sampled:
        def group(predictions: Predictions, names: Sequence[str]) -> ResampledGroup:
            return resampled_group(
                "all",
                ScoredItems.of(predictions, "single").over(unit),
                rng=rng,
                resamples=resamples,
                entries=[find_metric(name) for name in names],
            )

        tempered = fitted.tempered
        return cls(
            fitted,
            group(fitted.predictions, RAW_METRICS),
            None if tempered is None else group(tempered, TEMPERED_METRICS),
        )


def _row(
    remedy: Remedy, sampled: Mapping[Remedy, _Sampled], references: Sequence[Remedy], k: int
) -> RemedyRow:
    own = sampled[remedy]

    def metric(name: str, group: ResampledGroup, *, tempered: bool) -> RemedyMetric:
        differences: dict[str, RemedyDifference] = {}
        for reference in references:
            side = sampled[reference].tempered if tempered else sampled[reference].raw
            if reference != remedy and side is not None:
                difference = metric_difference(name, [(group, side)])
                differences[reference.name] = RemedyDifference(*difference)
        value = group.estimate(name)
        if math.isnan(value.value):
            why = _why_undefined(remedy, name)
            value = replace(value, reason=ClusterText(why) if why else value.reason)
        return RemedyMetric(find_metric(name).spec, tempered, value, differences)

    metrics = [metric(name, own.raw, tempered=False) for name in RAW_METRICS]
    if own.tempered is not None:
        metrics += [metric(name, own.tempered, tempered=True) for name in TEMPERED_METRICS]
    saved = k - remedy.views
    prompts = own.fitted.fitting_prompts
    return RemedyRow(
        remedy=remedy,
        metrics=tuple(metrics),
        without_prior=own.fitted.without_prior,
        fitted_on=own.fitted.fitted_on,
        fitting_prompts=prompts,
        paid_back=math.ceil(prompts / saved) if saved else None,
    )


def _why_undefined(remedy: Remedy, metric: str) -> str | None:
    if metric == "flip_rate":
        return f"needs {2 * remedy.views} views: the answer of the next {remedy.views}"
    return None if remedy.has_probabilities else NO_PROBABILITIES


def _adjusted(
    rows: Sequence[RemedyRow],
) -> tuple[list[RemedyRow], tuple[TooFewResamples, ...]]:
    """Adjust the differences by Holm: per reference, the deciding metrics, and then the others."""
    tests = {
        (row.remedy, at, reference): against.evidence
        for row in rows
        for at, metric in enumerate(row.metrics)
        for reference, against in metric.differences.items()
    }
    specs = {(row.remedy, at): metric for row in rows for at, metric in enumerate(row.metrics)}
    together: dict[tuple[str, bool], list[tuple[Remedy, int, str]]] = {}
    for remedy, at, reference in tests:
        together.setdefault((reference, _decides(specs[remedy, at])), []).append(
            (remedy, at, reference)
        )
    evidence: dict[tuple[Remedy, int, str], Evidence] = {}
    for places in together.values():
        evidence |= zip(places, adjusted([tests[place] for place in places]), strict=True)
    titled = [
        (specs[remedy, at].spec.title, evidence[remedy, at, reference])
        for remedy, at, reference in tests
    ]

    def of_row(row: RemedyRow) -> RemedyRow:
        metrics = tuple(
            replace(
                metric,
                differences={
                    reference: replace(against, evidence=evidence[row.remedy, at, reference])
                    for reference, against in metric.differences.items()
                },
            )
            for at, metric in enumerate(row.metrics)
        )
        return replace(row, metrics=metrics)

    return [of_row(row) for row in rows], too_few_resamples(titled)


def _decides(metric: RemedyMetric) -> bool:
    return metric.spec.name in _DECIDING and not metric.tempered


def _status(rows: Sequence[RemedyRow], k: int, helping: Sequence[str]) -> RemedyStatus:
    if helping:
        return "some help"
    compared = [
        against
        for row in rows
        for name in _DECIDING
        for against in row.metric(name).differences.values()
    ]
    shown = any(math.isfinite(against.difference.low) for against in compared)
    return "none shown" if k > 1 and shown else "cannot tell"


def _enough(rows: Sequence[RemedyRow], all_views: Remedy) -> str | None:
    """Return the cheapest remedy that helps and is not shown to be worse than all views."""
    one = Remedy(1).name
    for row in rows:
        metrics = [row.metric(name) for name in _DECIDING]
        worse = any(metric.is_worse(all_views.name) for metric in metrics)
        if row.helps(one) and not worse and row.remedy.views < all_views.views:
            return row.remedy.name
    return None


def _letter_shares(predictions: Predictions) -> tuple[float, ...]:
    first = predictions.code_order[:, 0]
    reference = predictions.reference[:, np.newaxis]
    return tuple((first == reference).mean(axis=0).tolist())
