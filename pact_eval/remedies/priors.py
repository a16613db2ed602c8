"""Letter priors: preferences of a model for letters, whatever answer is next to them.

They are estimated on the views of a run, or on content-free prompts (contextual calibration), and
are written as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.errors import NO_PROBABILITIES, InputError, missing_probabilities
from pact_eval.metrics.decoding import log_softmax
from pact_eval.remedies.costs import ItemTokens
from pact_eval.runs.folder import CONTENTS, RunFolder, content_free_probabilities, content_free_run
from pact_eval.runs.predictions import Predictions
from pact_eval.schema import Section

PriorMethod = Literal["additive", "batch"]
"""Estimator of a letter prior."""


class LetterPrior(Section, frozen=True, forbid_unknown_fields=True):
    """Preference of a model for letters.

    Attributes:
        method: its estimator.
        log_prior: by number of answers C, C log-preferences of letters A, B, ... in nats, with a
            mean of 0.
        items: by number of answers, the number of items of the fit.
        views: by number of answers, the number of views of each of these items that the fit took.

    Raises:
        ValueError: the numbers of answers differ, or a value is not possible.
    """

    method: PriorMethod
    log_prior: dict[int, tuple[float, ...]]
    items: dict[int, int]
    views: dict[int, int]

    def __post_init__(self) -> None:
        for count, row in self.log_prior.items():
            if count < 2 or len(row) != count:
                raise ValueError(f"log_prior: {count}: expected {max(2, count)} finite numbers")
        for name, numbers in (("items", self.items), ("views", self.views)):
            if numbers.keys() != self.log_prior.keys():
                raise ValueError(f"{name}: expected those of each number of answers")
            if min(numbers.values(), default=1) < 1:
                raise ValueError(f"{name}: expected whole numbers from 1")

    def covers(self, n_choices: IntArray) -> BoolArray:
        """Return (n,) whether there is a prior for items of these numbers of answers."""
        return np.asarray(np.isin(n_choices, list(self.log_prior)))

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
            >>> prior = LetterPrior("additive", {2: (0.693, -0.693)}, {2: 9}, {2: 2})
            >>> np.exp(prior.removed(views)).round(2).tolist()  # letter A is next to answer 1
            [[[0.8, 0.2]]]
        """
        letters = letters_of_answers(predictions)
        shifts = np.zeros(predictions.logits.shape)
        for n_choices, log_prior in self.log_prior.items():
            rows = predictions.n_choices == n_choices
            shifts[rows, :, :n_choices] = np.array(log_prior)[letters[rows, :, :n_choices]]
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
    priors: dict[int, tuple[float, ...]] = {}
    items: dict[int, int] = {}
    views: dict[int, int] = {}
    for n_choices in np.unique(predictions.n_choices).tolist():
        rows = predictions.n_choices == n_choices
        log_probs = predictions.log_probs_by_view[rows, :, :n_choices]
        possible = np.isfinite(log_probs).all(axis=(1, 2))
        estimate = _ESTIMATORS[method](log_probs[possible], letters[rows][possible, :, :n_choices])
        if estimate is not None:
            priors[n_choices] = tuple((estimate - estimate.mean()).tolist())
            items[n_choices] = int(possible.sum())
            views[n_choices] = 1 if method == "batch" else predictions.k
    return LetterPrior(method, priors, items, views)


def _additive(log_probs: FloatArray, letters: IntArray) -> FloatArray | None:
    r"""Fit log p(answer a of item i at letter l) = answer (i, a) + letter l, by least squares.

    The effects of answers drop out of deviations from the mean over views, so the normal equations
    are those of C letters alone:

    .. math:: y_{iva} - \bar y_{ia} = \beta_{l(i,v,a)} - \bar\beta_{ia}

    with y the log-probability less its mean over the answers of the view.
    """
    n, _, n_choices = log_probs.shape
    shown = letters[..., np.newaxis] == np.arange(n_choices)
    design = shown - shown.mean(axis=1, keepdims=True)
    centred = log_probs - log_probs.mean(axis=2, keepdims=True)
    centred -= centred.mean(axis=1, keepdims=True)
    rows = design.reshape(-1, n_choices)
    gram = rows.T @ rows
    if n == 0 or np.linalg.matrix_rank(gram) < n_choices - 1:
        return None
    return np.asarray(np.linalg.lstsq(gram, rows.T @ centred.reshape(-1), rcond=None)[0])


