"""The one place that turns per-item values into their mean."""

import numpy as np
import numpy.typing as npt


def item_mean(values: npt.ArrayLike) -> float:
    """Returns the mean over items; NaN if there are none.

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
