"""Pointwise bootstrap bands over families, for curves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray
from pact_eval.evaluation.report import default_resamples
from pact_eval.evaluation.settings import Settings
from pact_eval.progress import tracked
from pact_eval.stats.bootstrap import expanded_tail

_MOST_RESAMPLES: Final = 1_000


@dataclass(frozen=True, eq=False)
class Band:
    """A pointwise 95% interval of a curve: both ends are (points,); NaN if undefined."""

    low: FloatArray
    high: FloatArray


def band_resamples(settings: Settings, items: int) -> int:
    """Return the number of resamples of a band: at most 1,000, since each computes a full curve.

    Examples:
        >>> from pact_eval.evaluation.settings import Settings
        >>> band_resamples(Settings(), 324), band_resamples(Settings(resamples=200), 324)
        (1000, 200)
    """
    return min(_MOST_RESAMPLES, settings.resamples or default_resamples(items))


def curve_band(
    curve: Callable[[FloatArray], FloatArray],
    family: npt.NDArray[np.int64],
    *,
    rng: np.random.Generator,
    resamples: int,
) -> Band:
    """Resample families and return the middle 95% of the curve at every point.

    Args:
        curve: maps (n,) integer weights of the items to (points,) values; NaN if no items have
            weight.
        family: (n,) code of each item's family, in 0..F-1.
        rng: source of the resamples.
        resamples: number of resamples.

    Returns:
        The percentile band; NaN everywhere if there is one family.
    """
    n_families = int(family.max(initial=-1)) + 1
    points = len(curve(np.ones(len(family))))
    if n_families < 2:
        return Band(np.full(points, np.nan), np.full(points, np.nan))
    replicates = np.empty((resamples, points))
    for row in tracked(range(resamples), "Resampling a curve", "resamples"):
        drawn = np.bincount(rng.integers(0, n_families, n_families), minlength=n_families)
        replicates[row] = curve(drawn[family].astype(np.float64))
    low, high = _percentiles(replicates, expanded_tail(0.95, n_families))
    return Band(low, high)


def _percentiles(replicates: FloatArray, tail: float) -> tuple[FloatArray, FloatArray]:
    tails = [tail, 1 - tail]
    undefined = np.isnan(replicates)
    if not undefined.any():  # the function below goes through one column after the other
        low, high = np.quantile(replicates, tails, axis=0)
        return low, high
    ends = np.full((2, replicates.shape[1]), np.nan)
    defined = ~undefined.all(axis=0)
    if defined.any():
        ends[:, defined] = np.nanquantile(replicates[:, defined], tails, axis=0)
    return ends[0], ends[1]
