"""Intervals of means computed by scipy, to compare ours with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats


def skewed_interval(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Hall's (1992) transformation of Student's t, inverted numerically."""
    n, error, mean = len(values), stats.sem(values), values.mean()
    a = stats.skew(values, bias=False) / np.sqrt(n)
    t = stats.t.ppf(0.975, n - 1)

    def beyond(x: float, quantile: float) -> float:
        return float(x + a * x**2 / 3 + a**2 * x**3 / 27 + a / 6 - quantile)

    above, below = (optimize.brentq(beyond, -99, 99, args=(end,), xtol=1e-13) for end in (t, -t))
    return float(mean - error * above), float(mean - error * below)


def outer_interval(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """The outer ends of Student's t and of Hall's transformation of it."""
    low, high = skewed_interval(values)
    half = stats.sem(values) * stats.t.ppf(0.975, len(values) - 1)
    return min(low, float(values.mean() - half)), max(high, float(values.mean() + half))