def _batch(log_probs: FloatArray, letters: IntArray) -> FloatArray | None:
    r"""Take the log of the mean distribution over letters in view 0.

    .. math:: \beta_l = \log \frac1n \sum_i p_{i0}(l)

    It takes every letter to be right equally often.
    """
    if not len(log_probs):
        return None
    by_letter = np.empty(log_probs[:, 0].shape)
    np.put_along_axis(by_letter, letters[:, 0], log_probs[:, 0], axis=1)
    return np.asarray(np.log(np.exp(by_letter).mean(axis=0)))


_ESTIMATORS: Final[Mapping[PriorMethod, Callable[[FloatArray, IntArray], FloatArray | None]]] = {
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
        raise InputError(
            "letter prior: expected the order of the answers in every prompt, items such as "
            f"{predictions.ids[row]} have none; import them with their orders"
        )
    letters = np.zeros_like(order)
    rows, views, places = np.nonzero(np.broadcast_to(used[:, np.newaxis], order.shape))
    letters[rows, views, order[rows, views, places]] = places
    return letters


@dataclass(frozen=True, eq=False)
class ContentFree:
    """Content-free prompts of the items of a run.

    Attributes:
        probabilities: (n, V, C) their mean distribution in the first V views, canonical order; NaN
            if it is not known.
        tokens: of these prompts, per item.
    """

    probabilities: FloatArray
    tokens: ItemTokens

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
        tokens = ItemTokens.of_run(own.provenance, own.predictions)
        return cls(
            content_free_probabilities(predictions, own.predictions), tokens.times(len(CONTENTS))
        )


def usable(content_free: FloatArray, predictions: Predictions) -> BoolArray:
    """Return (n,) whether p_cf is known and above 0 at every answer of an item.

    Args:
        content_free: (n, V, C) p_cf; NaN where it is not known.
        predictions: the n items.
    """
    used = np.arange(content_free.shape[2]) < predictions.n_choices[:, np.newaxis]
    positive = (content_free > 0) | ~used[:, np.newaxis]
    return np.asarray(positive.all(axis=(1, 2)))


def contextually_calibrated(predictions: Predictions, content_free: FloatArray) -> FloatArray:
    """Return log-probabilities after contextual calibration; see the module.

    Items that are not `usable` stay as they are.

    Args:
        predictions: n items of V views or more.
        content_free: (n, V, C) p_cf of the first V views, canonical order.

    Returns:
        (n, V, C) log q in nats.

    Raises:
        InputError: the run has answers and no probabilities.

    Examples:
        >>> import polars as pl
        >>> views = Predictions.from_frame(pl.DataFrame({
        ...     "id": ["a"], "family": "f", "source_family": "s", "domain": "d",
        ...     "kind": "boolean", "variant": "base", "reference": 1, "n_choices": 2,
        ...     "view": [0], "code_order": [[0, 1]], "logits": [[0.0, 0.0]],
        ...     "prompt_tokens": 9, "answer_mass": 1.0}))
        >>> log_q = contextually_calibrated(views, np.array([[[0.8, 0.2]]]))
        >>> np.exp(log_q).round(3).tolist()  # softmax of 0.5 / 0.8 and 0.5 / 0.2
        [[[0.133, 0.867]]]
    """
    if predictions.known != "probabilities":
        raise InputError(f"contextual calibration: {NO_PROBABILITIES[predictions.known]}")
    log_probs = predictions.log_probs_by_view[:, : content_free.shape[1]]
    rows = usable(content_free, predictions)
    used = np.arange(log_probs.shape[2]) < predictions.n_choices[rows, np.newaxis]
    ratios = np.full(log_probs[rows].shape, -np.inf)
    np.divide(
        np.exp(log_probs[rows]),
        content_free[rows],
        out=ratios,
        where=np.broadcast_to(used[:, np.newaxis], ratios.shape),
    )
    calibrated = log_probs.copy()
    calibrated[rows] = log_softmax(ratios, predictions.n_choices[rows])
    return calibrated
