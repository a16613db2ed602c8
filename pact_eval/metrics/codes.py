"""Which code (letter position) an answer was shown at: per item and view."""

import numpy as np
import numpy.typing as npt

from pact_eval.metrics._arrays import IntArray, check_whole, rows_of


def _slots(answer: IntArray, code_order: IntArray) -> IntArray:
    """Returns the k with code_order[..., k] == answer, for answer of the leading shape."""
    at = code_order == answer[..., None]
    missing = at.sum(axis=-1) != 1
    if missing.any():
        raise ValueError(
            f"code_order: expected every answer at exactly one code, got {rows_of(missing)}"
        )
    return np.asarray(at.argmax(axis=-1), dtype=np.int64)


def picked_slot(predicted: npt.ArrayLike, code_order: npt.ArrayLike) -> IntArray:
    """Returns the letter position of the predicted answer: 0 for A, 1 for B, ...

    Args:
        predicted: (n, K) canonical index that each view predicts.
        code_order: (n, K, C_max) canonical index shown at each letter, padded with -1.

    Returns:
        (n, K) letter positions.

    Raises:
        ValueError: Shapes do not fit, or an answer is not shown at exactly one code.

    Examples:
        >>> from pact_eval.metrics import picked_slot
        >>> picked_slot([[0, 0]], [[[0, 1, -1], [1, 0, -1]]])
        array([[0, 1]])
    """
    answer, order = check_whole("predicted", predicted), check_whole("code_order", code_order)
    if order.ndim != 3 or answer.shape != order.shape[:2]:
        raise ValueError(
            f"expected predicted (n, K) and code_order (n, K, C), got {answer.shape} "
            f"and {order.shape}"
        )
    return _slots(answer, order)


def reference_slot(reference: npt.ArrayLike, code_order: npt.ArrayLike) -> IntArray:
    """Returns the letter position of the reference in each view: 0 for A, 1 for B, ...

    Args:
        reference: (n,) canonical index of the right answer.
        code_order: (n, K, C_max) canonical index shown at each letter, padded with -1.

    Returns:
        (n, K) letter positions.

    Raises:
        ValueError: Shapes do not fit, or a reference is not shown at exactly one code.

    Examples:
        >>> from pact_eval.metrics import reference_slot
        >>> reference_slot([1], [[[0, 1, -1], [1, 0, -1]]])
        array([[1, 0]])
    """
    y, order = check_whole("reference", reference), check_whole("code_order", code_order)
    if order.ndim != 3 or y.shape != order.shape[:1]:
        raise ValueError(
            f"expected reference (n,) and code_order (n, K, C), got {y.shape} and {order.shape}"
        )
    return _slots(np.broadcast_to(y[:, None], order.shape[:2]), order)
