"""Array types of the metrics, and the checks that arguments share."""

from __future__ import annotations

from collections.abc import Iterator
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


def rows_of(mask: BoolArray, numbers: IntArray | None = None) -> str:
    """Name the first true rows of a mask, for an error message: "row 3 and 2 more".

    `numbers` are those of the rows, if they are a part of all rows.

    Examples:
        >>> rows_of(np.array([False, True, True])), rows_of(np.array([True]), np.array([7]))
        ('row 1 and 1 more', 'row 7')
    """
    per_row = mask.reshape(len(mask), -1).any(axis=1)
    first, more = int(np.argmax(per_row)), int(per_row.sum()) - 1
    number = first if numbers is None else numbers[first]
    return f"row {number}" + (f" and {more} more" if more else "")


def check_whole(name: str, values: npt.ArrayLike) -> IntArray:
    """Return `values` as int64; floats pass where they are integers.

    Raises:
        ValueError: a value is not an integer.

    Examples:
        >>> check_whole("k", [1.0, 2.0])
        array([1, 2])
    """
    array: npt.NDArray[Any] = np.asarray(values)
    if array.dtype.kind in "iu" or array.size == 0:
        return array.astype(np.int64, copy=False)
    if array.dtype.kind != "f" or not (np.isfinite(array) & (array == np.floor(array))).all():
        raise ValueError(f"{name}: expected integers, got dtype {array.dtype}")
    return array.astype(np.int64)


def check_log_probs(log_probs: npt.ArrayLike, ndim: int | None = 2) -> FloatArray:
    """Return `log_probs` as float64 after checking its dimensions and that nothing exceeds 0.

    Raises:
        ValueError: it has other dimensions, no answer slot, NaN, or a value above 0.

    Examples:
        >>> check_log_probs([[0, -float("inf")]])
        array([[  0., -inf]])
    """
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
    """Return `reference` as int64 of shape (n,) within the C slots of `shape` = (n, C).

    Raises:
        ValueError: it has another shape, or an index outside 0..C-1.

    Examples:
        >>> check_reference([1, 0], (2, 3))
        array([1, 0])
    """
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


def item_mean(values: npt.ArrayLike) -> float:
    """Return the mean over items; NaN if there are none.

    Args:
        values: (n,) numbers or bools. +inf (an unclipped NLL) makes the mean +inf; NaN (an item
            whose value is undefined) makes it NaN: leave such items out first, and count them.

    Returns:
        The mean, in the unit of the values.

    Raises:
        ValueError: `values` is not one-dimensional.

    Examples:
        >>> from pact_eval.metrics import item_mean
        >>> item_mean([True, True, False, True]), item_mean([])
        (0.75, nan)
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"values: expected shape (n,), got {array.shape}")
    return float(array.mean()) if array.size else float("nan")


def mean_answer_mass(by_view: npt.NDArray[np.floating]) -> FloatArray:
    """Return the mean answer mass of each item over the views of which it is known.

    Args:
        by_view: (n, K) share of the next-token distribution on the letters, in [0, 1]; NaN if
            unknown.

    Returns:
        (n,) means; NaN for items of which no view is known.

    Examples:
        >>> mean_answer_mass(np.array([[0.5, 1.0], [0.5, np.nan], [np.nan, np.nan]]))
        array([0.75, 0.5 ,  nan])
    """
    has_mass = ~np.isnan(by_view)
    count = has_mass.sum(axis=1)
    total = np.where(has_mass, by_view, 0.0).sum(axis=1)
    # Not nanmean, which warns if all views of an item are unknown.
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


# Items unpacked at a time.
_CHUNK = 2**16


def ranked_chunks(
    confidence: FloatArray, correct: BoolArray
) -> Iterator[tuple[FloatArray, BoolArray]]:
    """Yield confidences, descending, and whether the item is wrong; ties are in one chunk.

    Args:
        confidence: (n,) checked probabilities in [0, 1].
        correct: (n,) bool.
    """
    # Confidence and outcome in one integer: a sort of plain integers is several times faster than
    # one that carries rows along. Adding 0 makes a negative zero a positive one. All in place: for
    # millions of items, new arrays take longer than the numbers in them.
    keys = (confidence + 0.0).view(np.int64)
    keys <<= 1
    keys |= ~correct
    keys.sort()
    ranked = keys[::-1]
    start = 0
    while start < ranked.size:
        sure, wrong = _chunk(ranked, start)
        yield sure, wrong
        start += sure.size


def tie_starts(ranked: FloatArray) -> IntArray:
    """Return where groups of ties start in confidences in descending order.

    An item within `TIE` of the one before it joins that one's group.
    """
    apart = ranked[:-1] - ranked[1:] > TIE
    return np.flatnonzero(np.r_[True, apart][: ranked.size])


def _chunk(ranked: IntArray, start: int) -> tuple[FloatArray, BoolArray]:
    """Return confidences and errors from `start` to the end of a group of ties."""
    length = _CHUNK
    while True:
        # One item more than is wanted shows whether the last group is complete.
        keys = ranked[start : start + length + 1]
        confidence = (keys >> 1).view(np.float64)
        wrong = (keys & 1).astype(np.bool_)
        if keys.size <= length:
            return confidence, wrong
        end = _last_gap(confidence)
        if end:
            return confidence[:end], wrong[:end]
        length *= 2


def _last_gap(ranked: FloatArray) -> int:
    """Return where the last group of ties starts; most often, it is the last item alone."""
    if ranked[-2] - ranked[-1] > TIE:
        return ranked.size - 1
    return int(tie_starts(ranked)[-1])
