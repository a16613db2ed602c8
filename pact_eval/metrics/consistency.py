"""Agreement of the K views of an item: per item."""

from itertools import combinations

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray
from pact_eval.metrics._arrays import check_log_probs
from pact_eval.metrics.decisions import predicted


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
