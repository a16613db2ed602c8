"""Test of a change against a margin: more, less, or undecided.

The 95% interval of the change decides both ways:

    equivalent     it lies inside the margin
    changed        it lies beyond the margin
    cannot tell    neither

So a change of the full margin passes in about 2.5% of cases, and one within it is stopped in no
more. Two one-sided tests ask for the 90% interval and 5%; with that, up to 6% of 1,000 simulated
changes of the full margin passed. docs/drift.md has the rates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal, TypeAlias

from pact_eval.stats._quantiles import t_quantile
from pact_eval.stats.equivalence import equivalence_verdict
from pact_eval.stats.estimate import Estimate

MarginFinding: TypeAlias = Literal["equivalent", "changed", "cannot tell"]
"""What is shown of a change and a margin."""

_CONFIDENCE: Final = 0.95
_POWER: Final = 0.8
_MOST_CLUSTERS: Final = 1_000_000
_HALVINGS: Final = 60
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
        >>> from pact_eval.stats.margins import margin_test
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
        largest = (size - margin) / (
            _NORMAL.inv_cdf((1 + _CONFIDENCE) / 2) + _NORMAL.inv_cdf(_POWER)
        )
    else:
        largest = _largest_error(size, margin)
    ratio = (here / largest) ** 2 if largest else math.inf
    if not ratio * change.clusters <= _MOST_CLUSTERS:
        return None
    return math.ceil(ratio * change.clusters)


def _largest_error(size: float, margin: float) -> float:
    """Return the largest standard error with both ends within the margin in 4 of 5 cases."""
    low, high = 0.0, margin
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        ends = ((margin - size) / middle - _Z, (margin + size) / middle - _Z)
        passes = sum(map(_NORMAL.cdf, ends)) - 1 >= _POWER
        low, high = (middle, high) if passes else (low, middle)
    return low
