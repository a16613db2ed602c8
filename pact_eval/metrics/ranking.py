"""AURC of very many items: 8 bytes an item, one sort, and nothing else of that size.

A key holds an item's confidence, whole, and whether it is wrong. A float64 in [0, 1] has its two
highest bits at 0, and among such numbers the order of the bits is the order of the values: moved
up by one bit, they leave the lowest bit for the outcome. Keys of parts of the data are simply put
together.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pact_eval.metrics._arrays import TIE, BoolArray, FloatArray, check_confidence

__all__ = ["aurc_from_keys", "confidence_keys"]

# Keys taken apart at a time.
_CHUNK = 2**18


def confidence_keys(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Packs confidence and outcome of each item into one integer, without loss.

    Args:
        confidence: (n,) top probabilities in [0, 1].
        correct: (n,) bool.

    Returns:
        (n,) keys, which sort by confidence.

    Raises:
        ValueError: Shapes differ, or a confidence is NaN or outside [0, 1].

    Examples:
        >>> from pact_eval.metrics import aurc_from_keys, confidence_keys
        >>> keys = confidence_keys([0.6, 0.9, 0.6], [True, True, False])
        >>> round(aurc_from_keys(keys), 6)
        0.194444
    """
    c, right = check_confidence(confidence, correct)
    # Adding 0 makes a negative zero, whose highest bit is set, a positive one.
    return np.asarray(((c + 0.0).view(np.int64) << 1) | ~right, dtype=np.int64)


def aurc_from_keys(keys: npt.ArrayLike) -> float:
    r"""Area under the risk-coverage curve, as `aurc` has it, from packed items.

    Args:
        keys: (n,) from `confidence_keys`, in any order.

    Returns:
        A fraction in [0, 1], lower is better; items of equal confidence (to 1e-12) count by their
        expected order. NaN without items.

    Raises:
        ValueError: `keys` is not one-dimensional, or is of another dtype than int64.

    Examples:
        >>> from pact_eval.metrics import aurc_from_keys, confidence_keys
        >>> aurc_from_keys(confidence_keys([0.9, 0.6], [True, False]))
        0.25
    """
    packed = np.asarray(keys)
    if packed.ndim != 1 or (packed.dtype != np.int64 and packed.size):
        raise ValueError(f"keys: expected int64 (n,), got {packed.dtype} of {packed.shape}")
    # A sort of plain integers is several times faster than one that carries rows along.
    ranked = np.sort(packed)[::-1]
    n = ranked.size
    area, errors, start = 0.0, 0, 0
    while start < n:
        confidence, wrong, stop = _next_chunk(ranked, start)
        area += _area(confidence, wrong, start, errors)
        errors += int(wrong.sum())
        start = stop
    return area / n if n else float("nan")


def _next_chunk(ranked: npt.NDArray[np.int64], start: int) -> tuple[FloatArray, BoolArray, int]:
    """Returns confidences and errors from `start` to the end of a group of ties, and that end."""
    length = _CHUNK
    while True:
        # One item more than is wanted shows whether the last group goes on.
        keys = ranked[start : start + length + 1]
        confidence = (keys >> 1).view(np.float64)
        wrong = (keys & 1).astype(np.bool_)
        if keys.size <= length:
            return confidence, wrong, start + keys.size
        ends = np.flatnonzero(confidence[:-1] - confidence[1:] > TIE) + 1
        if ends.size:
            end = int(ends[-1])
            return confidence[:end], wrong[:end], start + end
        length *= 2


def _area(confidence: FloatArray, wrong: BoolArray, before: int, errors_before: int) -> float:
    """Returns the sum of the expected error rates at the coverages of these items."""
    kept = np.arange(before + 1, before + wrong.size + 1)
    apart = confidence[:-1] - confidence[1:] > TIE
    if apart.all():
        return float(((errors_before + np.cumsum(wrong)) / kept).sum())
    starts = np.flatnonzero(np.r_[True, apart])
    size = np.diff(starts, append=wrong.size)
    in_group = np.add.reduceat(wrong.astype(np.int64), starts)
    earlier = errors_before + np.cumsum(in_group) - in_group
    rate = in_group / size
    nth = np.arange(1, wrong.size + 1) - np.repeat(starts, size)
    expected = np.repeat(earlier, size) + nth * np.repeat(rate, size)
    return float((expected / kept).sum())
