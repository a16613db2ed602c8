"""Letter priors: preferences of a model for letters, whatever answer is next to them.

They are estimated on the views of a run, or on content-free prompts (contextual calibration), and
shipped with an export as `letter_prior.json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from pact_eval._json import Json
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.calibration.runs import Members, identity_json
from pact_eval.data.records import Record
from pact_eval.errors import GateError, InputError, counted, missing_probabilities
from pact_eval.metrics.decoding import log_softmax
from pact_eval.runs.custody import trained_on_runs
from pact_eval.runs.folder import RunSource, read_run
from pact_eval.runs.identity import RunIdentity
from pact_eval.runs.predictions import Predictions

PriorMethod = Literal["additive", "batch"]
"""Estimator of a letter prior."""


@dataclass(frozen=True)
class LetterPrior:
    """Preference of a model for letters.

    Attributes:
        method: its estimator.
        log_prior: by number of answers C, C log-preferences of letters A, B, ... in nats, with a
            mean of 0.
        items: by number of answers, the number of items of the fit.
        views: by number of answers, the number of views of each of these items that the fit took.
    """

    method: PriorMethod
    log_prior: dict[int, tuple[float, ...]]
    items: dict[int, int]
    views: dict[int, int]

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
    r"""Fit a letter prior.

    The additive prior fits log p(answer a of item i at letter l) = answer (i, a) + letter l by
    least squares. The effects of answers drop out of deviations from the mean over views, so the
    normal equations are those of C letters alone:

    .. math:: y_{iva} - \bar y_{ia} = \beta_{l(i,v,a)} - \bar\beta_{ia}

    with y the log-probability less its mean over the answers of the view. Batch calibration takes
    every letter to be right equally often: :math:`\beta_l = \log \frac1n \sum_i p_{i0}(l)`.

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
    prior = LetterPrior(method, {}, {}, {})
    for count in np.unique(predictions.n_choices).tolist():
        rows = predictions.n_choices == count
        log_probs = predictions.log_probs_by_view[rows, :, :count]
        possible = np.isfinite(log_probs).all(axis=(1, 2))
        log_probs, at = log_probs[possible], letters[rows][possible, :, :count]
        if method == "batch":
            by_letter = np.empty(log_probs[:, 0].shape)
            np.put_along_axis(by_letter, at[:, 0], log_probs[:, 0], axis=1)
            estimate = np.log(np.exp(by_letter).mean(axis=0)) if possible.any() else None
        else:
            estimate = _additive(log_probs, at)
        if estimate is not None:
            prior.log_prior[count] = tuple((estimate - estimate.mean()).tolist())
            prior.items[count] = int(possible.sum())
            prior.views[count] = 1 if method == "batch" else predictions.k
    return prior


def _additive(log_probs: FloatArray, letters: IntArray) -> FloatArray | None:
    """Return the C effects of letters by least squares; None if the views do not identify them."""
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
    r"""Return log-probabilities after contextual calibration: q = softmax(p / p_cf).

    Items that are not `usable` stay as they are.

    Args:
        predictions: n items of V views or more.
        content_free: (n, V, C) p_cf of the first V views, canonical order: the mean distribution
            of content-free prompts.

    Returns:
        (n, V, C) log q in nats.

    Raises:
        InputError: the run has answers and no probabilities.

    References:
        Zhao et al., "Calibrate before use", ICML 2021.

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
        raise missing_probabilities("contextual calibration", predictions.known)
    log_probs = predictions.log_probs_by_view[:, : content_free.shape[1]]
    rows = usable(content_free, predictions)
    used = np.arange(log_probs.shape[2]) < predictions.n_choices[rows, np.newaxis]
    ratios = np.full(log_probs[rows].shape, -np.inf)
    where = np.broadcast_to(used[:, np.newaxis], ratios.shape)
    np.divide(np.exp(log_probs[rows]), content_free[rows], out=ratios, where=where)
    calibrated = log_probs.copy()
    calibrated[rows] = log_softmax(ratios, predictions.n_choices[rows])
    return calibrated


PRIOR_FORMAT: Final = "pact-letter-prior-1"
"""What the format calls itself."""


def shipped_prior(
    source: RunSource, adapter_sha256: str, records: Sequence[Record]
) -> dict[str, Json]:
    """Fit the additive letter prior of a run, and return the content of `letter_prior.json`.

    Args:
        source: a run of the adapter on other items than those of its use.
        adapter_sha256: SHA-256 of the weights of the adapter that is exported.
        records: those on which the export is going to be used, as far as they are known.

    Raises:
        GateError: the run has families of these records, or the adapter was trained on its items.
        InputError: the run is of another adapter, or its views identify no letter prior.
    """
    run = read_run(source)
    for trained in trained_on_runs([run]):
        raise GateError(f"{trained.run}: {trained.trained_on}; give a run on other items")
    owner = RunIdentity.of(run.provenance).adapter_sha256
    if owner is not None and owner != adapter_sha256:
        message = f"{run.place}: of another adapter ({owner[:12]}), not {adapter_sha256[:12]}"
        raise InputError(message)
    members = Members.of_run(run.predictions)
    shared = members.families & {record.family for record in records}
    if shared:
        raise GateError(
            f"{run.place}: a letter prior of this run would be fitted on "
            f"{counted(len(shared), 'family')} of --data (such as {min(shared)}); it is applied to "
            "other families: give a run of the calibration split"
        )
    prior = fit_letter_prior(run.predictions, "additive")
    if not prior.log_prior:
        raise InputError(
            f"{run.place}: its views identify no letter prior: more orders per item are needed; "
            "score the run with a larger --k"
        )
    numbers: dict[str, Json] = {
        name: {str(count): value for count, value in getattr(prior, name).items()}
        for name in ("items", "views")
    }
    return {
        "format": PRIOR_FORMAT,
        "method": prior.method,
        "log_prior": {str(count): [*row] for count, row in prior.log_prior.items()},
        **numbers,
        "fit": {
            "run": identity_json(run),
            "k": run.predictions.k,
            "items": len(run.predictions),
            "families": [*sorted(members.families)],
            "source_families": [*sorted(members.source_families)],
        },
    }
