"""Pointwise bootstrap bands over families, for curves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Band", "FloatArray", "curve_band"]

FloatArray: TypeAlias = npt.NDArray[np.float64]

_TAILS = (2.5, 97.5)


@dataclass(frozen=True, eq=False)
class Band:
    """A pointwise 95% interval of a curve: both ends (points,); NaN where there is none."""

    low: FloatArray
    high: FloatArray


def curve_band(
    curve: Callable[[FloatArray], FloatArray],
    family: npt.NDArray[np.int64],
    *,
    rng: np.random.Generator,
    resamples: int,
) -> Band:
    """Resample families, and take the middle 95% of the curve at every point.

    Args:
        curve: takes (n,) weights of the items, whole numbers, to (points,) values, NaN where the
            weights leave none.
        family: (n,) code of each item's family, in 0..F-1.
        rng: source of the resamples.
        resamples: how many.

    Returns:
        The percentile band; NaN everywhere for one family.
    """
    n_families = int(family.max(initial=-1)) + 1
    points = len(curve(np.ones(len(family))))
    if n_families < 2:
        return Band(np.full(points, np.nan), np.full(points, np.nan))
    replicates = np.empty((resamples, points))
    for row in range(resamples):
        drawn = np.bincount(rng.integers(0, n_families, n_families), minlength=n_families)
        replicates[row] = curve(drawn[family].astype(np.float64))
    low, high = _percentiles(replicates)
    return Band(low, high)


def _percentiles(replicates: FloatArray) -> tuple[FloatArray, FloatArray]:
    ends = np.full((2, replicates.shape[1]), np.nan)
    some = ~np.isnan(replicates).all(axis=0)
    if some.any():
        ends[:, some] = np.nanpercentile(replicates[:, some], _TAILS, axis=0)
    return ends[0], ends[1]
