r"""Views taken one by one: firmness of an answer before all views are known.

The ensemble of an item is the mean log-probability of its M views. After t of them, let :math:`d_t`
be the difference of the two largest means, the margin in nats. If views come in random order, the
mean over all M differs from that over t with a variance that is proportional to 1/t - 1/M (sampling
without replacement). The firmness

.. math:: s_t = d_t / \sqrt{1/t - 1/M}

is the margin in units of what is still open; it is infinite at t = M. To stop as soon as it reaches
a threshold is stochastic curtailment: the rest can hardly change the outcome.

References:
    Lan, Simon and Halperin, "Stochastically curtailed tests in long-term clinical trials",
    Communications in Statistics C 1, 1982.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray, IntArray
from pact_eval.metrics.decoding import log_softmax


def running_means(logits: npt.ArrayLike, n_choices: npt.ArrayLike) -> FloatArray:
    """Return the mean log-probabilities over the first 1, 2, ..., K views.

    Args:
        logits: (n, K, C), canonical order.
        n_choices: (n,) number of answers.

    Returns:
        (n, K, C), not normalised; -inf in unused slots, and for answers that a view excludes.

    Raises:
        ValueError: Shapes do not fit, or a view has no possible answer.
    """
    log_probs = log_softmax(logits, n_choices)
    numbers = np.arange(1, log_probs.shape[1] + 1)[:, np.newaxis]
    means: FloatArray = log_probs.cumsum(axis=1) / numbers
    return means


def firmness(means: FloatArray, most: npt.ArrayLike) -> FloatArray:
    """Return the firmness of the answer after 1, 2, ..., K views; see the module.

    Args:
        means: (n, K, C) from `running_means`; C is 2 or more.
        most: (n,) number of views that each item can have, M, from 1.

    Returns:
        (n, K) numbers from 0; infinite from view M on, and finite before.

    Examples:
        >>> means = running_means(np.log([[[0.9, 0.1], [0.9, 0.1], [0.6, 0.4]]]), [2])
        >>> firmness(means, [3]).round(2).tolist()
        [[2.69, 5.38, inf]]
    """
    taken = np.arange(1, means.shape[1] + 1)
    views = np.asarray(most)[:, np.newaxis]
    two_largest = np.partition(means, -2, axis=2)[:, :, -2:]
    with np.errstate(invalid="ignore"):
        # Two answers that are both excluded so far are tied.
        margin = np.nan_to_num(two_largest[..., 1] - two_largest[..., 0], nan=0.0, posinf=np.inf)
    still_open = np.sqrt(np.maximum(1 / taken - 1 / views, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        # The largest finite number is below the threshold that no margin reaches.
        before = np.minimum(margin / still_open, np.finfo(np.float64).max)
    firm: FloatArray = np.where(taken >= views, np.inf, before)
    return firm


def views_taken(firm: FloatArray, threshold: float) -> IntArray:
    """Return (n,) the number of views after which the firmness reaches a threshold.

    Args:
        firm: (n, K) from `firmness`; the last view of every item is infinite.
        threshold: From 0; infinity takes all views of every item.

    Examples:
        >>> views_taken(np.array([[1.0, 5.0, np.inf], [6.0, 2.0, np.inf]]), 3.0).tolist()
        [2, 1]
    """
    stops: IntArray = (firm >= threshold).argmax(axis=1) + 1
    return stops
