r"""Letter priors: preferences of a model for letters, whatever answer is next to them.

Views that show the answers of an item in several orders separate two things: the answer that a
model takes to be right, and the letter that it likes. A prior is fitted on items of several views
and removed from others, of which one view is enough:

.. math:: \log p'(a) = \log p(a \text{ at letter } l) - \beta_l + \text{constant}

Two estimators differ in what they need:

========== ============================================ ===================================
name       estimate                                     needs
========== ============================================ ===================================
additive   least squares of answers plus letters        items of two orders or more
batch      mean distribution over letters in view 0     one view, and balanced references
========== ============================================ ===================================

Priors are by number of answers: C letters are another question to a model than C + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.errors import InputError, missing_probabilities
from pact_eval.metrics.decoding import log_softmax
from pact_eval.runs.predictions import Predictions

PriorMethod = Literal["additive", "batch"]
"""Estimator of a letter prior."""


@dataclass(frozen=True)
class LetterPrior:
    """Preference of a model for letters.

    Attributes:
        method: its estimator.
        log_prior: by number of answers C, (C,) log-preference of letters A, B, ... in nats, with a
            mean of 0.
        items: by number of answers, the number of items of the fit.
        views: by number of answers, the number of views of each of these items that the fit took.
    """

    method: PriorMethod
    log_prior: Mapping[int, FloatArray]
    items: Mapping[int, int]
    views: Mapping[int, int]

    def covers(self, n_choices: IntArray) -> BoolArray:
        """Return (n,) whether there is a prior for items of these numbers of answers."""
        covered: BoolArray = np.isin(n_choices, list(self.log_prior))
        return covered

    def removed(self, predictions: Predictions) -> FloatArray:
        """Return the log-probabilities of every view without the prior, shape (n, K, C).

        Items of other numbers of answers than those of the fit stay as they are.

        Args:
            predictions: views whose letter orders are known.

        Raises:
            InputError: the letter order of a view is unknown.

        Examples:
            >>> import polars as pl
            >>> views = Predictions.from_frame(pl.DataFrame({
            ...     "id": ["a"], "family": "f", "source_family": "s", "domain": "d",
            ...     "kind": "boolean", "variant": "base", "reference": 1, "n_choices": 2,
            ...     "view": [0], "code_order": [[1, 0]], "logits": [[0.0, 0.0]],
            ...     "prompt_tokens": 9, "answer_mass": 1.0}))
            >>> prior = LetterPrior("additive", {2: np.log([2.0, 0.5])}, {2: 9}, {2: 2})
            >>> np.exp(prior.removed(views)).round(2).tolist()  # letter A is next to answer 1
            [[[0.8, 0.2]]]
        """
        letters = letters_of_answers(predictions)
        shifts = np.zeros(predictions.logits.shape)
        for n_choices, log_prior in self.log_prior.items():
            rows = predictions.n_choices == n_choices
            shifts[rows, :, :n_choices] = log_prior[letters[rows, :, :n_choices]]
        return log_softmax(predictions.logits - shifts, predictions.n_choices)


def fit_letter_prior(predictions: Predictions, method: PriorMethod) -> LetterPrior:
    """Fit a letter prior.

    Args:
        predictions: scored views of items that are not evaluated; references are not used.
        method: the estimator.

    Returns:
        The prior of each number of answers of which the items identify one.

    Raises:
        InputError: the letter order of a view is unknown, or only the answers are known.
    """
    if predictions.known != "probabilities":
        raise missing_probabilities("a letter prior", predictions.known)
    letters = letters_of_answers(predictions)
    priors: dict[int, FloatArray] = {}
    items: dict[int, int] = {}
    views: dict[int, int] = {}
    for n_choices in np.unique(predictions.n_choices).tolist():
        rows = predictions.n_choices == n_choices
        log_probs = predictions.log_probs_by_view[rows, :, :n_choices]
        possible = np.isfinite(log_probs).all(axis=(1, 2))
        estimate = _ESTIMATORS[method](log_probs[possible], letters[rows][possible, :, :n_choices])
        if estimate is not None:
            priors[n_choices] = estimate.log_prior - estimate.log_prior.mean()
            items[n_choices], views[n_choices] = estimate.items, estimate.views
    return LetterPrior(method, priors, items, views)


@dataclass(frozen=True, eq=False)
class _Estimate:
    log_prior: FloatArray
    items: int
    views: int


def _additive(log_probs: FloatArray, letters: IntArray) -> _Estimate | None:
    r"""Fit log p(answer a of item i at letter l) = answer (i, a) + letter l, by least squares.

    The effects of answers drop out of deviations from the mean over views, so the normal equations
    are those of C letters alone:

    .. math:: y_{iva} - \bar y_{ia} = \beta_{l(i,v,a)} - \bar\beta_{ia}

    with y the log-probability less its mean over the answers of the view.
    """
    n, k, n_choices = log_probs.shape
    shown = letters[..., np.newaxis] == np.arange(n_choices)
    design = shown - shown.mean(axis=1, keepdims=True)
    centred = log_probs - log_probs.mean(axis=2, keepdims=True)
    centred -= centred.mean(axis=1, keepdims=True)
    rows = design.reshape(-1, n_choices)
    gram = rows.T @ rows
    if n == 0 or np.linalg.matrix_rank(gram) < n_choices - 1:
        return None
    log_prior = np.linalg.lstsq(gram, rows.T @ centred.reshape(-1), rcond=None)[0]
    return _Estimate(log_prior, n, k)


def _batch(log_probs: FloatArray, letters: IntArray) -> _Estimate | None:
    r"""Take the log of the mean distribution over letters in view 0.

    .. math:: \beta_l = \log \frac1n \sum_i p_{i0}(l)

    It takes every letter to be right equally often.
    """
    if not len(log_probs):
        return None
    by_letter = np.empty(log_probs[:, 0].shape)
    np.put_along_axis(by_letter, letters[:, 0], log_probs[:, 0], axis=1)
    return _Estimate(np.log(np.exp(by_letter).mean(axis=0)), len(log_probs), 1)


_ESTIMATORS: Final[Mapping[PriorMethod, Callable[[FloatArray, IntArray], _Estimate | None]]] = {
    "additive": _additive,
    "batch": _batch,
}


def letters_of_answers(predictions: Predictions) -> IntArray:
    """Return (n, K, C) the number of the letter next to each answer; 0 at unused answers."""
    order = predictions.code_order
    used = np.arange(order.shape[2]) < predictions.n_choices[:, np.newaxis]
    unknown = (used[:, np.newaxis] & (order < 0)).any(axis=(1, 2))
    if unknown.any():
        row = int(np.flatnonzero(unknown)[0])
        message = (
            f"letter prior: expected the letter orders of all views, {int(unknown.sum()):,} items "
            f"have none (such as {predictions.ids[row]}); import them with their orders"
        )
        raise InputError(message)
    letters = np.zeros_like(order)
    rows, views, places = np.nonzero(np.broadcast_to(used[:, np.newaxis], order.shape))
    letters[rows, views, order[rows, views, places]] = places
    return letters
