"""Root of a function by Brent's method, without scipy.optimize, which takes 0.2 s to import."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

_RELATIVE: Final = 4 * math.ulp(1.0)
_MOST_STEPS: Final = 100


def brent_root(
    function: Callable[[float], float], low: float, high: float, *, xtol: float
) -> float:
    """Find where a function is 0: the steps of `scipy.optimize.brentq`, to the last bit.

    Args:
        function: is continuous, with values of different signs at both ends.
        low: left end.
        high: right end.
        xtol: largest distance to the root.

    Raises:
        ValueError: both ends have the same sign.

    References:
        Brent, "Algorithms for minimization without derivatives", 1973, chapter 4.

    Examples:
        >>> round(brent_root(lambda x: x**2 - 2, 0.0, 2.0, xtol=1e-12), 6)
        1.414214
    """
    last, best = (low, function(low)), (high, function(high))
    if last[1] == 0:
        return low
    if last[1] * best[1] > 0:
        message = f"expected values of different signs at {low} and {high}"
        raise ValueError(message)
    across, step, last_step = last, 0.0, 0.0
    for _ in range(_MOST_STEPS):
        if 0 not in (last[1], best[1]) and (last[1] < 0) != (best[1] < 0):
            across, step, last_step = last, best[0] - last[0], best[0] - last[0]
        if abs(across[1]) < abs(best[1]):
            last, best, across = best, across, best
        nearest = (xtol + _RELATIVE * abs(best[0])) / 2
        half = (across[0] - best[0]) / 2
        if best[1] == 0 or abs(half) < nearest:
            break
        trial = math.inf
        if abs(last_step) > nearest and abs(best[1]) < abs(last[1]):
            trial = _trial(last, best, across)
        if 2 * abs(trial) < min(abs(last_step), 3 * abs(half) - nearest):
            last_step, step = step, trial
        else:
            last_step = step = half
        x = best[0] + (step if abs(step) > nearest else math.copysign(nearest, half))
        last, best = best, (x, function(x))
    return best[0]


def _trial(
    last: tuple[float, float], best: tuple[float, float], across: tuple[float, float]
) -> float:
    """Return the step of a secant of two points, or of an inverse parabola of three."""
    (x_last, f_last), (x, f), (x_across, f_across) = last, best, across
    if x_last == x_across:
        return -f * (x - x_last) / (f - f_last)
    slope = (f_last - f) / (x_last - x)
    slope_across = (f_across - f) / (x_across - x)
    numerator = f_across * slope_across - f_last * slope
    return -f * numerator / (slope_across * slope * (f_across - f_last))
