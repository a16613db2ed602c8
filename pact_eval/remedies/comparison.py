"""Remedies of one run next to each other: what each costs, and what it gains over fewer prompts.

Each remedy is compared with view 0 alone and with all K views, on the same items and resamples of
families. A fit is not repeated in the resamples: it is held fixed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np

from pact_eval._choices import ClusterUnit
from pact_eval.calibration.temperatures import CalibrationNote
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
from pact_eval.progress import step, tracked
from pact_eval.remedies.costs import (
    ItemTokens,
    NoTokens,
    Price,
    RemedyCost,
    cost_of,
    prompts_of_views,
)
from pact_eval.remedies.decodings import (
    CrossFitted,
    Folds,
    FoldUnit,
    Remedy,
    cross_fitted,
    folds_of,
    remedies_for,
    why_undefined,
)
from pact_eval.remedies.fitting import FittedRemedy, check_fitted, read_remedy
from pact_eval.remedies.priors import ContentFree, LetterPrior, PriorMethod
from pact_eval.results import Result
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.estimate import LEVEL, ClusterText, Estimate
from pact_eval.stats.proportions import rate_estimate

BalanceStatus: TypeAlias = Literal["balanced", "unbalanced", "cannot tell"]
"""balanced: no imbalance is shown; unbalanced: it is, at one letter or more; cannot tell: there is
no interval."""


@dataclass(frozen=True)
class LetterBalance:
    """Letters of the references of items with one number of answers.

    Attributes:
        n_choices: C, the number of answers.
        shares: (C,) share of items whose reference is at letter A, B, ... in view 0. Intervals are
            over families, and simultaneous over all letters of a run (Bonferroni).
    """

    n_choices: int
    shares: tuple[Estimate, ...]

    @property
    def balanced_share(self) -> float:
        """The share of each letter in balanced references, 1 / C."""
        return 1 / self.n_choices

    @property
    def unbalanced(self) -> tuple[int, ...]:
        """Letters whose share is shown (significant) to differ from the balanced one, from 0."""
        return tuple(
            letter
            for letter, share in enumerate(self.shares)
            if not math.isnan(share.low) and not share.low <= self.balanced_share <= share.high
        )


def letter_balance(
    predictions: Predictions, unit: ClusterUnit = "family"
) -> tuple[LetterBalance, ...]:
    """Count the letters of references in view 0, by number of answers.

    Args:
        predictions: items with references and known letter orders.
        unit: units of intervals: families, or source families.

    Returns:
        One value per number of answers, the smallest first.

    Examples:
        >>> import polars as pl
        >>> items = Predictions.from_frame(pl.DataFrame({
        ...     "id": [*"abcd"], "family": [*"abcd"], "source_family": [*"abcd"], "domain": "d",
        ...     "kind": "boolean", "variant": "base", "reference": [0, 1, 0, 0], "n_choices": 2,
        ...     "view": 0, "code_order": [[0, 1]] * 4, "logits": [[0.0, 0.0]] * 4,
        ...     "prompt_tokens": 9, "answer_mass": 1.0}))
        >>> (balance,) = letter_balance(items)
        >>> [share.value for share in balance.shares], balance.unbalanced
        ([0.75, 0.25], ())
    """
    counts = np.unique(predictions.n_choices).tolist()
    confidence = 1 - LEVEL / sum(counts)
    at_letter = predictions.code_order[:, 0] == predictions.reference[:, np.newaxis]
    names = predictions.family if unit == "family" else predictions.source_family
    _, clusters = np.unique(names, return_inverse=True)
    balances: list[LetterBalance] = []
    for n_choices in counts:
        rows = predictions.n_choices == n_choices
        counted = np.bincount(clusters[rows])
        shares = [
            rate_estimate(
                np.bincount(clusters[rows], right).astype(np.int64), counted, confidence=confidence
            )
            for right in at_letter[rows, :n_choices].T
        ]
        balances.append(LetterBalance(n_choices, tuple(shares)))
    return tuple(balances)


def balance_status(balances: Sequence[LetterBalance]) -> BalanceStatus:
    """Return whether an imbalance is shown for any number of answers."""
    if any(balance.unbalanced for balance in balances):
        return "unbalanced"
    has_interval = any(
        not math.isnan(share.low) for balance in balances for share in balance.shares
    )
    return "balanced" if has_interval else "cannot tell"


_SETS: Final = 2
"""Most sets of views that a remedy decodes: see `decodings.remedied`."""

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
        deciding = [self.metric(name) for name in _DECIDING]
        better = any(metric.is_better(reference) for metric in deciding)
        return better and not self.is_worse(reference)

    def is_worse(self, reference: str) -> bool:
        """Return whether accuracy or NLL is worse than a reference by its 95% interval."""
        return any(self.metric(name).interval_is_worse(reference) for name in _DECIDING)


RemedyStatus: TypeAlias = Literal["some help", "none shown", "cannot tell"]
"""some help: one or more remedies are shown to improve accuracy or NLL; none shown: none is; cannot
tell: the run has one view, or no interval can be given."""


@dataclass(frozen=True)
class FittedNote:
    """A note on a fitted remedy that is applied to the run.

    Attributes:
        file: its file.
        note: what the fit and the run have in common and should not, or what is not known.
    """

    file: str
    note: CalibrationNote


@dataclass(frozen=True, repr=False)
class RemedyComparison(Result):
    """Remedies of a run, and what they are worth.

    Attributes:
        status: whether any remedy is shown to help.
        helping: names of the remedies that are shown to help, the cheapest first.
        enough: the cheapest of them that is not shown to be worse than all K views by its 95%
            intervals; None if there is none, or if it is all K views themselves. Holm's adjustment
            is left out: it would make this easier, the more remedies there are.
        price: what cheapest means: computed tokens if the run records them, as local runs do; else
            prompts, which servers count.
        rows: the remedies: view 0 alone first, then by price.
        references: names of the remedies that the others are compared with.
        k: views per item of the run.
        items: number of items.
        families: number of families.
        fold_unit: what cross-fitting keeps together.
        folds: number of folds.
        letter_balance: letters of the references in view 0, by number of answers.
        no_tokens: why tokens through the prefix tree are not known; None if they are.
        content_free: whether the run has content-free prompts.
        asked: what views are: orders of the answers, or repeats of one order.
        fit_notes: on remedies that were fitted on other runs.
        leak: items of the run that a model may have learnt; None without any.
    """

    status: RemedyStatus
    helping: tuple[str, ...]
    enough: str | None
    price: Price
    rows: tuple[RemedyRow, ...]
    references: tuple[str, ...]
    k: int
    items: int
    families: int
    fold_unit: FoldUnit
    folds: int
    letter_balance: tuple[LetterBalance, ...]
    no_tokens: NoTokens | None
    content_free: bool
    asked: Literal["order", "repeat"] = "order"
    fit_notes: tuple[FittedNote, ...] = ()
    leak: DataLeak | None = None

    @property
    def balance(self) -> BalanceStatus:
        """Whether the references are balanced over letters, as batch calibration assumes."""
        return balance_status(self.letter_balance)

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
    fitted: Sequence[FittedRemedy] = (),
    tokens: ItemTokens | None = None,
    content_free: ContentFree | None = None,
    scope: Scope = "all",
) -> RemedyComparison:
    """Compare the remedies that a run can show.

    Args:
        predictions: the views of a run with references and probabilities.
        rng: source of the resamples; its state does not change.
        resamples: bootstrap resamples of each interval; None uses `default_resamples`.
        unit: units of intervals: families, or source families.
        fitted: remedies of other families, of which each gets a row too; see `check_fitted`.
        tokens: those of the run's views; None if they are not known.
        content_free: content-free probabilities, for contextual calibration; None if the run has
            none.
        scope: what is computed; see `Scope`.

    Returns:
        The comparison; differences are the remedy minus the reference.

    Raises:
        InputError: the run has answers and no probabilities, its letter orders are unknown, or it
            has one family.
    """
    folds = folds_of(predictions)
    tokens = tokens or ItemTokens()
    resamples = resamples or default_resamples(len(predictions))
    names = _DECIDING if scope == "deciding" else RAW_METRICS
    draw = partial(_resampled, rng=rng, resamples=resamples, unit=unit)
    sampled = {
        remedy: _Sampled(
            fits,
            draw(fits.predictions, names),
            None if fits.tempered is None else draw(fits.tempered, TEMPERED_METRICS),
        )
        for remedy, fits in _decode(predictions, folds, _by_remedy(fitted), content_free, scope)
    }
    all_views = Remedy(predictions.k)
    references = tuple(dict.fromkeys((Remedy(1), all_views)))
    with step("Comparing remedies", len(sampled), "remedies"):
        prompts = prompts_of_views(predictions).mean(axis=0).tolist()
        no_content = None if content_free is None else content_free.tokens
        costs = {
            remedy: cost_of(
                remedy.views, prompts, tokens, no_content if remedy.contextual else None
            )
            for remedy in sampled
        }
        price = _price([*costs.values()])
        by_price = sorted(sampled, key=lambda remedy: costs[remedy].price(price))
        rows = [_row(remedy, sampled, references, costs[remedy]) for remedy in by_price]
        rows = _adjust(rows)
    some = next(iter(sampled.values())).raw.items
    helping = [row for row in rows if row.helps(Remedy(1).name)]
    return RemedyComparison(
        status=_status(rows, predictions.k, helping),
        helping=tuple(row.remedy.name for row in helping),
        enough=_enough(helping, rows[by_price.index(all_views)], price),
        price=price,
        rows=tuple(rows),
        references=tuple(reference.name for reference in references),
        k=predictions.k,
        items=some.n_items,
        families=len(some.families),
        fold_unit=folds.unit,
        folds=folds.number,
        letter_balance=letter_balance(predictions, unit),
        no_tokens=tokens.no_shared,
        content_free=content_free is not None,
        asked="repeat" if predictions.repeats else "order",
    )


def remedies_of_run(
    experiment: Experiment, run: ExperimentRun, files: Sequence[Path] = ()
) -> RemedyComparison:
    """Compare the remedies of a run of an experiment, with its resamples, seed and units.

    Args:
        experiment: the runs and their settings.
        run: a run on full contexts.
        files: fitted remedies of other families, to be compared too.

    Raises:
        InputError: see `compare_remedies`; or a file cannot be read or belongs to another model.
        GateError: a file was fitted on families of the run.
        RunError: the run is on ablated contexts, which have no references.
    """
    run.run.require_references()
    settings = experiment.settings
    fitted = {path: read_remedy(path) for path in files}
    fit_notes = tuple(
        FittedNote(str(path), note)
        for path, remedy in fitted.items()
        for note in check_fitted(
            remedy, run.provenance, run.predictions, allow=settings.allow, where=str(path)
        )
    )
    comparison = compare_remedies(
        run.predictions,
        rng=settings.rng(),
        resamples=settings.resamples,
        unit=settings.unit,
        fitted=tuple(fitted.values()),
        tokens=ItemTokens.of_run(run.provenance, run.predictions),
        content_free=ContentFree.of_run(run.run, run.predictions),
    )
    return replace(comparison, fit_notes=fit_notes, leak=experiment.data.leak)


def _decode(
    predictions: Predictions,
    folds: Folds,
    files: Mapping[Remedy, FittedRemedy],
    content_free: ContentFree | None,
    scope: Scope,
) -> Iterator[tuple[Remedy, CrossFitted]]:
    """Yield the remedies that a run can show, and those of files, with what they make of it."""
    nothing = None if content_free is None else content_free.probabilities
    own = remedies_for(
        predictions.k, same_orders=predictions.repeats, content_free=nothing is not None
    )
    temperatures, priors = scope == "all", dict[tuple[PriorMethod, int], LetterPrior]()
    remedies = (*own, *files)
    for remedy in tracked(remedies, "Decoding remedies", "remedies", counts=len(predictions)):
        if remedy.from_file:
            yield remedy, files[remedy].applied_to(predictions, nothing)
        else:
            yield (
                remedy,
                cross_fitted(
                    predictions, remedy, folds, nothing, temperatures=temperatures, priors=priors
                ),
            )


def _by_remedy(fitted: Sequence[FittedRemedy]) -> dict[Remedy, FittedRemedy]:
    """Return fitted remedies by the decoding of their row.

    Raises:
        InputError: two are of the same name.
    """
    by_remedy = {replace(one.remedy, from_file=True): one for one in fitted}
    if len(by_remedy) < len(fitted):
        raise InputError("--fitted: expected files of different remedies, got one of them twice")
    return by_remedy


@dataclass(frozen=True, eq=False)
class _Sampled:
    """A remedied run with the resamples of its metrics."""

    fitted: CrossFitted
    raw: ResampledGroup
    tempered: ResampledGroup | None


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


def _row(
    remedy: Remedy,
    sampled: Mapping[Remedy, _Sampled],
    references: Sequence[Remedy],
    cost: RemedyCost,
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
            why = why_undefined(remedy, name, group.items)
            value = replace(value, reason=ClusterText(why) if why else value.reason)
        return RemedyMetric(find_metric(name).spec, tempered, value, differences)

    metrics = [
        metric(name, own.raw, tempered=False) for name in RAW_METRICS if name in own.raw.drawn
    ]
    if own.tempered is not None:
        metrics += [metric(name, own.tempered, tempered=True) for name in TEMPERED_METRICS]
    return RemedyRow(
        remedy=remedy,
        metrics=tuple(metrics),
        without_prior=own.fitted.without_prior,
        fitted_on=own.fitted.fitted_on,
        cost=cost,
    )


def _adjust(rows: Sequence[RemedyRow]) -> list[RemedyRow]:
    """Adjust the differences by Holm: per reference, the deciding metrics, and then the others."""
    tests: dict[tuple[str, bool], list[Evidence]] = {}
    for row in rows:
        for metric in row.metrics:
            for reference, against in metric.differences.items():
                tests.setdefault((reference, _decides(metric)), []).append(against.evidence)
    evidence = {together: iter(adjusted(each)) for together, each in tests.items()}

    def of_metric(metric: RemedyMetric) -> RemedyMetric:
        """Take the next evidence of each reference: metrics come in the same order as above."""
        differences = {
            reference: replace(against, evidence=next(evidence[reference, _decides(metric)]))
            for reference, against in metric.differences.items()
        }
        return replace(metric, differences=differences)

    return [replace(row, metrics=tuple(map(of_metric, row.metrics))) for row in rows]


def _decides(metric: RemedyMetric) -> bool:
    return metric.spec.name in _DECIDING and not metric.tempered


def _price(costs: Sequence[RemedyCost]) -> Price:
    computed = not any(math.isnan(cost.tokens) for cost in costs)
    return "computed tokens" if computed else "prompts"


def _status(rows: Sequence[RemedyRow], k: int, helping: Sequence[RemedyRow]) -> RemedyStatus:
    if helping:
        return "some help"
    one = Remedy(1).name
    over_one = [
        metric.differences[one].difference
        for row in rows
        for metric in map(row.metric, _DECIDING)
        if one in metric.differences
    ]
    has_interval = any(math.isfinite(difference.low) for difference in over_one)
    return "none shown" if k > 1 and has_interval else "cannot tell"


def _enough(helping: Sequence[RemedyRow], all_views: RemedyRow, price: Price) -> str | None:
    """Return the cheapest remedy that helps and is not worse than all views by its intervals."""
    for row in helping:
        cheaper = row.cost.price(price) < all_views.cost.price(price)
        if cheaper and not row.is_worse(all_views.remedy.name):
            return row.remedy.name
    return None
