"""Array types of the metrics, and the checks that arguments share."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pact_eval._typing import BoolArray, FloatArray, IntArray

# Probabilities that were exponentiated, averaged or read from text overshoot 1 by rounding.
_ROUNDING = 1e-9

# Equal logits in another order, averaged over views or divided by a temperature, come out apart in
# the last digits (so 6 of 53 tied confidences broke in a published run, and 1 in 12 tied ensembles
# of four views). No model means such a difference: numbers this close are tied.
TIE = 1e-12
"""Probabilities closer than this are tied."""


def rows_of(mask: npt.NDArray[np.bool_], numbers: IntArray | None = None) -> str:
    """Name the first true rows of a mask, for an error message: "row 3 and 2 more".

    `numbers` are those of the rows, if they are a part of all rows.
    """
    per_row = mask.reshape(len(mask), -1).any(axis=1)
    first, more = int(np.argmax(per_row)), int(per_row.sum()) - 1
    number = first if numbers is None else numbers[first]
    return f"row {number}" + (f" and {more} more" if more else "")


def check_whole(name: str, values: npt.ArrayLike) -> IntArray:
    """Return `values` as int64; floats pass where they are integers."""
    array: npt.NDArray[Any] = np.asarray(values)
    if array.dtype.kind in "iu" or array.size == 0:
        return array.astype(np.int64, copy=False)
    if array.dtype.kind != "f" or not (np.isfinite(array) & (array == np.floor(array))).all():
        raise ValueError(f"{name}: expected integers, got dtype {array.dtype}")
    return array.astype(np.int64)


def check_log_probs(log_probs: npt.ArrayLike, ndim: int | None = 2) -> FloatArray:
    """Return `log_probs` as float64 after checking its dimensions and that nothing exceeds 0."""
    array = np.asarray(log_probs, dtype=np.float64)
    if array.ndim < 1 or (ndim is not None and array.ndim != ndim):
        shape = "one dimension or more" if ndim is None else f"{ndim} dimensions"
        raise ValueError(f"log_probs: expected {shape}, got shape {array.shape}")
    if array.shape[-1] == 0:
        raise ValueError(f"log_probs: expected at least one answer slot, got shape {array.shape}")
    # Written so that NaN, which compares false, is refused too.
    if not (array <= _ROUNDING).all():
        bad = ~(array <= _ROUNDING)
        raise ValueError(
            f"log_probs: expected normalised log-probabilities (at most 0), got "
            f"{array[bad].flat[0]} in {rows_of(np.atleast_2d(bad))}; decode logits first"
        )
    return array


def check_reference(reference: npt.ArrayLike, shape: tuple[int, ...]) -> IntArray:
    """Return `reference` as int64 of shape (n,) within the C slots of `shape` = (n, C)."""
    array = check_whole("reference", reference)
    if array.shape != shape[:1]:
        raise ValueError(f"reference: expected shape {shape[:1]}, got {array.shape}")
    outside = (array < 0) | (array >= shape[-1])
    if outside.any():
        raise ValueError(
            f"reference: expected indices in 0..{shape[-1] - 1}, got {array[outside][0]} "
            f"in {rows_of(outside)}"
        )
    return array


def check_correct(correct: npt.ArrayLike, shape: tuple[int, ...]) -> BoolArray:
    """Return `correct` as a bool array of the given shape."""
    array: npt.NDArray[Any] = np.asarray(correct)
    if array.dtype != np.bool_ and array.size:
        raise ValueError(f"correct: expected dtype bool, got {array.dtype}")
    if array.shape != shape:
        raise ValueError(f"correct: expected shape {shape}, got {array.shape}")
    return array.astype(np.bool_, copy=False)


def check_confidence(
    confidence: npt.ArrayLike, correct: npt.ArrayLike
) -> tuple[FloatArray, BoolArray]:
    """Return `confidence` (n,) in [0, 1] and `correct` (n,) as arrays."""
    array = np.asarray(confidence, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"confidence: expected shape (n,), got {array.shape}")
    inside = (array >= 0) & (array <= 1 + _ROUNDING)
    if not inside.all():
        raise ValueError(
            f"confidence: expected probabilities in [0, 1], got {array[~inside][0]} "
            f"in {rows_of(~inside)}"
        )
    return array, check_correct(correct, array.shape)
