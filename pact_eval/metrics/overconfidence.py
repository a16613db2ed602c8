"""How many of the errors are made with full confidence."""

import numpy as np
import numpy.typing as npt

from pact_eval.metrics._arrays import TIE, BoolArray, check_confidence
from pact_eval.metrics.reduction import item_mean


def is_confident(confidence: npt.ArrayLike, threshold: float = 0.9) -> BoolArray:
    """Returns which items have confidence `threshold` or more, to 1e-12.

    A probability of 0.9 comes out of logarithm and softmax a digit below or above it.

    Args:
        confidence: (n,) top probabilities in [0, 1].
        threshold: Confidence from which an item counts as confident, in [0, 1].

    Returns:
        (n,) bool.

    Raises:
        ValueError: The threshold is outside [0, 1].

    Examples:
        >>> from pact_eval.metrics import is_confident
        >>> is_confident([0.9, 0.89, 0.9 - 1e-16])
        array([ True, False,  True])
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold: expected a number in [0, 1], got {threshold}")
    return np.asarray(confidence, dtype=np.float64) >= threshold - TIE


def confident_errors(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, threshold: float = 0.9
) -> float:
    """Returns the share of the errors that have confidence `threshold` or more.

    Args:
        confidence: (n,) top probabilities in [0, 1].
        correct: (n,) bool.
        threshold: Confidence from which an error counts as confident, in [0, 1].

    Returns:
        A fraction of the errors in [0, 1], lower is better; NaN if there are no errors.

    Raises:
        ValueError: Shapes differ, or a confidence or the threshold is outside [0, 1].

    Examples:
        >>> from pact_eval.metrics import confident_errors
        >>> confident_errors([0.95, 0.95, 0.6], [True, False, False])
        0.5
    """
    c, right = check_confidence(confidence, correct)
    return item_mean(is_confident(c, threshold)[~right])
