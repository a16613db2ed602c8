"""Exact tests on who got which item right: McNemar's over items, the sign flip over clusters.

Both ask the same question of two runs on the same items: could the difference in number right be
a coin toss? McNemar tosses a coin for every item that differs, as if items were independent. The
sign flip tosses one for every cluster (family), and so holds its level where the members of a
family err together; where every item is its own cluster it is McNemar's test.

A large p-value is not evidence that two runs are the same: see `equivalence_verdict`.

scipy is imported where it is called: `pact-eval report` tests no pairs, and would wait 0.2 s.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray, IntArray
from pact_eval.stats.bootstrap import percentile_estimate
from pact_eval.stats.clusters import check_outcomes, cluster_leads
from pact_eval.stats.estimate import LEVEL, ClusterText, Estimate, Method, differing_text
from pact_eval.stats.rates import p_value_below

_MOST_COINS = 5_000


@dataclass(frozen=True)
class McNemarTest:
    """Exact McNemar test of two runs on the same items.

    Attributes:
        b: Items that only A gets right.
        c: Items that only B gets right.
        both: Items that both get right.
        neither: Items that neither gets right.
        p_value: Two-sided p-value; 1 where no item differs, NaN without items.
        least_p: Smallest p-value that b + c differing items can give at all: 2^(1 - b - c), or half
            of that for the mid-p; NaN without items.
        method: Which p-value it is, in words.
        reason: None, or a sentence that says why there was nothing to test, or why no p-value
            below 0.05 was possible.
    """

    b: int
    c: int
    both: int
    neither: int
    p_value: float
    least_p: float
    method: str
    reason: ClusterText | None = None

    @property
    def n(self) -> int:
        """Items: b + c + both + neither."""
        return self.b + self.c + self.both + self.neither

    @property
    def difference(self) -> float:
        """Accuracy of A minus accuracy of B, a fraction; NaN without items."""
        return (self.b - self.c) / self.n if self.n else math.nan


@dataclass(frozen=True)
class SignFlipTest:
    """Exact sign-flip test over clusters of two runs on the same items.

    Attributes:
        lead_a: Right items by which A leads, summed over the clusters in which it leads.
        lead_b: The same for B; (lead_a - lead_b) / n is the difference in accuracy.
        clusters_a: Clusters (families) in which A gets more right than B.
        clusters_b: Clusters in which B gets more right than A.
        n: Items.
        clusters: Clusters that they form.
        p_value: Two-sided p-value; 1 where no cluster has a leader, NaN without items.
        least_p: Smallest p-value that D clusters with a leader can give at all, 2^(1 - D); NaN
            without items.
        method: The test, in words.
        reason: None, or a sentence that says why there was nothing to test, or why no p-value
            below 0.05 was possible.
    """

    lead_a: int
    lead_b: int
    clusters_a: int
    clusters_b: int
    n: int
    clusters: int
    p_value: float
    least_p: float
    method: str
    reason: ClusterText | None = None

    @property
    def discordant_clusters(self) -> int:
        """Clusters in which one run gets more right than the other."""
        return self.clusters_a + self.clusters_b

    @property
    def difference(self) -> float:
        """Accuracy of A minus accuracy of B, a fraction; NaN without items."""
        return (self.lead_a - self.lead_b) / self.n if self.n else math.nan


def mcnemar(
    correct_a: npt.ArrayLike, correct_b: npt.ArrayLike, *, mid_p: bool = False
) -> McNemarTest:
    r"""Test whether two runs get equally many of the same items right.

    With b items that only A and c that only B gets right, each a fair coin under the hypothesis,

    .. math:: p = \min\{1, 2\,P[X \le \min(b, c)]\}, \quad X \sim Binomial(b + c, 1/2)

    The mid-p variant counts the observed outcome by half, :math:`p - P[X = \min(b, c)]` (1 where
    b = c): closer to its level on average, but not guaranteed to hold it. Items of one family are
    not independent; `sign_flip_test` is the companion that respects them.

    Args:
        correct_a: (n,) bool: does A get the item right?
        correct_b: (n,) bool: does B? The same items in the same order.
        mid_p: Whether to give the mid-p value.

    Returns:
        The four counts and the p-value.

    Raises:
        ValueError: An array is not bool of shape (n,), or the lengths differ.

    References:
        McNemar, "Note on the sampling error of the difference between correlated proportions or
        percentages", Psychometrika 1947. Mid-p: Fagerland, Lydersen and Laake, "The McNemar test
        for binary matched-pairs data", BMC Medical Research Methodology 2013.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats.paired_tests import mcnemar
        >>> a = np.array([True] * 8 + [False] * 2)
        >>> b = np.array([False] * 7 + [True] * 3)
        >>> test = mcnemar(a, b)
        >>> test.b, test.c, test.both, test.neither, round(test.p_value, 4)
        (7, 2, 1, 0, 0.1797)
    """
    a, b = check_outcomes(correct_a, correct_b)
    both, right_a, right_b = int((a & b).sum()), int(a.sum()), int(b.sum())
    neither = a.size - (right_a + right_b - both)
    return mcnemar_from_counts(right_a - both, right_b - both, both, neither, mid_p=mid_p)


def mcnemar_from_counts(
    b: int, c: int, both: int, neither: int, *, mid_p: bool = False
) -> McNemarTest:
    """Test as `mcnemar` does, from counts as papers print them.

    Args:
        b: Items that only A gets right.
        c: Items that only B gets right.
        both: Items that both get right.
        neither: Items that neither gets right. The p-value does not depend on these two.
        mid_p: Whether to give the mid-p value.

    Returns:
        The four counts and the p-value.

    Raises:
        ValueError: A count is negative.

    Examples:
        >>> from pact_eval.stats.paired_tests import mcnemar_from_counts
        >>> test = mcnemar_from_counts(b=39, c=18, both=227, neither=40)
        >>> test.n, round(test.difference, 3), round(test.p_value, 3)
        (324, 0.065, 0.008)
        >>> mcnemar_from_counts(b=5, c=0, both=300, neither=19).reason
        'only 5 items differ: too few for a p-value below 0.05'
    """
    counts = (int(b), int(c), int(both), int(neither))
    if min(counts) < 0:
        raise ValueError(f"expected counts of 0 or more, got {counts}")
    differing = counts[0] + counts[1]
    method = "McNemar over items, two-sided, " + ("mid-p" if mid_p else "exact")
    if sum(counts) == 0:
        return McNemarTest(
            *counts, math.nan, math.nan, method, ClusterText("no rows: nothing to test")
        )
    if differing == 0:
        return McNemarTest(
            *counts, 1.0, 1.0, method, ClusterText("no item differs: nothing to test")
        )
    least = _mcnemar_p(0, differing, mid_p)
    reason = ClusterText(
        f"only {differing_text(differing, 'item', 'items')}: too few for a p-value below {LEVEL}"
    )
    p_value = _mcnemar_p(min(counts[:2]), differing, mid_p)
    return McNemarTest(*counts, p_value, least, method, reason if least > LEVEL else None)


def _mcnemar_p(fewer: int, differing: int, mid_p: bool) -> float:
    if 2 * fewer == differing:
        return 1.0
    # The two halves of an odd number are equally likely; a sum of probabilities would be 1e-16 off.
    halves = 2 * fewer + 1 == differing
    at_most, chance = 0.5 if halves else float(p_value_below(fewer, differing, 0.5)), 0.0
    if mid_p:
        chance = at_most - (float(p_value_below(fewer - 1, differing, 0.5)) if fewer else 0.0)
    return min(1.0, 2 * at_most) - chance


def sign_flip_test(
    correct_a: npt.ArrayLike, correct_b: npt.ArrayLike, cluster: npt.ArrayLike
) -> SignFlipTest:
    r"""Test whether two runs get equally many items right, over clusters; exactly.

    With :math:`d_f` the number right of A minus that of B in cluster f, and the hypothesis that A
    and B could change names within any cluster, every sign pattern of the :math:`|d_f|` is equally
    likely. With :math:`L_A` and :math:`L_B` the sums of the positive and of the negative parts,

    .. math:: p = \min\{1, 2\,P[T \le \min(L_A, L_B)]\}, \quad
              T = \sum_f |d_f|\,X_f, \quad X_f \sim Bernoulli(1/2)

    The distribution of T is computed, not sampled: a convolution of one binomial for each size of
    :math:`|d_f|` (1 and 2 for families of two). Dependence within a cluster may be of any kind;
    clusters must be independent. Conservative, as any exact test on few clusters is.

    Args:
        correct_a: (n,) bool: does A get the item right?
        correct_b: (n,) bool: does B? The same items in the same order.
        cluster: (n,) family labels of any sortable dtype.

    Returns:
        The leads, the clusters behind them, and the p-value. Families of two cost next to nothing
        at any n; with larger clusters the cost grows with the square of the items that differ.

    Raises:
        ValueError: An outcome is not bool of shape (n,), or the lengths differ.

    References:
        Fisher, "The design of experiments", 1935, section 21; for clusters, Edgington and
        Onghena, "Randomization tests", 2007.

    Examples:
        >>> from pact_eval.stats.paired_tests import mcnemar, sign_flip_test
        >>> a, b = [True] * 12 + [False] * 4, [False] * 12 + [True] * 4
        >>> round(mcnemar(a, b).p_value, 3)
        0.077
        >>> families = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]
        >>> test = sign_flip_test(a, b, families)
        >>> test.clusters_a, test.clusters_b, round(test.p_value, 3)
        (6, 2, 0.289)
    """
    lead, size = cluster_leads(correct_a, correct_b, cluster)
    n, clusters = int(size.sum()), lead.size
    clusters_a, clusters_b = int((lead > 0).sum()), int((lead < 0).sum())
    lead_a, lead_b = int(lead[lead > 0].sum()), int(-lead[lead < 0].sum())
    differing = clusters_a + clusters_b
    p_value, least, reason = 1.0, 1.0, None
    if n == 0:
        p_value, least, reason = math.nan, math.nan, ClusterText("no rows: nothing to test")
    elif differing == 0:
        reason = ClusterText("no {cluster} has a leader: nothing to test")
    else:
        p_value = min(1.0, 2 * _lower_tail(np.abs(lead), min(lead_a, lead_b)))
        least = 2.0 ** (1 - differing)
        if least > LEVEL:
            few = f"only {differing_text(differing, '{cluster}', '{clusters}')}"
            reason = ClusterText(f"{few}: too few for a p-value below {LEVEL}")
    method = ClusterText("sign flip over {clusters}, two-sided, exact")
    return SignFlipTest(
        lead_a, lead_b, clusters_a, clusters_b, n, clusters, p_value, least, method, reason
    )


def flip_mid_p(lead: IntArray) -> float:
    r"""Return the two-sided mid-p value of the sign flip over clusters.

    .. math:: p = \min\{1, 2\,P[T < L] + P[T = L]\}, \quad L = \min(L_A, L_B)

    with T, L_A and L_B as in `sign_flip_test`. It is near its level on average, where the exact
    p-value is conservative.

    Args:
        lead: (F,) number right of A minus that of B in each cluster.

    References:
        Lancaster, "Significance tests in discrete distributions", JASA 56, 1961; Fagerland,
        Lydersen and Laake, "The McNemar test for binary matched-pairs data", BMC Medical Research
        Methodology 13, 2013.

    Examples:
        >>> import numpy as np
        >>> round(flip_mid_p(np.array([1, 1, 1, 1, -1])), 9)  # (1 + 5 / 2) / 16
        0.21875
    """
    sizes = np.abs(lead)
    fewer = int(min(sizes[lead > 0].sum(), sizes[lead < 0].sum()))
    below = _lower_tail(sizes, fewer - 1) if fewer else 0.0
    return min(1.0, below + _lower_tail(sizes, fewer))


def _lower_tail(sizes: IntArray, at_most: int) -> float:
    """Return P[sum of sizes_f X_f <= at_most] for fair coins X_f.

    The coins of size 1 come last, through their distribution function: with families of two, one
    binomial is summed against the other, and nothing is convolved.
    """
    of_size = np.bincount(sizes, minlength=2)
    others: FloatArray = np.ones(1)
    for size in range(2, of_size.size):
        if of_size[size]:
            others = _convolve(others, size, int(of_size[size]))[: at_most + 1]
    single = int(of_size[1])
    below = np.concatenate([[0.0], np.cumsum(_fair_coins(single))])
    left = at_most - np.arange(others.size)
    return float(others @ below[np.minimum(left, single) + 1])


def _fair_coins(coins: int) -> FloatArray:
    """Return (coins + 1,) chances of 0, 1, ... heads: of few coins without scipy, within 1e-12."""
    if coins > _MOST_COINS:
        return np.diff(p_value_below(np.arange(coins + 1), coins, 0.5), prepend=0.0)
    factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, coins + 1)))])
    log_chance = factorial[-1] - factorial - factorial[::-1] - coins * math.log(2)
    return np.asarray(np.exp(log_chance))


def _convolve(distribution: FloatArray, size: int, coins: int) -> FloatArray:
    """Add `coins` fair coins worth `size` each to a distribution on 0, 1, 2, ..."""
    heads = np.zeros(size * coins + 1)
    heads[::size] = _fair_coins(coins)
    return np.convolve(distribution, heads)


def item_accuracy_difference(
    b: int,
    c: int,
    n: int,
    *,
    rng: np.random.Generator,
    resamples: int = 10_000,
    confidence: float = 0.95,
) -> Estimate:
    r"""Difference in accuracy with the item-level paired bootstrap interval that papers print.

    A resample of n items holds B* items that only A gets right and C* that only B does, with

    .. math:: (B^*, C^*, n - B^* - C^*) \sim Multinomial(n; b/n, c/n, 1 - b/n - c/n),
              \quad \Delta^* = (B^* - C^*) / n

    exactly as drawing items with replacement has it. Three counts are drawn for a resample, so
    that ten million items cost no more than three hundred. It takes items to be independent and
    is meant for comparison with papers: an interval over families respects their dependence.

    Args:
        b: Items that only A gets right.
        c: Items that only B gets right.
        n: Items.
        rng: Source of the resamples.
        resamples: Number of resamples.
        confidence: Nominal coverage of the interval, in (0, 1).

    Returns:
        Accuracy of A minus accuracy of B, a fraction in [-1, 1], with `clusters` = n. Quantiles
        are interpolated linearly and not expanded for few items, as in papers. NaN without items;
        no interval from one item, or if all resamples agree; a reason says which.

    Raises:
        ValueError: b or c is negative, b + c exceeds n, or another argument is out of range.

    References:
        Efron and Tibshirani, "An introduction to the bootstrap", 1993, chapter 13.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats.paired_tests import item_accuracy_difference
        >>> estimate = item_accuracy_difference(39, 18, 324, rng=np.random.default_rng(18))
        >>> [round(100 * end, 1) for end in (estimate.value, estimate.low, estimate.high)]
        [6.5, 1.9, 11.1]
    """
    if min(b, c) < 0 or b + c > n:
        raise ValueError(f"expected 0 <= b, 0 <= c and b + c <= n, got b={b}, c={c}, n={n}")
    if resamples < 1:
        raise ValueError(f"resamples: expected at least 1, got {resamples}")
    method = replace(
        Method.bootstrap("percentile", resamples, confidence),
        units="items",
        detail=f", paired, {resamples:,} resamples",
    )
    value = (b - c) / n if n else math.nan
    if n < 2:
        nothing = ClusterText("one item: no interval" if n else "no rows: nothing to estimate")
        return Estimate(value, math.nan, math.nan, n, n, method, nothing)
    # Outcomes that are absent are left out: rounding could give the last one a draw.
    lead, number = np.array([1, -1, 0]), np.array([b, c, n - b - c])
    lead, number = lead[number > 0], number[number > 0]
    replicates = rng.multinomial(n, number / n, size=resamples) @ lead / n
    estimate = percentile_estimate(
        value, replicates, n=n, n_clusters=n, confidence=confidence, expanded=False
    )
    return replace(estimate, method=method)
