"""Verdict on a difference: too small to matter, real, or undecided.

"Not significant" is never written as "the same": two runs are equivalent only if the entire
interval of their difference lies inside a margin that was chosen beforehand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final, Literal, TypeAlias

from pact_eval.stats._quantiles import border, t_quantile
from pact_eval.stats.clusters import clusters_for
from pact_eval.stats.estimate import LEVEL, POWER, ClusterText, Estimate

Conclusion: TypeAlias = Literal[
    "equivalent", "different", "different within the margin", "inconclusive"
]
"""What an interval says: about the margin, about 0, about both, or about neither."""

Direction: TypeAlias = Literal["better", "worse", "higher", "lower"]
"""How A compares with B if they differ; higher and lower for a metric without direction."""

_ROUNDING = 1e-12


@dataclass(frozen=True)
class EquivalenceVerdict:
    """Verdict on the interval of a difference, against 0 and against a margin.

    Attributes:
        conclusion: "equivalent": inside the margin; "different": excludes 0; "different within the
            margin": both; "inconclusive": neither, or no interval to judge.
        direction: How A compares with B if they differ; None if no difference is shown.
        low: Lower end of the interval that was judged.
        high: Upper end of it.
        margin: The largest difference that does not matter, in the unit of the difference.
        n: Rows behind it.
        clusters: Clusters (families) that they form.
        sentence: The verdict in words, on A and B.
        reason: None, or a sentence that says why there was nothing to judge.
    """

    conclusion: Conclusion
    direction: Direction | None
    low: float
    high: float
    margin: float
    n: int
    clusters: int
    sentence: str = ""
    reason: ClusterText | None = None

    def about(self, a: str, b: str) -> str:
        """Return the verdict in words, without numbers, with the names of both runs.

        Examples:
            >>> from pact_eval.stats.estimate import Estimate
            >>> from pact_eval.stats.equivalence import equivalence_verdict
            >>> gap = Estimate(0.04, 0.01, 0.07, n=900, clusters=450)
            >>> equivalence_verdict(gap, margin=0.08).about("pact", "base")
            'pact is better than base, but by less than the margin.'
        """
        leads = f"{a} is {self.direction} than {b}"
        match self.conclusion:
            case "equivalent":
                return f"{a} and {b} are equivalent: the entire interval lies inside the margin."
            case "different within the margin":
                return f"{leads}, but by less than the margin."
            case "different" if max(self.low, -self.high) >= self.margin:
                return f"{leads} by more than the margin."
            case "different":
                return f"{leads}; whether by more than the margin remains open."
            case _:
                return self._open

    @property
    def _open(self) -> str:
        """Why neither a difference nor equivalence is shown."""
        if math.isnan(self.low):
            return f"No verdict: {self._plain_reason}."
        if _inside(self.low, self.high, self.margin):
            return f"Equivalence is not shown: {self._plain_reason}."
        if self.low <= 0 <= self.high:
            return (
                "Neither a difference nor equivalence is shown: the interval holds 0 and is not "
                "inside the margin."
            )
        return "Neither a difference, after adjustment for other tests, nor equivalence is shown."

    @property
    def _plain_reason(self) -> str | None:
        """The reason in the words of first screens: items, or groups if items belong together."""
        if not isinstance(self.reason, ClusterText):
            return self.reason
        one = "item" if self.n == self.clusters else "group"
        return self.reason.over(one, f"{one}s")


def equivalence_verdict(
    difference: Estimate, margin: float, *, better: Literal[-1, 0, 1] = 1, shown: bool = True
) -> EquivalenceVerdict:
    r"""Judge a difference by its interval: inside the margin, beyond 0, both or neither.

    .. math:: equivalent: -\delta < low \le high < \delta, \qquad different: 0 < low \vee high < 0

    It is the interval that is printed, and nothing else is asked. Two one-sided tests at 5% (TOST)
    ask for the 90% interval inside the margin: pass an estimate made with `confidence=0.9`. With
    the 95% interval, equivalence is claimed at 2.5%. Ends that touch the margin or 0 are not inside
    and not beyond. Without an interval, or with one of no width, the verdict is inconclusive.
    Equivalence is not shown either if few clusters have more than a quarter of the rows: how the
    next such cluster would come out is not known.

    Args:
        difference: A minus B, with its interval.
        margin: The largest difference that does not matter, above 0, in the unit of `difference`;
            to be chosen before the difference is seen.
        better: 1 where higher values are better, -1 where lower ones are, 0 where neither is.
        shown: False if the test of a difference, adjusted for other tests, does not show it; the
            interval may exclude 0 nevertheless.

    Returns:
        The verdict; inconclusive, with the estimate's own reason, if there is no interval.

    Raises:
        ValueError: The margin is not a finite number above 0.

    References:
        Schuirmann, "A comparison of the two one-sided tests procedure and the power approach",
        Journal of Pharmacokinetics and Biopharmaceutics 1987.

    Examples:
        >>> from pact_eval.stats.estimate import Estimate
        >>> from pact_eval.stats.equivalence import equivalence_verdict
        >>> gap = Estimate(0.004, -0.003, 0.011, n=9000, clusters=4500)
        >>> equivalence_verdict(gap, margin=0.02).conclusion
        'equivalent'
        >>> equivalence_verdict(gap, margin=0.01).conclusion
        'inconclusive'
        >>> loss = Estimate(-0.3, -0.4, -0.2, n=9000, clusters=4500)
        >>> equivalence_verdict(loss, margin=0.1, better=-1).sentence
        'A is better than B by more than the margin.'
    """
    if not 0 < margin < math.inf:
        raise ValueError(f"margin: expected a finite number above 0, got {margin}")
    low, high, reason = _interval_to_judge(difference)
    direction = _direction(low > 0, better) if shown and (low > 0 or high < 0) else None
    conclusion = _conclusion(direction, inside=_inside(low, high, margin))
    if conclusion == "equivalent" and difference.concentration is not None:
        conclusion, reason = "inconclusive", difference.concentration
    n, clusters = difference.n, difference.clusters
    verdict = EquivalenceVerdict(
        conclusion, direction, low, high, margin, n, clusters, reason=reason
    )
    return replace(verdict, sentence=verdict.about("A", "B"))


def _interval_to_judge(difference: Estimate) -> tuple[float, float, ClusterText | None]:
    """Return the interval to judge, NaN if there is none, and what there is to say on it."""
    low, high, reason = difference.low, difference.high, difference.reason
    if math.isnan(low) or math.isnan(high):
        return math.nan, math.nan, reason or ClusterText("there is no interval")
    if math.isfinite(low) and math.isclose(low, high, rel_tol=_ROUNDING):
        return math.nan, math.nan, ClusterText("a zero-width interval does not mean certainty")
    return low, high, reason


def _inside(low: float, high: float, margin: float) -> bool:
    return -margin < low and high < margin


def _conclusion(direction: Direction | None, *, inside: bool) -> Conclusion:
    if direction is None:
        return "equivalent" if inside else "inconclusive"
    return "different within the margin" if inside else "different"


def _direction(above: bool, better: Literal[-1, 0, 1]) -> Direction:
    if better == 0:
        return "higher" if above else "lower"
    return "better" if above == (better == 1) else "worse"


def detectable_difference(difference: Estimate) -> float:
    r"""Return the smallest true difference whose interval is likely to exclude 0.

    With the half width h of the 95% interval, and quantiles of Student's t with F - 1 degrees of
    freedom,

    .. math:: \delta = h\, \frac{t_{0.975} + t_{0.8}}{t_{0.975}}

    With many clusters, this is 1.43 h, for a power of 80%. The width at a difference of
    :math:`\delta` is taken to be the width here. Of n rows of the same kind,
    :math:`n (\delta / \Delta)^2` show a difference of :math:`\Delta`, because h falls with the
    root of n. In trials with 10 to 1,000 families, the power at :math:`\delta` was 80 to 95%; it
    was 72% where only 1% of rows differ.

    This plans, it does not excuse: it does not depend on the difference that was seen.

    Args:
        difference: A minus B with its 95% interval over F clusters; a fraction.

    Returns:
        A fraction above 0; NaN without an interval, or if even a difference of 1 is too small.

    References:
        Bloom, "Minimum detectable effects: a simple way to report the statistical power of
        experimental designs", Evaluation Review 1995.

    Examples:
        >>> from pact_eval.stats.estimate import Estimate
        >>> from pact_eval.stats.equivalence import detectable_difference
        >>> lead = Estimate(0.01, -0.04, 0.06, n=324, clusters=162)
        >>> smallest = detectable_difference(lead)
        >>> round(smallest, 4), round(lead.n * (smallest / 0.02) ** 2)
        (0.0714, 4125)
    """
    if math.isnan(difference.low) or difference.clusters < 2:
        return math.nan
    critical, beyond = (t_quantile(p, difference.clusters - 1) for p in (1 - LEVEL / 2, POWER))
    smallest = (difference.high - difference.low) / 2 * (critical + beyond) / critical
    return smallest if smallest <= 1 else math.nan


MarginFinding: TypeAlias = Literal["equivalent", "changed", "cannot tell"]
"""What is shown of a change and a margin."""

_CONFIDENCE: Final = 0.95
_NORMAL: Final = NormalDist()
_Z: Final = _NORMAL.inv_cdf((1 + _CONFIDENCE) / 2)


@dataclass(frozen=True)
class MarginTest:
    """A change compared with a margin.

    Attributes:
        finding: equivalent, changed or cannot tell.
        margin: largest change that does not matter.
        change: the change with its 95% interval.
        needed: clusters with which a finding is likely, if the change is as here; None with a
            finding, or if a million would not do.
    """

    finding: MarginFinding
    margin: float
    change: Estimate
    needed: int | None


def margin_test(change: Estimate, margin: float) -> MarginTest:
    """Test a change against a margin, in both directions.

    Args:
        change: the change with its 95% interval.
        margin: largest change that does not matter, above 0, in the unit of the change.

    Raises:
        ValueError: the margin is not a finite number above 0.

    References:
        Schuirmann, "A comparison of the two one-sided tests procedure and the power approach",
        Journal of Pharmacokinetics and Biopharmaceutics 1987.

    Examples:
        >>> from pact_eval.stats.equivalence import margin_test
        >>> from pact_eval.stats.rate_differences import PairedRates
        >>> few = PairedRates(-0.01, 0.05, n_effective=200, n=200, clusters=200,
        ...     degrees=199)
        >>> test = margin_test(few.estimate(), 0.02)
        >>> test.finding, test.needed
        ('cannot tell', 5217)
        >>> many = PairedRates(-0.01, 0.05, n_effective=4000, n=4000, clusters=4000,
        ...     degrees=3999)
        >>> margin_test(many.estimate(), 0.02).finding
        'equivalent'
    """
    verdict = equivalence_verdict(change, margin)
    finding: MarginFinding = "cannot tell"
    if max(verdict.low, -verdict.high) >= margin:
        finding = "changed"
    elif -margin < verdict.low and verdict.high < margin:
        finding = "equivalent"
    needed = clusters_needed(change, margin) if finding == "cannot tell" else None
    return MarginTest(finding, margin, change, needed)


def clusters_needed(change: Estimate, margin: float) -> int | None:
    r"""Find how many clusters would give a finding in 4 of 5 cases, if the change is as here.

    The standard error s falls as the root of the clusters. With the change d
    inside the margin M, both ends need

    .. math:: \Phi\left(\frac{M - d}{s} - z_{0.975}\right)
              + \Phi\left(\frac{M + d}{s} - z_{0.975}\right) - 1 \ge 0.8

    and beyond it :math:`(|d| - M) / s \ge z_{0.975} + z_{0.8}`.

    Args:
        change: the change with its 95% interval.
        margin: largest change that does not matter.

    Returns:
        Clusters; None without an interval, or if a million would not do.

    Examples:
        >>> from pact_eval.stats.estimate import Estimate
        >>> change = Estimate(0.0, -0.0392, 0.0392, n=200, clusters=10_000)
        >>> clusters_needed(change, 0.02)  # s = 0.02 here; 0.02 / 3.24 is needed
        105053
    """
    if math.isnan(change.low) or change.clusters < 2:
        return None
    here = (change.high - change.low) / 2 / t_quantile((1 + _CONFIDENCE) / 2, change.clusters - 1)
    size = abs(change.value)
    if size > margin:
        largest = (size - margin) / (_Z + _NORMAL.inv_cdf(POWER))
    else:
        largest = _largest_error(size, margin)
    return clusters_for(change.clusters, here, largest)


def _largest_error(size: float, margin: float) -> float:
    """Return the largest standard error with both ends within the margin in 4 of 5 cases."""

    def is_within(error: float) -> bool:
        ends = ((margin - size) / error - _Z, (margin + size) / error - _Z)
        return sum(map(_NORMAL.cdf, ends)) - 1 >= POWER

    return border(is_within, 0.0, margin)[0]
