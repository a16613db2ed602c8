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

    Example:
        >>> round(brent_root(lambda x: x**2 - 2, 0.0, 2.0, xtol=1e-12), 6)
        1.414214
    """
    before, here = low, high
    f_before, f_here = function(before), function(here)
    if f_before == 0:
        return before
    if f_before * f_here > 0:
        message = f"expected values of different signs at {low} and {high}"
        raise ValueError(message)
    other, f_other = before, f_before
    step = last_step = 0.0
    for _ in range(_MOST_STEPS):
        if f_before != 0 and f_here != 0 and (f_before < 0) != (f_here < 0):
            other, f_other = before, f_before
            step = last_step = here - before
        if abs(f_other) < abs(f_here):
            before, here, other = here, other, here
            f_before, f_here, f_other = f_here, f_other, f_here
        nearest = (xtol + _RELATIVE * abs(here)) / 2
        half = (other - here) / 2
        if f_here == 0 or abs(half) < nearest:
            break
        trial = math.inf
        if abs(last_step) > nearest and abs(f_here) < abs(f_before):
            trial = _step((before, f_before), (here, f_here), (other, f_other))
        if 2 * abs(trial) < min(abs(last_step), 3 * abs(half) - nearest):
            last_step, step = step, trial
        else:
            last_step = step = half
        before, f_before = here, f_here
        here += step if abs(step) > nearest else math.copysign(nearest, half)
        f_here = function(here)
    return here


def _step(
    before: tuple[float, float], here: tuple[float, float], other: tuple[float, float]
) -> float:
    """Return the step of a secant of two points, or of an inverse parabola of three."""
    (x_before, f_before), (x, f), (x_other, f_other) = before, here, other
    if x_before == x_other:
        return -f * (x - x_before) / (f - f_before)
    slope = (f_before - f) / (x_before - x)
    other_slope = (f_other - f) / (x_other - x)
    numerator = f_other * other_slope - f_before * slope
    return -f * numerator / (other_slope * slope * (f_other - f_before))
