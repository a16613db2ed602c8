"""Numbers against bounds: shown to be on the right side, contradicted, or neither."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from pact_eval.stats._quantiles import normal_quantile, t_quantile
from pact_eval.stats.clusters import clusters_for
from pact_eval.stats.estimate import LEVEL, POWER, ClusterText, Estimate
from pact_eval.stats.multiplicity import hochberg, holm
from pact_eval.stats.summed_intervals import SummedInterval, summed_interval

BoundFinding: TypeAlias = Literal["shown", "not shown", "contradicted"]
"""What the interval of a number says of a bound."""

Side: TypeAlias = Literal[-1, 1]
"""1: the number must be above the bound; -1: below it."""

_ROUNDING: Final = 1e-12
# A p-value is that of its interval to so many digits.
_DIGITS: Final = 1e-9


@dataclass(frozen=True)
class Bounded:
    """A number and the bound that it must keep.

    Attributes:
        estimate: the number with its 95% interval.
        bound: in the unit of the number.
        side: 1 if the number must be above the bound, -1 if below.
        centre: the number without bias, from which the interval reaches; None is its value.
        ends_at_zero: whether the interval is cut off at 0, as that of ECE.
    """

    estimate: Estimate
    bound: float
    side: Side
    centre: float | None = None
    ends_at_zero: bool = False

    @property
    def known(self) -> bool:
        """Whether there is an interval with a width."""
        width = self.estimate.high - self.estimate.low
        return math.isfinite(self.estimate.value) and width > _ROUNDING  # False for NaN

    @property
    def kept(self) -> bool:
        """Whether the full interval is on the right side; an end that touches the bound is not."""
        return self.known and self._lead(inner=True) > _ROUNDING

    @property
    def missed(self) -> bool:
        """Whether the full interval is on the wrong side."""
        return self.known and self._lead(inner=False) < -_ROUNDING

    @property
    def lead(self) -> float:
        """How far the number is on the right side; below 0 on the wrong one."""
        value = self.estimate.value if self.centre is None else self.centre
        return self.side * (value - self.bound)

    def _lead(self, *, inner: bool) -> float:
        lower = (self.side > 0) == inner
        return self.side * ((self.estimate.low if lower else self.estimate.high) - self.bound)

    @property
    def reaches(self) -> SummedInterval:
        """The lead with the reaches of the interval, for other confidences; needs an interval."""
        ends = sorted(self._lead(inner=inner) for inner in (True, False))
        clusters = max(2, self.estimate.clusters)
        return summed_interval(
            [1.0],
            [self.lead],
            ends[:1],
            ends[1:],
            [[1.0]],
            n_clusters=clusters,
            ends_at_zero=self.ends_at_zero,
        )

    @property
    def p_value(self) -> float:
        """The two-sided level at which the interval ends at the bound; NaN without an interval."""
        if not self.known:
            return math.nan
        return self.reaches.p_value() if self.lead else 1.0


@dataclass(frozen=True)
class BoundTest:
    """A number compared with its bound.

    Attributes:
        finding: shown, not shown or contradicted.
        p_value: of the side that the number is on, adjusted for all bounds that are required
            together; NaN without an interval.
        needed: clusters that are likely to show the bound, if the number is as here; None if it is
            shown, on the wrong side or too close.
        reason: why the bound is neither shown nor contradicted, if it is not the interval.
    """

    finding: BoundFinding
    p_value: float
    needed: int | None = None
    reason: ClusterText | None = None


def bound_tests(numbers: Sequence[Bounded]) -> tuple[BoundTest, ...]:
    r"""Test bounds that are required together.

    A bound is *shown* if the full 95% interval is on its right side, which errs in 2.5% at the
    bound itself. That all are shown errs as rarely as one of them does (intersection-union test,
    Berger 1982); the findings one by one are adjusted by `hochberg`. A bound is *contradicted* if
    the full interval is on the wrong side, and `holm` over all bounds keeps the chance of any false
    contradiction. Few clusters that have more than a quarter of the rows show nothing.

    At other levels than 5%, reaches of intervals grow with the quantiles of t (`summed_interval`).

    Args:
        numbers: one or more.

    References:
        As for `hochberg` and `holm`.

    Examples:
        >>> right = Estimate(0.89, 0.865, 0.915, n=600, clusters=600)
        >>> wrong = Estimate(0.09, 0.07, 0.11, n=600, clusters=600)
        >>> tests = bound_tests([Bounded(right, 0.85, 1), Bounded(wrong, 0.08, -1)])
        >>> [test.finding for test in tests], tests[1].needed is None
        (['shown', 'not shown'], True)
    """
    p_values = np.array([number.p_value for number in numbers])
    ahead = np.array([number.lead > 0 for number in numbers])
    # A number on the other side is a test too, and shows nothing; NaN is no test.
    shown = hochberg(np.maximum(p_values, ~ahead))
    contradicted = holm(np.maximum(p_values, ahead))
    adjusted = np.where(ahead, shown, contradicted).tolist()
    m = int(np.isfinite(p_values).sum())
    return tuple(_test(number, p, m) for number, p in zip(numbers, adjusted, strict=True))


def _test(number: Bounded, p_value: float, tests: int) -> BoundTest:
    estimate = number.estimate
    if not number.known:
        reason = estimate.reason or ClusterText("there is no interval")
        return BoundTest("not shown", p_value, reason=reason)
    alone: BoundFinding = "not shown"
    if number.missed:
        alone = "contradicted"
    elif number.kept and estimate.concentration is None:
        alone = "shown"
    if alone == "not shown":
        needed = None if number.kept else _needed(number)
        return BoundTest(alone, p_value, needed, estimate.concentration)
    if p_value <= LEVEL + _DIGITS:
        return BoundTest(alone, p_value)
    together = ClusterText(f"{alone} alone, not among {tests} bounds")
    return BoundTest("not shown", p_value, reason=together)


def _needed(number: Bounded) -> int | None:
    r"""Return how many clusters would show the bound in 4 of 5 cases, if the number is as here.

    The lead must be :math:`z_{0.975} + z_{0.8}` standard errors, which fall as the root of the
    clusters.
    """
    clusters, lead = number.estimate.clusters, number.lead
    if lead <= 0 or clusters < 2:
        return None
    error = number.reaches.below / t_quantile(1 - LEVEL / 2, clusters - 1)
    beyond = normal_quantile(1 - LEVEL / 2) + normal_quantile(POWER)
    needed = clusters_for(clusters, error, lead / beyond)
    return needed if needed is not None and needed > clusters else None


def at_confidence(number: Bounded, confidence: float) -> Estimate:
    """Return the number minus its bound at another confidence, by the quantiles of t.

    Args:
        number: with a side of 1.
        confidence: of the interval, in (0, 1).

    Examples:
        >>> rate = Estimate(0.5, 0.4, 0.6, n=10_000, clusters=10_000)
        >>> wider = at_confidence(Bounded(rate, 0.4, 1), 0.99)
        >>> round(wider.value, 2), round(wider.low, 3)
        (0.1, -0.031)
    """
    estimate, bound = number.estimate, number.bound
    low, high = estimate.low - bound, estimate.high - bound
    if number.known and confidence != 1 - LEVEL:
        low, high = number.reaches.at(confidence)
    return replace(estimate, value=estimate.value - bound, low=low, high=high)
