"""Cross-fitting: decoding of every item with a prior and a temperature of other families."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from pact_eval._typing import FloatArray, IntArray
from pact_eval.calibration.fitting import minimise
from pact_eval.calibration.likelihood import CalibrationItems, TemperatureLikelihood, make_design
from pact_eval.calibration.temperatures import Calibrator, Weights, inverse_softplus
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.remedies.decodings import Remedy, remedied
from pact_eval.remedies.priors import (
    ContentFree,
    LetterPrior,
    PriorMethod,
    fit_letter_prior,
    usable,
)
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.clusters import dealt_folds


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
    items = CalibrationItems.from_predictions(decoded, "single")
    design = make_design(items, "scalar")
    return design.calibrator(minimise(TemperatureLikelihood.of_items(items), design).fitted)


def temperature_of(calibrator: Calibrator) -> float:
    """Return the temperature of a scalar calibrator, above 0.

    Examples:
        >>> round(temperature_of(calibrator_of(2.5)), 12)
        2.5
    """
    return float(calibrator.temperatures(["choice"], [2])[0])


def calibrator_of(temperature: float) -> Calibrator:
    """Return the scalar calibrator of a temperature.

    Raises:
        InputError: it is not a finite number above 0.
    """
    return Calibrator("scalar", Weights((inverse_softplus(temperature),) * 3))


def tempered(decoded: Predictions, calibrator: Calibrator) -> FloatArray:
    """Return the log-probabilities (n, K, C) of remedied distributions at a temperature."""
    return calibrator.apply(decoded.logits, kind=decoded.kind, n_choices=decoded.n_choices)


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
) -> CrossFitted:
    """Decode a run by one remedy, with fits of other families; see `CrossFits`.

    Args:
        predictions: the views of a run with references.
        remedy: the decoding.
        folds: those of the run.
        content_free: (n, V, C) content-free probabilities, for contextual remedies.

    Raises:
        InputError: see `remedied` and `fit_letter_prior`.
    """
    return CrossFits(predictions, folds, content_free).decoded(remedy)


class CrossFits:
    """Decodings of a run by several remedies, each item with fits of other families.

    Letter priors are fitted once: remedies of one view and of two take the same.

    Args:
        predictions: the views of a run with references.
        folds: those of the run.
        content_free: (n, V, C) content-free probabilities, for contextual remedies.
    """

    def __init__(
        self, predictions: Predictions, folds: Folds, content_free: FloatArray | None = None
    ) -> None:
        self._run = _Views(predictions, content_free)
        self._folds = folds
        self._priors: dict[tuple[PriorMethod, int], LetterPrior] = {}

    def decoded(self, remedy: Remedy, *, temperatures: bool = True) -> CrossFitted:
        """Decode the run by a remedy.

        Args:
            remedy: the decoding.
            temperatures: whether to fit them.

        Raises:
            InputError: see `remedied` and `fit_letter_prior`.
        """
        one_fit = remedy.prior is None
        whole = self._run.remedied(replace(remedy, prior=None), None)
        parts = [
            self._part(remedy, fold, whole if one_fit else None, temperatures=temperatures)
            for fold in range(self._folds.number)
        ]
        place = np.argsort(np.argsort(self._folds.fold, kind="stable"), kind="stable")
        raw = whole
        if not one_fit:
            raw = replace(whole, logits=np.concatenate([part.raw for part in parts])[place])
        at_temperature = [part.tempered for part in parts if part.tempered is not None]
        all_tempered = len(at_temperature) == len(parts)
        return CrossFitted(
            predictions=raw,
            tempered=replace(raw, logits=np.concatenate(at_temperature)[place])
            if all_tempered
            else None,
            without_prior=sum(part.untouched for part in parts),
            fitted_on=float(np.mean([part.fitted_on for part in parts])),
        )

    def _part(
        self, remedy: Remedy, fold: int, whole: Predictions | None, *, temperatures: bool
    ) -> _Part:
        """Decode a fold; `whole` is the decoded run if the remedy removes no prior."""
        held = self._folds.fold == fold
        prior = self._prior(remedy, fold)

        def decoded(views: _Views, rows: IntArray) -> Predictions:
            return views.remedied(remedy, prior) if whole is None else whole.taken(rows)

        rows, others = np.flatnonzero(held), np.flatnonzero(~held)
        evaluated = self._run.taken(rows)
        part = decoded(evaluated, rows)
        calibrator = None
        if temperatures:
            calibrator = fit_temperature(decoded(self._run.taken(others), others))
        return _Part(
            raw=part.logits,
            tempered=None if calibrator is None else tempered(part, calibrator),
            untouched=untouched(evaluated.predictions, remedy, prior, evaluated.content_free),
            fitted_on=0 if prior is None else sum(prior.items.values()),
        )

    def _prior(self, remedy: Remedy, fold: int) -> LetterPrior | None:
        """Return the prior that a fold is decoded with."""
        if remedy.prior is None:
            return None
        key = (remedy.prior, fold)
        if key not in self._priors:
            others = self._run.predictions.taken(np.flatnonzero(self._folds.fold != fold))
            self._priors[key] = fit_letter_prior(others, remedy.prior)
        return self._priors[key]


@dataclass(frozen=True, eq=False)
class _Part:
    raw: FloatArray
    tempered: FloatArray | None
    untouched: int
    fitted_on: int


@dataclass(frozen=True, eq=False)
class _Views:
    """Views of items, with their content-free probabilities if these are known."""

    predictions: Predictions
    content_free: FloatArray | None

    def taken(self, rows: IntArray) -> _Views:
        content_free = None if self.content_free is None else self.content_free[rows]
        return _Views(self.predictions.taken(rows), content_free)

    def remedied(self, remedy: Remedy, prior: LetterPrior | None) -> Predictions:
        return remedied(self.predictions, remedy, prior, self.content_free)


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
