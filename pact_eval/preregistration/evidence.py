"""Evidence for a comparison: its interval, or its value only.

The verdict by values asks whether a difference satisfies a relation. Chance alone satisfies it half
of the time. A comparison is *shown* if chance explains it in at most 5% of samples:

- by an interval that lies entirely on the side of the bound where the value is (for "similar": in
  the margin, which is a test of equivalence);
- by construction, if the difference is 0 whatever the data.

All intervals are two-sided. The 95% interval shows one direction at the 2.5% level. For "similar"
it is the pair of one-sided tests of Schuirmann (1987) at 2.5% each. Schuirmann takes the 90%
interval, at 5% each; we take the interval that is printed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from pact_eval.evaluation.arms.margins import Margin
from pact_eval.preregistration.criteria import Relation
from pact_eval.stats.estimate import LEVEL, Estimate

__all__ = ["ShownBy", "ShownMethod", "by_construction", "by_interval"]

ShownMethod = Literal["interval", "construction"]
"""What decides whether a comparison is shown."""

# Ends that differ from a bound by less touch it.
_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class ShownBy:
    """Whether a comparison is shown, and by what.

    Attributes:
        shown: whether chance explains the result in at most `level` of samples.
        level: two-sided level, 0.05; for a failure among m comparisons of a hypothesis, 0.05 / m.
        method: what decides; None if nothing can.
        low: lower end of the interval that decides; NaN if none does.
        high: upper end of it.
        reason: why nothing can decide, or what makes the difference certain; otherwise None.
    """

    shown: bool
    level: float = LEVEL
    method: ShownMethod | None = None
    low: float = math.nan
    high: float = math.nan
    reason: str | None = None


def by_construction() -> ShownBy:
    """Return the evidence on a difference that is 0 whatever the data.

    So is the difference of accuracy before and after calibration: no temperature changes the most
    probable answer.
    """
    return ShownBy(shown=True, method="construction", reason="0 by construction")


def by_interval(
    relation: Relation,
    margin: Margin,
    interval: Estimate | None,
    *,
    holds: bool,
    level: float = LEVEL,
) -> ShownBy:
    r"""Decide by the interval of the difference.

    With margin m, a comparison that holds is shown if the interval lies in

    ===========  ==========  ============  ===========  ===========
    higher       lower       not higher    not lower    similar
    d > m        d < -m      d < m         d > -m       -m < d < m
    ===========  ==========  ============  ===========  ===========

    A comparison that fails is shown if the interval lies in the opposite (for similar: d > m, or
    d < -m). An end that touches a bound does not lie beyond it: the percentile interval of a rare
    difference ends at exactly 0. An interval of width 0 shows nothing.

    Args:
        relation: relation that the difference must satisfy.
        margin: m.
        interval: at confidence 1 - level; None if there is none.
        holds: whether the value satisfies the relation.
        level: two-sided.

    References:
        Schuirmann, "A comparison of the two one-sided tests procedure and the power approach",
        Journal of Pharmacokinetics and Biopharmaceutics 1987.

    Examples:
        >>> gap = Estimate(0.004, -0.003, 0.011, n=9000, clusters=4500)
        >>> by_interval("similar", Margin(2, "points"), gap, holds=True).shown
        True
        >>> by_interval("similar", Margin(1, "points"), gap, holds=True).shown
        False
        >>> by_interval("higher", Margin(0, ""), gap, holds=True).shown
        False
    """
    if interval is None or math.isnan(interval.low) or math.isnan(interval.high):
        missing = None if interval is None else interval.reason
        return ShownBy(shown=False, level=level, reason=missing or "no interval")
    low, high = interval.low, interval.high
    if high - low <= _ROUNDING:
        nothing = "an interval of width 0 shows nothing"
        return ShownBy(shown=False, level=level, low=low, high=high, reason=nothing)
    sides = _sides(relation, margin.distance, holds=holds)
    shown = any(_inside(low, high, *side) for side in sides)
    return ShownBy(shown, level, "interval", low, high)


def _sides(relation: Relation, margin: float, *, holds: bool) -> tuple[tuple[float, float], ...]:
    """Return the open ranges of differences with the same result as the value."""
    if relation == "similar":
        return ((-margin, margin),) if holds else ((-math.inf, -margin), (margin, math.inf))
    bound = margin if relation in ("higher", "not higher") else -margin
    above = (relation in ("higher", "not lower")) == holds
    return ((bound, math.inf),) if above else ((-math.inf, bound),)


def _inside(low: float, high: float, above: float, below: float) -> bool:
    return (math.isinf(above) or low > above + _ROUNDING) and (
        math.isinf(below) or high < below - _ROUNDING
    )
