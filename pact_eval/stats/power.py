"""Power of the tests of two runs, of a rate and of a letter, and the verdict on a difference.

A difference is too small to matter, real, or undecided. "Not significant" is never written as "the
same": two runs are equivalent only if the entire interval of their difference lies inside a margin
that was chosen beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final, Literal, TypeAlias

import numpy as np

from pact_eval._typing import FloatArray, IntArray
from pact_eval.stats._quantiles import border, t_quantile
from pact_eval.stats.clusters import clusters_for
from pact_eval.stats.estimate import FEWEST, LEVEL, POWER, ClusterText, Estimate
from pact_eval.stats.linearised import LinearInference
from pact_eval.stats.rate_differences import PairedRates
from pact_eval.stats.rates import p_value_below, rate_ends

MOST_GROUPS: Final = 1_000_000
"""`fewest_groups` does not look for more groups than these."""

_ROUNDING: Final = 1e-9
_HALVINGS: Final = 30
_WIDE: Final = 7.0  # standard deviations of a binomial number
_CDF: Final = NormalDist().cdf


@dataclass(frozen=True)
class Groups:
    r"""Groups of items that belong together, all of one size.

    n items are worth :math:`n^* = n / (1 + (m - 1) \rho)` independent ones (Kish 1965).

    Attributes:
        count: number of groups F.
        size: items of each, m.
        alike: correlation of two items of a group, from 0 (independent) to 1 (copies).

    Examples:
        >>> groups = Groups(100, size=2, alike=0.5)
        >>> groups.items, round(groups.n_effective, 1)
        (200, 133.3)
    """

    count: int
    size: int = 1
    alike: float = 0.0

    @property
    def items(self) -> int:
        """Number of items."""
        return self.count * self.size

    @property
    def n_effective(self) -> float:
        """Number of independent items that they are worth."""
        return self.items / (1 + (self.size - 1) * self.alike)


def fewest_groups(enough: Callable[[Groups], bool], like: Groups) -> Groups | None:
    """Find the fewest groups that are enough, by bisection.

    Args:
        enough: whether some groups are enough; more groups must be enough too.
        like: their size and how alike their items are; its count does not matter.

    Returns:
        The groups, `FEWEST` or more; None if `MOST_GROUPS` would not do.

    Examples:
        >>> fewest_groups(lambda groups: groups.items >= 1_001, Groups(0, size=2))
        Groups(count=501, size=2, alike=0.0)
    """
    low, high = FEWEST - 1, FEWEST
    while not enough(replace(like, count=high)):
        if high >= MOST_GROUPS:
            return None
        low, high = high, min(2 * high, MOST_GROUPS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(replace(like, count=middle)) else (middle, high)
    return replace(like, count=high)


def power_of_difference(difference: float, differing: float, groups: Groups) -> float:
    r"""Return the chance that `PairedRates` shows a difference of two rates, in its direction.

    Of :math:`n^*` independent items, :math:`D \sim Bin(n^*, \psi)` are right in one run alone, and
    of these :math:`B \sim Bin(D, (1 + d / \psi) / 2)` in the better one. The chance of a B for
    which both the score test and the sign flip reject is summed over D. It is exact for groups of
    one item and for copies.

    Args:
        difference: d of the accuracies, a fraction above 0.
        differing: share :math:`\psi` of items that are right in one run alone, at least d.
        groups: the items.

    References:
        Connor, "Sample size for testing differences in proportions for the paired-sample design",
        Biometrics 43, 1987; summed instead of approximated here.

    Examples:
        >>> round(power_of_difference(0.02, 0.1, Groups(1_960)), 3)
        0.802
    """
    from scipy import stats

    n = int(groups.n_effective)
    middle, spread = n * differing, _WIDE * math.sqrt(n * differing * (1 - differing)) + 1
    differ = np.arange(max(0, int(middle - spread)), min(n, math.ceil(middle + spread)) + 1)
    least = least_lead(differ, groups.count - 1)
    in_lead = stats.binom.sf(least - 1, differ, (1 + difference / differing) / 2)
    return float((stats.binom.pmf(differ, n, differing) * in_lead).sum())


def least_lead(differ: IntArray, degrees: int) -> IntArray:
    """Return of how many differing items one run must have right to be shown to be better.

    Args:
        differ: (D,) items that are right in one run alone.
        degrees: degrees of freedom of t: groups minus 1.

    Returns:
        (D,) counts; one more than `differ` if no lead shows it.

    Examples:
        >>> least_lead(np.array([5, 6, 100]), 999)
        array([ 6,  6, 60])
    """
    score = t_quantile(1 - LEVEL / 2, degrees) * np.sqrt(differ * (degrees + 1) / degrees)
    ahead = np.minimum(np.ceil((differ + score) / 2 - _ROUNDING).astype(np.int64), differ + 1)
    while (open_leads := (ahead <= differ) & (_flip(ahead, differ) > LEVEL)).any():
        ahead = ahead + open_leads
    return ahead


def _flip(ahead: IntArray, differ: IntArray) -> FloatArray:
    """Return the mid-p value of the sign flip, at least what an exact one can reach."""
    behind = differ - ahead
    below = np.where(behind > 0, p_value_below(np.maximum(behind - 1, 0), differ, 0.5), 0.0)
    mid_p = below + p_value_below(behind, differ, 0.5)
    return np.asarray(np.maximum(mid_p, 2.0 ** (1 - differ)), dtype=np.float64)


def power_of_margin(margin: float, differing: float, groups: Groups) -> float:
    r"""Return the chance that `equivalence_verdict` shows two equal rates to be equivalent.

    .. math:: 2 \Phi\left(d_c \sqrt{n^* / \psi}\right) - 1

    where :math:`d_c` is the largest difference whose 95% interval is inside the margin.

    Args:
        margin: largest difference that does not matter, a fraction above 0.
        differing: share of items that are right in one run alone.
        groups: the items.

    Examples:
        >>> round(power_of_margin(0.02, 0.1, Groups(2_700)), 2)
        0.81
    """

    def inside(lead: float) -> bool:
        return _rates(lead, differing, groups).estimate().high < margin

    if not inside(0.0):
        return 0.0
    critical = border(inside, 0.0, min(margin, differing), _HALVINGS)[0]
    return 2 * _CDF(critical * math.sqrt(groups.n_effective / differing)) - 1


def half_width_of_rate(rate: float, groups: Groups) -> float:
    """Return half the width of the 95% interval of `rate_estimate`, a fraction.

    Args:
        rate: share of positive items, in [0, 1].
        groups: the items.

    Examples:
        >>> round(half_width_of_rate(0.85, Groups(1_230)), 3)
        0.02
    """
    low, high = rate_ends(rate, _estimated(groups), groups.count - 1)
    return (high - low) / 2


def power_of_letter(
    preference: float, moved: float, groups: Groups, *, letters: int, least: float
) -> float:
    r"""Return the chance that `slot_preferences` shows a letter that is chosen too often.

    Items are shown in C orders of C answers, each answer once at each letter. A share
    :math:`\phi` of the items takes the letter in every order, which is
    :math:`\delta = \phi (C - 1) / C` above chance. Of the others, as many answer at random in
    every order as make up the share that changes. The variance of an item is

    .. math:: v = \phi (1 - \phi) \left(\frac{C - 1}{C}\right)^2 + (\mu - \phi)\, \frac{C - 1}{C^3}

    `LinearInference` must reject for C letters (Holm), with its interval beyond `least`.

    Args:
        preference: share of views above chance that choose the letter, above 0.
        moved: share of items whose answer changes between orders.
        groups: the items.
        letters: C, 2 or more.
        least: the preference beyond which the interval must lie.

    Examples:
        >>> round(power_of_letter(0.05, 0.1, Groups(120), letters=4, least=0.01), 2)
        0.82
    """

    def hidden(value: float) -> bool:
        found = _letter(value, moved, groups, letters)
        return found.p_value() > LEVEL / letters or found.estimate().low < least

    critical = border(hidden, 0.0, 1 - 1 / letters, _HALVINGS)[0]
    return _CDF((preference - critical) / _letter(preference, moved, groups, letters).error)


def _letter(preference: float, moved: float, groups: Groups, letters: int) -> LinearInference:
    """Return the inference on a letter from a typical sample; see `power_of_letter`."""
    share = 1 - 1 / letters
    followers = preference / share
    at_random = max(0.0, moved - followers)
    square = followers * share**2 + at_random * share / letters**2
    cube = followers * share**3 + at_random * share * (1 - 2 / letters) / letters**3
    variance = square - preference**2
    third = cube - 3 * preference * square + 2 * preference**3
    return LinearInference(
        preference,
        math.sqrt(variance / groups.n_effective),
        third / variance**1.5 / math.sqrt(groups.n_effective),
        n=groups.items,
        clusters=groups.count,
        degrees=groups.count - 1,
    )


def _estimated(groups: Groups) -> float:
    """Return what tests take the items to be worth: a variance of F groups has F - 1 degrees."""
    return groups.n_effective * (1 - 1 / groups.count)


def _rates(lead: float, differing: float, groups: Groups) -> PairedRates:
    """Return the rates of two runs that differ by so much."""
    return PairedRates(
        lead,
        differing,
        n_effective=_estimated(groups),
        n=groups.items,
        clusters=groups.count,
        degrees=groups.count - 1,
    )


Conclusion: TypeAlias = Literal[
    "equivalent", "different", "different within the margin", "inconclusive"
]
"""What an interval says: about the margin, about 0, about both, or about neither."""

Direction: TypeAlias = Literal["better", "worse", "higher", "lower"]
"""How A compares with B if they differ; higher and lower for a metric without direction."""

_EQUAL = 1e-12


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
            >>> from pact_eval.stats.power import equivalence_verdict
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
        >>> from pact_eval.stats.power import equivalence_verdict
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
    if math.isfinite(low) and math.isclose(low, high, rel_tol=_EQUAL):
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
        >>> from pact_eval.stats.power import detectable_difference
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
        >>> from pact_eval.stats.power import margin_test
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
