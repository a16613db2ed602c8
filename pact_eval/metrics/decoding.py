"""From logits to probabilities and answers: single view, ensemble, and agreement of K views.

Every function works in float64, masks unused answer slots with -inf, and keeps a used slot of
-inf (an imported probability of 0) as it is. An item that is left without any possible answer
has no distribution: that is refused, since a NaN row would spoil every aggregate downstream.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.metrics._arrays import TIE, check_log_probs, check_reference, check_whole, rows_of


def _check_logits(logits: npt.ArrayLike, n_choices: npt.ArrayLike) -> FloatArray:
    """Return float64 logits with every unused slot set to -inf."""
    z = np.asarray(logits, dtype=np.float64)
    choices = check_whole("n_choices", n_choices)
    if z.ndim < 2 or choices.shape != z.shape[:1]:
        raise ValueError(
            f"expected logits (n, ..., C) and n_choices (n,), got {z.shape} and {choices.shape}"
        )
    outside = (choices < 1) | (choices > z.shape[-1])
    if outside.any():
        raise ValueError(
            f"n_choices: expected 1..{z.shape[-1]}, got {choices[outside][0]} in {rows_of(outside)}"
        )
    used = np.arange(z.shape[-1]) < choices.reshape(-1, *[1] * (z.ndim - 1))
    return np.where(used, z, -np.inf)


def normalise(z: FloatArray, impossible: str, rows: IntArray | None = None) -> FloatArray:
    """Return log softmax over the last axis of logits without padding.

    Args:
        z: (n, ..., C) logits; any memory layout, which the result keeps.
        impossible: what it means that all logits of a row are -inf.
        rows: (n,) numbers of the rows in messages; None for 0..n-1.

    Raises:
        ValueError: A logit is NaN or +inf, or all logits of a row are -inf.
    """
    largest = z.max(axis=-1, keepdims=True)
    undefined = ~np.isfinite(largest[..., 0])
    if undefined.any():
        empty = np.isneginf(largest[..., 0])
        wrong = undefined & ~empty
        if wrong.any():
            value = largest[..., 0][wrong][0]
            where = rows_of(wrong, rows)
            raise ValueError(f"logits: expected numbers below +inf, got {value} in {where}")
        raise ValueError(f"{impossible}: {rows_of(empty, rows)}")
    below: FloatArray = z - largest
    below -= np.log(np.exp(below).sum(axis=-1, keepdims=True))
    return below


ALL_IMPOSSIBLE = "logits: every answer is -inf, which leaves none possible"
NONE_LEFT = "ensemble undefined: each answer has probability 0 in some view, so none is left"


def _check_views(logits: npt.ArrayLike) -> npt.NDArray[Any]:
    # Not converted to float64 yet: one view of many may be all that is needed.
    z: npt.NDArray[Any] = np.asarray(logits)
    if z.ndim != 3 or z.shape[1] == 0:
        raise ValueError(f"logits: expected shape (n, K, C) with K >= 1, got {z.shape}")
    return z


def log_softmax(logits: npt.ArrayLike, n_choices: npt.ArrayLike) -> FloatArray:
    r"""Normalise logits over the answers an item has.

    .. math:: \log p_j = z_j - \log \sum_{i < C} e^{z_i}

    Args:
        logits: (n, ..., C_max) logits in canonical order; what unused slots hold is ignored.
        n_choices: (n,) number of answers of each item, in 1..C_max.

    Returns:
        (n, ..., C_max) log-probabilities in nats, in [-inf, 0]; unused slots are -inf.

    Raises:
        ValueError: Shapes do not fit, a used logit is NaN or +inf, or every used logit of a row
            is -inf.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import log_softmax
        >>> np.exp(log_softmax([[0.0, 0.0, 9.0], [0.0, 0.0, 0.0]], [2, 3])).round(3)
        array([[0.5  , 0.5  , 0.   ],
               [0.333, 0.333, 0.333]])
    """
    z = _check_logits(logits, n_choices)
    return normalise(z, ALL_IMPOSSIBLE)


def decode_single(logits: npt.ArrayLike, n_choices: npt.ArrayLike) -> FloatArray:
    r"""Decode view 0, the canonical order of the codes: p = softmax(z_0).

    Args:
        logits: (n, K, C_max) logits in canonical order, K >= 1; only view 0 is read.
        n_choices: (n,) number of answers of each item.

    Returns:
        (n, C_max) log-probabilities in nats; unused slots are -inf.

    Raises:
        ValueError: As `log_softmax`.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import decode_single
        >>> views = np.log([[[0.9, 0.1], [0.5, 0.5]]])
        >>> np.exp(decode_single(views, [2])).round(3)
        array([[0.9, 0.1]])
    """
    return log_softmax(_check_views(logits)[:, 0], n_choices)


def decode_ensemble(logits: npt.ArrayLike, n_choices: npt.ArrayLike) -> FloatArray:
    r"""Decode the K views together: mean log-probability, renormalised.

    .. math:: p_j \propto \exp\Big(\frac1K \sum_k \log \mathrm{softmax}(z_k)_j\Big)

    Args:
        logits: (n, K, C_max) logits in canonical order, K >= 1.
        n_choices: (n,) number of answers of each item.

    Returns:
        (n, C_max) log-probabilities in nats; unused slots are -inf. An answer that one view
        gives probability 0 has probability 0.

    Raises:
        ValueError: As `decode_single`; or the views of an item leave no answer possible, each
            being given probability 0 by some view. Decode such items from a single view.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import decode_ensemble
        >>> np.exp(decode_ensemble(np.log([[[0.9, 0.1], [0.5, 0.5]]]), [2])).round(3)
        array([[0.75, 0.25]])
    """
    by_view = log_softmax(_check_views(logits), n_choices)
    return normalise(by_view.mean(axis=1), NONE_LEFT)


def predicted(log_probs: npt.ArrayLike) -> IntArray:
    """Return the most probable answer; ties (to 1e-12) go to the answer canonical index.

    Args:
        log_probs: (..., C_max) normalised log-probabilities, unused slots -inf.

    Returns:
        (...) canonical indices.

    Raises:
        ValueError: A value is NaN or above 0, or there is no answer slot.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import predicted
        >>> predicted(np.log([[0.2, 0.4, 0.4], [0.1, 0.1, 0.8]]))
        array([1, 2])
    """
    log_p = check_log_probs(log_probs, ndim=None)
    return predicted_of_checked(log_p, log_p.max(axis=-1))


def predicted_of_checked(log_p: FloatArray, largest: FloatArray) -> IntArray:
    """Return `predicted` of log-probabilities that were checked before, and their maxima."""
    least = largest - TIE
    # Answers before the first that is as probable: counted one answer at a time, since `argmax`
    # would copy arrays with the answers first.
    answer = np.zeros(least.shape, dtype=np.int64)
    before: BoolArray = np.ones(least.shape, dtype=np.bool_)
    for index in range(log_p.shape[-1] - 1):
        before &= log_p[..., index] < least
        answer += before
    return answer


def most_probable(log_probs: npt.ArrayLike) -> BoolArray:
    """Return (..., C_max) whether an answer is as probable as the most probable one, to 1e-12."""
    log_p = check_log_probs(log_probs, ndim=None)
    return np.asarray(log_p >= log_p.max(axis=-1, keepdims=True) - TIE)


def tied_answers(log_probs: npt.ArrayLike) -> IntArray:
    """Return every answer that is as probable as the most probable one, to 1e-12.

    Args:
        log_probs: (..., C_max) normalised log-probabilities, unused slots -inf.

    Returns:
        (..., T) canonical indices in ascending order, then -1; T is the largest number of answers
        that tie, 1 if none do.

    Raises:
        ValueError: A value is NaN or above 0, or there is no answer slot.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics.decoding import tied_answers
        >>> tied_answers(np.log([[0.2, 0.4, 0.4], [0.1, 0.1, 0.8]]))
        array([[ 1,  2],
               [ 2, -1]])
    """
    best = most_probable(log_probs)
    number = best.sum(axis=-1, keepdims=True)
    most = int(number.max(initial=1))
    if most == 1:
        return np.asarray(best.argmax(axis=-1)[..., np.newaxis], dtype=np.int64)
    first = np.argsort(~best, axis=-1, kind="stable")[..., :most]
    return np.where(np.arange(most) < number, first, -1)


def confidence(log_probs: npt.ArrayLike) -> FloatArray:
    """Return the probability of the most probable answer.

    Args:
        log_probs: (..., C_max) normalised log-probabilities, unused slots -inf.

    Returns:
        (...) probabilities in [1/C, 1].

    Raises:
        ValueError: A value is NaN or above 0, or there is no answer slot.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import confidence
        >>> confidence(np.log([[0.25, 0.75], [0.5, 0.5]])).round(12)
        array([0.75, 0.5 ])
    """
    log_p = check_log_probs(log_probs, ndim=None)
    return np.asarray(np.exp(log_p.max(axis=-1)), dtype=np.float64)


def correct(log_probs: npt.ArrayLike, reference: npt.ArrayLike) -> BoolArray:
    """Say for each item whether the predicted answer is the reference.

    Args:
        log_probs: (n, C_max) normalised log-probabilities, unused slots -inf.
        reference: (n,) canonical index of the right answer.

    Returns:
        (n,) bool; its mean is the accuracy (higher is better).

    Raises:
        ValueError: A value is NaN or above 0, or a reference lies outside the slots.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import correct
        >>> correct(np.log([[0.2, 0.8], [0.5, 0.5]]), [1, 1])
        array([ True, False])
    """
    log_p = check_log_probs(log_probs)
    y = check_reference(reference, log_p.shape)
    return np.asarray(predicted(log_p) == y)


def pairwise_tv(
    log_probs_by_view: npt.ArrayLike, counted: npt.ArrayLike | None = None
) -> FloatArray:
    r"""Mean total variation distance over the pairs of views.

    .. math:: \binom{K}{2}^{-1} \sum_{k < m} \tfrac12 \sum_j |p_{kj} - p_{mj}|

    Views that repeat a letter order are best left out. Pairs of one order are at distance 0, so
    with two answers, which have two orders, K = 4 would lower the mean to two thirds.

    Args:
        log_probs_by_view: (n, K, C_max) normalised log-probabilities in canonical order.
        counted: (n, K) the views that count, such as the first view of each order (see
            `stats.distinct_orders`); K is then their number. None counts all of them.

    Returns:
        (n,) fractions in [0, 1], lower is more consistent; NaN for one view (no pair of views).

    Raises:
        ValueError: The shape is not (n, K, C), that of `counted` does not fit, or a value is NaN or
            above 0.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import pairwise_tv
        >>> pairwise_tv(np.log([[[0.9, 0.1], [0.5, 0.5], [0.9, 0.1]]])).round(6)
        array([0.266667])
        >>> pairwise_tv(np.log([[[0.9, 0.1], [0.5, 0.5], [0.9, 0.1]]]), [[True, True, False]])
        array([0.4])
    """
    log_probs = check_log_probs(log_probs_by_view, ndim=3)
    views = np.ones(log_probs.shape[:2], dtype=np.bool_) if counted is None else np.asarray(counted)
    if views.shape != log_probs.shape[:2]:
        raise ValueError(f"counted: expected shape {log_probs.shape[:2]}, got {views.shape}")
    distance, pairs = np.zeros(len(views)), np.zeros(len(views))
    used = np.flatnonzero(views.any(axis=0))
    everywhere = np.asarray(views.all(axis=0))
    p = {view: np.exp(log_probs[:, view]) for view in used.tolist()}
    for k, m in combinations(p, 2):
        apart = np.abs(p[k] - p[m]).sum(axis=1)
        both = 1 if everywhere[k] and everywhere[m] else views[:, k] & views[:, m]
        distance += apart * both
        pairs += both
    mean: FloatArray = np.full(len(views), np.nan)
    np.divide(distance, 2 * pairs, out=mean, where=pairs > 0)
    return mean


def flipped(log_probs_by_view: npt.ArrayLike) -> FloatArray:
    """Say for each item whether the predicted answer differs between any two views.

    The result is a float, not a bool, because one view leaves it undefined.

    Args:
        log_probs_by_view: (n, K, C_max) normalised log-probabilities in canonical order.

    Returns:
        (n,) 1.0 where two views disagree, else 0.0; the mean is the flip rate, lower is more
        consistent. NaN if K = 1.

    Raises:
        ValueError: The shape is not (n, K, C), or a value is NaN or above 0.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import flipped
        >>> flipped(np.log([[[0.9, 0.1], [0.4, 0.6]], [[0.9, 0.1], [0.8, 0.2]]]))
        array([1., 0.])
    """
    answers = predicted(check_log_probs(log_probs_by_view, ndim=3))
    if answers.shape[1] < 2:
        return np.full(len(answers), np.nan)
    return np.asarray((answers != answers[:, :1]).any(axis=1), dtype=np.float64)
