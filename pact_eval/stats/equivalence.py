"""Is a difference too small to matter, is it real, or can these data not tell?

"Not significant" is never written as "the same": two runs are equivalent only if the entire
interval of their difference lies inside a margin that was chosen beforehand.
"""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pact_eval.stats.estimate import ClusterText, Estimate

Conclusion: TypeAlias = Literal[
    "equivalent", "different", "different within the margin", "inconclusive"
]
"""What an interval says: about the margin, about 0, about both, or about neither."""

Direction: TypeAlias = Literal["better", "worse", "higher", "lower"]
"""How A compares with B if they differ; higher and lower for a metric without direction."""

# Fewer clusters that differ cannot give an exact two-sided p-value below 0.05.
_FEW_CLUSTERS = 6
_UPPER = 0.975
_ROUNDING = 1e-12

_SENTENCES: dict[Conclusion, str] = {
    "equivalent": "A and B are equivalent: the entire interval lies inside the margin.",
    "different": "A is {} than B; whether by more than the margin remains open.",
    "different within the margin": "A is {} than B, but by less than the margin.",
    "inconclusive": "Neither a difference nor equivalence is shown: the interval holds 0 and is "
    "not inside the margin.",
}


@dataclass(frozen=True)
class EquivalenceVerdict:
    """What the interval of a difference says about 0 and about a margin.

    Attributes:
        conclusion: "equivalent": inside the margin; "different": excludes 0; "different within the
            margin": both; "inconclusive": neither, or no interval to judge.
        direction: How A compares with B if they differ; None if no difference is shown.
        low: Lower end of the interval that was judged.
        high: Upper end of it.
        margin: The largest difference that does not matter, in the unit of the difference.
        n: Rows behind it.
        clusters: Clusters (families) that they form.
        sentence: The verdict in words, without numbers.
        reason: None, or a sentence that says why there was nothing to judge, or why the interval
            was widened.
    """

    conclusion: Conclusion
    direction: Direction | None
    low: float
    high: float
    margin: float
    n: int
    clusters: int
    sentence: str
    reason: ClusterText | None = None


def equivalence_verdict(
    difference: Estimate,
    margin: float,
    *,
    better: Literal[-1, 0, 1] = 1,
    discordant_clusters: int | None = None,
) -> EquivalenceVerdict:
    r"""Judges a difference by its interval: inside the margin, beyond 0, both or neither.

    .. math:: equivalent: -\delta < low \le high < \delta, \qquad different: 0 < low \vee high < 0

    The interval is judged as it comes. Two one-sided tests at 5% (TOST) ask for the 90% interval
    inside the margin: pass an estimate made with `confidence=0.9`. With the 95% interval that the
    bootstrap functions make by default, equivalence is claimed at 2.5%: the stricter of the two,
    and the same interval that is printed. Ends that touch the margin or 0 are not inside and not
    beyond. Percentile intervals of rare, one-sided differences are a little short: where the margin
    is reached exactly, about 4% of holdouts claimed equivalence instead of 2.5% (7% instead of 5%).

    A percentile interval is too short if almost no cluster differs, and there is none if all
    clusters have the same lead. `discordant_clusters` mends that for rates: with fewer than six of
    F clusters that differ, the interval is widened to hold plus and minus the 97.5% Clopper-Pearson
    bound of their share, which no difference in rates can exceed (where clusters are of one size).
    With one lead d throughout, the bound u of the share of other clusters gives d -+ u (1 + |d|).
    Without the count, a difference without an interval is inconclusive.

    Args:
        difference: A minus B, with its interval.
        margin: The largest difference that does not matter, above 0, in the unit of `difference`;
            to be chosen before the difference is seen.
        better: 1 where higher values are better, -1 where lower ones are, 0 where neither is.
        discordant_clusters: For differences of rates, how many clusters differ at all, as in
            `SignFlipTest.discordant_clusters`; not for other metrics.

    Returns:
        The verdict; inconclusive, with the estimate's own reason, if there is no interval.

    Raises:
        ValueError: The margin is not a finite number above 0, or the count does not lie in
            0..clusters.

    References:
        Schuirmann, "A comparison of the two one-sided tests procedure and the power approach",
        Journal of Pharmacokinetics and Biopharmaceutics 1987. Clopper and Pearson, "The use of
        confidence or fiducial limits", Biometrika 1934.

    Examples:
        >>> from pact_eval.stats import Estimate
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
    _check_verdict(difference, margin, discordant_clusters)
    low, high, reason = _judged(difference, discordant_clusters)
    conclusion = _conclusion(low, high, margin)
    excludes_zero = low > 0 or high < 0
    direction = _direction(low > 0, better) if excludes_zero else None
    sentence = _SENTENCES[conclusion].format(direction)
    if math.isnan(low):
        sentence = f"No verdict: {reason}."
    elif max(low, -high) >= margin:
        sentence = f"A is {direction} than B by more than the margin."
    n, clusters = difference.n, difference.clusters
    return EquivalenceVerdict(
        conclusion, direction, low, high, margin, n, clusters, sentence, reason
    )


def _check_verdict(difference: Estimate, margin: float, discordant: int | None) -> None:
    if not 0 < margin < math.inf:
        raise ValueError(f"margin: expected a finite number above 0, got {margin}")
    if discordant is not None and not 0 <= discordant <= difference.clusters:
        raise ValueError(
            f"discordant_clusters: expected 0..{difference.clusters}, got {discordant}"
        )


def _judged(
    difference: Estimate, discordant: int | None
) -> tuple[float, float, ClusterText | None]:
    """Returns the interval to judge, NaN if there is none, and what there is to say on it."""
    low, high, reason = difference.low, difference.high, difference.reason
    clusters, value = difference.clusters, difference.value
    if discordant is not None and clusters > 1 and math.isnan(low) and math.isfinite(value):
        # All clusters have one lead; so many of those not drawn may have any, from -1 to 1.
        others = _largest_share(0, clusters) * (1 + abs(value))
        low, high = max(-1.0, value - others), min(1.0, value + others)
        reason = ClusterText("all {clusters} have the same lead: widened to the share that may not")
    if math.isnan(low) or math.isnan(high):
        return math.nan, math.nan, reason or ClusterText("there is no interval")
    if discordant is not None and discordant < _FEW_CLUSTERS:
        few = f"fewer than {_FEW_CLUSTERS} {{clusters}} differ: widened to the share that may"
        reason = ClusterText(few)
        bound = _largest_share(discordant, clusters)
        return min(low, -bound), max(high, bound), reason
    if math.isfinite(low) and math.isclose(low, high, rel_tol=_ROUNDING):
        return math.nan, math.nan, ClusterText("a zero-width interval does not mean certainty")
    return low, high, reason


def _largest_share(count: int, total: int) -> float:
    """Returns the upper Clopper-Pearson bound of a share."""
    # Imported here: `pact-eval report` does not come here, and would wait 0.2 s for it.
    from scipy import special

    return float(special.betaincinv(count + 1, total - count, _UPPER)) if count < total else 1.0


def _conclusion(low: float, high: float, margin: float) -> Conclusion:
    different = low > 0 or high < 0
    if -margin < low and high < margin:
        return "different within the margin" if different else "equivalent"
    return "different" if different else "inconclusive"


def _direction(above: bool, better: Literal[-1, 0, 1]) -> Direction:
    if better == 0:
        return "higher" if above else "lower"
    return "better" if above == (better == 1) else "worse"
