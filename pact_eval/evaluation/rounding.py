"""Probabilities that were rounded before they were recorded: what NLL can have been.

A probability p that was rounded to d decimals was in [p - h, p + h] with h = 0.5 * 10^-d. The
probability of the reference is largest if it was rounded down in every view and all others were
rounded up, and smallest the other way round. Both are decoded as the run is:

    single    p_y = u / (u + sum of the others)
    ensemble  the same with geometric means over the K views

A reference that was rounded to 0 can have been 0: the largest NLL is then infinite. A positive
number below h is recorded for it, so 0 is found again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pact_eval.evaluation.notes import RoundedProbabilities
from pact_eval.runs import Decoding, Predictions

FloatArray = npt.NDArray[np.float64]


def rounded_nll(
    predictions: Predictions, decoding: Decoding, decimals: int
) -> RoundedProbabilities:
    """Return the bounds of the mean NLL of rounded probabilities.

    Args:
        predictions: the views, with references; logits are logs of the rounded probabilities.
        decoding: single or ensemble.
        decimals: to how many decimals they were rounded.
    """
    half = 0.5 * 10.0**-decimals
    views = 1 if decoding == "single" else predictions.k
    sent = np.exp(predictions.logits[:, :views])
    sent[sent <= half * (1 + 1e-9)] = 0.0
    used = np.arange(sent.shape[2]) < predictions.n_choices[:, None, None]
    low = np.where(used, np.maximum(sent - half, 0.0), 0.0)
    high = np.where(used, np.minimum(sent + half, 1.0), 0.0)
    reference = predictions.reference[:, None, None]
    zero = np.take_along_axis(sent, np.broadcast_to(reference, (*sent.shape[:2], 1)), 2) == 0
    return RoundedProbabilities(
        decimals=decimals,
        low=float(_nll(high, low, predictions.reference).mean()),
        high=float(_nll(low, high, predictions.reference).mean()),
        censored=int(zero.any(axis=(1, 2)).sum()),
    )


def _nll(
    of_reference: FloatArray, of_others: FloatArray, reference: npt.NDArray[np.int64]
) -> FloatArray:
    """Return (n,) NLL if the reference has some probabilities and the other answers others."""
    with np.errstate(divide="ignore"):
        mine = np.exp(np.log(of_reference).mean(axis=1))
        others = np.exp(np.log(of_others).mean(axis=1))
    rows = np.arange(len(reference))
    own = mine[rows, reference]
    rest = others.sum(axis=1) - others[rows, reference]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(own > 0, np.log1p(rest / own), np.inf)
