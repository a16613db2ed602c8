r"""Contextual calibration: divide by what a model answers when the context says nothing.

Zhao, Wallace, Feng, Klein and Singh, "Calibrate Before Use: Improving Few-Shot Performance of
Language Models", ICML 2021. With p the probabilities of the answers of a view, and p_cf the mean of
those under the contexts "N/A", "[MASK]" and "",

.. math:: q = \mathrm{softmax}(W p + b), \quad W = \mathrm{diag}(p_{cf})^{-1}, \quad b = 0

The softmax is over ratios of probabilities, as published, and not over their logarithms. Here every
question has its own prompt, and so its own p_cf in each order; nothing is fitted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pact_eval._typing import BoolArray, FloatArray
from pact_eval.errors import NO_PROBABILITIES, InputError
from pact_eval.metrics.decoding import log_softmax
from pact_eval.remedies.costs import ItemTokens
from pact_eval.runs.content_free import CONTENTS, content_free_probabilities, content_free_run
from pact_eval.runs.folder import RunFolder
from pact_eval.runs.predictions import Predictions


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
