"""Remedies: the views of an item in one distribution, with letters removed or not.

A remedy takes the first views of every item and gives one distribution.
`remedied` also decodes the next views, so the flip rate of a remedy says whether its answer still
depends on the orders that it happened to get. `cross_fitted` decodes every item with a prior and a
temperature of other families.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from pact_eval._typing import FloatArray, IntArray
from pact_eval.calibration.fitting import best_scalar
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.temperatures import Calibrator, Weights, inverse_softplus
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.metrics.decoding import NONE_LEFT, normalise
from pact_eval.remedies.priors import (
    ContentFree,
    LetterPrior,
    PriorMethod,
    contextually_calibrated,
    fit_letter_prior,
    usable,
)
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.clusters import dealt_folds

_FLIP_RATE: Final = "flip_rate"
_REMOVED: Final[Mapping[PriorMethod, str]] = {
    "additive": ", prior removed",
    "batch": ", batch calibrated",
}
_NAME: Final = re.compile(r"k([1-9]\d{0,2})")


@dataclass(frozen=True, slots=True)
class Remedy:
    """A decoding of some views of every item: their mean log-probability.

    Attributes:
        views: number of views, from 1.
        prior: the estimator of the letter prior that is removed from every view; None for none.
        from_file: whether prior and temperature are those of a file, fitted on another run.
        contextual: whether every view is divided by its content-free distribution.

    Examples:
        >>> Remedy(2).name, Remedy(1, prior="additive").title
        ('k2', 'K = 1, prior removed')
        >>> Remedy(2, from_file=True).title
        'K = 2 (file)'
    """

    views: int
    prior: PriorMethod | None = None
    from_file: bool = False
    contextual: bool = False

    @property
    def name(self) -> str:
        """Name in files and in JSON."""
        parts = [f"k{self.views}"]
        if self.prior is not None:
            parts.append(self.prior)
        if self.contextual:
            parts.append("contextual")
        return "_".join([*parts, "from_file"] if self.from_file else parts)

    @property
    def title(self) -> str:
        """Name in tables."""
        removed = "" if self.prior is None else _REMOVED[self.prior]
        if self.contextual:
            removed += ", contextual"
        return f"K = {self.views}{removed}{' (file)' if self.from_file else ''}"


_OF_LETTERS: Final = (
    Remedy(1, prior="additive"),
    Remedy(1, prior="batch"),
    Remedy(1, contextual=True),
    Remedy(2, prior="additive"),
)
"""Decodings that remove letters. Further orders cancel what is left of them."""


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
    views = sorted({1, min(2, k), k})
    letters = [
        remedy
        for remedy in _OF_LETTERS
        if remedy.views <= k
        and (remedy.prior != "additive" or (k > 1 and not same_orders))
        and (content_free or not remedy.contextual)
    ]
    remedies = [*map(Remedy, views), *letters]
    return tuple(sorted(remedies, key=lambda remedy: remedy.views))


def remedy_of_name(name: str) -> Remedy:
    """Return the remedy of a name: any number of views, or a decoding that removes letters.

    Raises:
        InputError: no remedy has that name.

    Examples:
        >>> remedy_of_name("k2_additive") == Remedy(2, prior="additive")
        True
        >>> remedy_of_name("k3") == Remedy(3)
        True
    """
    views = _NAME.fullmatch(name)
    if views is not None:
        return Remedy(int(views[1]))
    for remedy in _OF_LETTERS:
        if remedy.name == name:
            return remedy
    raise InputError(f"expected the name of a remedy, such as k2 or k2_additive, got {name!r}")


def why_undefined(remedy: Remedy, metric: str, items: ScoredItems) -> str | None:
    """Return why a metric of decoded items is undefined, if that is because of their decoding.

    Args:
        remedy: the decoding.
        metric: name of a metric, undefined on the items.
        items: scored items of what `remedied` returned. Without next views, they have one view.

    Returns:
        The reason; None if it is that of any items, which the metric itself has.
    """
    if metric != _FLIP_RATE or items.k > 1 or items.repeats > 1:
        return None
    return f"needs {2 * remedy.views} views per item"


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
        content_free: (n, V, C) content-free probabilities of the first V views; used by contextual
            remedies.

    Returns:
        The same items. Their view 0 is the remedied distribution of the first views. Their view 1,
        if there are twice as many views, is that of the next ones. Repeats stay repeats, also if
        there is one view.

    Raises:
        InputError: there are fewer views, the content-free probabilities are missing, or the prior
            is missing or of another estimator.
        ValueError: the views of an item leave no answer possible.
    """
    if remedy.views > predictions.k:
        message = f"{remedy.title}: expected {remedy.views} views or more, got {predictions.k}"
        raise InputError(message)
    if (prior and prior.method) != remedy.prior:
        raise InputError(f"{remedy.title}: expected its letter prior, and no other")
    if not remedy.contextual:
        by_view = predictions.log_probs_by_view if prior is None else prior.removed(predictions)
    elif content_free is None or content_free.shape[1] < remedy.views:
        raise InputError(
            f"{remedy.title}: the run has no content-free prompts of {remedy.views} views; "
            "score it again with --content-free, which adds them"
        )
    else:
        by_view = contextually_calibrated(predictions, content_free)
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


