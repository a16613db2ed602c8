"""Reduction of per-item values to their mean, and of the values of views to one."""

import numpy as np
import numpy.typing as npt


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


def mean_answer_mass(by_view: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
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
