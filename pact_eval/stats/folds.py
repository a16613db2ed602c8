"""Folds of cross-validation and cross-fitting: units dealt so that folds have about equal size."""

from __future__ import annotations

import numpy as np

from pact_eval._typing import IntArray


def dealt_folds(sizes: IntArray, folds: int) -> IntArray:
    """Deal units into folds, the largest first, each to the fold with the fewest items.

    Args:
        sizes: (U,) number of items of each unit, such as a source family.
        folds: number of folds, 1 or more.

    Returns:
        (U,) the fold of each unit, from 0. Ties go to the first unit and to the first fold.

    Examples:
        >>> dealt_folds(np.array([1, 5, 3, 2]), 2)
        array([0, 0, 1, 1])
    """
    loads = np.zeros(folds, dtype=np.int64)
    fold = np.zeros(len(sizes), dtype=np.int64)
    for unit in np.argsort(-sizes, kind="stable"):
        fold[unit] = loads.argmin()
        loads[fold[unit]] += sizes[unit]
    return fold