def fit_temperature(decoded: Predictions) -> Calibrator | None:
    """Fit one temperature on remedied distributions.

    Args:
        decoded: items with references, as `remedied` returns them; view 0 is fitted.

    Returns:
        A scalar calibrator; None if nothing can be fitted: answers without probabilities, several
        right answers, or a right answer of probability 0.
    """
    if decoded.known != "probabilities" or decoded.accepted is not None:
        return None
    of_right = np.take_along_axis(decoded.logits[:, 0], decoded.reference[:, np.newaxis], axis=1)
    if np.isneginf(of_right).any():
        return None
    return best_scalar(CalibrationItems.from_predictions(decoded, "single"))


def temperature_of(calibrator: Calibrator) -> float:
    """Return the temperature of a scalar calibrator, above 0.

    Examples:
        >>> round(temperature_of(calibrator_of(2.5)), 12)
        2.5
    """
    return calibrator.by_type()["choice"]


def calibrator_of(temperature: float) -> Calibrator:
    """Return the scalar calibrator of a temperature.

    Raises:
        InputError: it is not a finite number above 0.
    """
    return Calibrator("scalar", Weights((inverse_softplus(temperature),) * 3))


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


def folds_of(predictions: Predictions) -> Folds:
    """Deal the families of a run into folds of about equal size, at most ten.

    Args:
        predictions: a run.

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
        InputError: see `remedied` and `fit_letter_prior`.
    """
    priors = {} if priors is None else priors
    whole = remedied(predictions, replace(remedy, prior=None), None, content_free)
    raw, at_temperature = whole.logits.copy(), whole.logits.copy()
    calibrators: list[Calibrator | None] = []
    without_prior, fitted_on = 0, []
    for fold in range(folds.number):
        rows, others = (np.flatnonzero(part) for part in (folds.fold == fold, folds.fold != fold))
        prior = None
        if remedy.prior is not None:
            if (remedy.prior, fold) not in priors:
                own = fit_letter_prior(predictions.taken(others), remedy.prior)
                priors[remedy.prior, fold] = own
            prior = priors[remedy.prior, fold]

        def decoded(rows: IntArray, prior: LetterPrior | None = prior) -> Predictions:
            if prior is None:
                return whole.taken(rows)
            return remedied(predictions.taken(rows), remedy, prior)

        part = decoded(rows)
        raw[rows] = part.logits
        calibrators.append(fit_temperature(decoded(others)) if temperatures else None)
        if calibrators[-1] is not None:
            at_temperature[rows] = calibrators[-1].apply(part.logits, part)
        left = None if content_free is None else content_free[rows]
        without_prior += untouched(predictions.taken(rows), remedy, prior, left)
        fitted_on.append(0 if prior is None else sum(prior.items.values()))
    return CrossFitted(
        predictions=replace(whole, logits=raw),
        tempered=None if None in calibrators else replace(whole, logits=at_temperature),
        without_prior=without_prior,
        fitted_on=float(np.mean(fitted_on)),
    )


def untouched(
    predictions: Predictions,
    remedy: Remedy,
    prior: LetterPrior | None,
    content_free: FloatArray | None,
) -> int:
    """Return the number of items that a remedy leaves as they are, because it lacks their prior."""
    if remedy.contextual and content_free is not None:
        return int((~usable(content_free, predictions)).sum())
    return 0 if prior is None else int((~prior.covers(predictions.n_choices)).sum())


def remedied_items(run: ExperimentRun, remedy: Remedy) -> ScoredItems:
    """Decode a run by a remedy, cross-fitted by source family if there are five, else by family.

    Args:
        run: a run on full contexts.
        remedy: the decoding.

    Returns:
        The items in the order of the run, under the decoding `single`. Repeats of one order have a
        row each, of the first two.

    Raises:
        InputError: the run cannot show the remedy: it has fewer views, answers without
            probabilities, no content-free prompts or one family.
        RunError: its content-free prompts are damaged, or not those of the run.
        TamperedError: they have changed since they were sealed.
    """
    predictions = run.predictions
    if predictions.repeats and remedy != Remedy(1):
        raise InputError(f"{remedy.name}: the views of {run.place} repeat one order")
    content_free = ContentFree.of_run(run.run, predictions) if remedy.contextual else None
    fitted = cross_fitted(
        predictions,
        remedy,
        folds_of(predictions),
        None if content_free is None else content_free.probabilities,
    )
    return ScoredItems.of(fitted.predictions, "single")
