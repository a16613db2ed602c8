"""Decision, confidence and correctness of each distribution: per item."""

import numpy as np
import numpy.typing as npt

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.metrics._arrays import TIE, check_log_probs, check_reference


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
        >>> from pact_eval.metrics.decisions import tied_answers
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
