"""Probabilities known up to an interval, and the range of their scores.

They were rounded, or the log lists only the most probable tokens; see `runs/rounding.py`. The
probability of an answer is largest if its own is largest in every view and all others are smallest,
and smallest the other way round, under the decoding of the run:

    ensemble    p_y = u_y / (u_y + sum of the others), u the geometric mean over the K views
    T(x)        the same with u^(1/T)
    single      rounded: [p - h, p + h] as well, as the probabilities of the server add up to 1

A reference that was rounded to 0, or not listed, can have been 0: the largest NLL is then infinite.
Bounds hold for each item on its own, and for means over items.
"""

from __future__ import annotations

import numpy as np

from pact_eval import metrics
from pact_eval._choices import Decoding
from pact_eval._typing import FloatArray
from pact_eval.evaluation.notes import RoundedProbabilities
from pact_eval.runs.predictions import Predictions, censored_references, recorded_bounds


def rounded_scores(
    predictions: Predictions,
    decoding: Decoding,
    decimals: int | None,
    temperature: FloatArray | None = None,
) -> RoundedProbabilities:
    """Return the bounds of NLL, AURC and accuracy.

    Args:
        predictions: the views, with references; logits are logs of the recorded probabilities.
        decoding: single or ensemble.
        decimals: to how many decimals they were rounded; None if they were not.
        temperature: (n,) of a calibrator; None if there is none.
    """
    low, high = recorded_bounds(predictions, decoding, decimals)
    power = np.ones(len(predictions)) if temperature is None else 1 / temperature
    least, most = _decoded(low, power), _decoded(high, power)
    p_least = _share(least, most)
    p_most = _share(most, least)
    if decimals is not None and decoding == "single" and temperature is None:
        p_least, p_most = np.maximum(p_least, low[:, 0]), np.minimum(p_most, high[:, 0])
    rows, reference = np.arange(len(predictions)), predictions.reference
    others = np.arange(low.shape[2]) != reference[:, None]
    can_be_right = most[rows, reference] >= np.where(others, least, 0.0).max(axis=1)
    can_be_wrong = np.where(others, most, 0.0).max(axis=1) >= least[rows, reference]
    with np.errstate(divide="ignore"):
        nll = [-np.log(p[rows, reference]).mean() for p in (p_most, p_least)]
    return RoundedProbabilities(
        decimals=decimals,
        nll=(float(nll[0]), float(nll[1])),
        aurc=metrics.aurc_bounds(
            p_least.max(axis=1), p_most.max(axis=1), can_be_right, can_be_wrong
        ),
        accuracy=(1 - float(can_be_wrong.mean()), float(can_be_right.mean())),
        censored=censored_references(predictions, decoding, decimals),
        undecided=int((can_be_right & can_be_wrong).sum()),
    )


def _decoded(probabilities: FloatArray, power: FloatArray) -> FloatArray:
    """Return (n, C) geometric means over the views, to a power."""
    with np.errstate(divide="ignore"):
        mean = np.log(probabilities).mean(axis=1)
    return np.asarray(np.exp(mean * power[:, None]))


def _share(own: FloatArray, others: FloatArray) -> FloatArray:
    """Return (n, C) the share of each answer if it has one weight and the others another."""
    rest = np.maximum(others.sum(axis=1, keepdims=True) - others, 0.0)
    with np.errstate(invalid="ignore"):
        return np.where(own > 0, own / (own + rest), 0.0)
