"""Intervals of differences between two runs on the same items.

Any two statistics are subtracted under the same resamples by `difference_statistics`. A difference
in accuracy depends on a cluster only through its size and its lead, so its resamples can be
drawn as counts of the few kinds of clusters: the same distribution, at a cost that does not depend
on the number of items.
"""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pact_eval.stats._paired_arrays import IntArray, check_probability, cluster_leads
from pact_eval.stats.bootstrap import FloatArray, Statistic
from pact_eval.stats.estimate import Estimate

# Counts drawn at a time (32 MiB).
_BATCH_NUMBERS = 2**22


def difference_statistic(statistic_a: Statistic, statistic_b: Statistic) -> Statistic:
    """Builds the statistic A minus B, both under the same weights.

    Args:
        statistic_a: Takes (b, F) cluster weights to (b,) values.
        statistic_b: The same for the other run, on the same clusters in the same order.

    Returns:
        The difference; NaN if either is NaN, or if both are infinite with the same sign.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats import mean_statistic
        >>> from pact_eval.stats.paired_intervals import difference_statistic
        >>> nll_a = mean_statistic([0.1, 0.3, 0.2], [0, 0, 1], 2)
        >>> nll_b = mean_statistic([0.2, 0.6, 0.1], [0, 0, 1], 2)
        >>> difference_statistic(nll_a, nll_b)(np.array([[1.0, 1.0], [0.0, 2.0]])).round(3)
        array([-0.1,  0.1])
    """

    def statistic(weights: FloatArray) -> FloatArray:
        a, b = statistic_a(weights), statistic_b(weights)
        with np.errstate(invalid="ignore"):
            return np.asarray(a - b, dtype=np.float64)

    return statistic


def difference_statistics(
    statistics_a: Mapping[str, Statistic], statistics_b: Mapping[str, Statistic]
) -> dict[str, Statistic]:
    """Builds A minus B for every metric; `bootstrap_intervals` gives them one set of resamples.

    Args:
        statistics_a: By metric name, statistics of run A.
        statistics_b: The same names for run B, on the same clusters in the same order.

    Returns:
        By name, in the order of A, the differences.

    Raises:
        ValueError: The two do not have the same names.

    References:
        Koehn, "Statistical significance tests for machine translation evaluation", EMNLP 2004.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats import bootstrap_intervals, mean_statistic
        >>> from pact_eval.stats.paired_intervals import difference_statistics
        >>> families = [0, 0, 1, 1, 2, 2]
        >>> a = {"accuracy": mean_statistic([1, 1, 0, 1, 1, 1], families, 3)}
        >>> b = {"accuracy": mean_statistic([1, 0, 0, 1, 1, 0], families, 3)}
        >>> rng = np.random.default_rng(7)
        >>> estimates = bootstrap_intervals(
        ...     difference_statistics(a, b), n_clusters=3, n=6, rng=rng
        ... )
        >>> round(estimates["accuracy"].value, 3), estimates["accuracy"].clusters
        (0.333, 3)
    """
    odd = set(statistics_a) ^ set(statistics_b)
    if odd:
        raise ValueError(f"expected the same metrics in both runs, got {sorted(odd)} in one only")
    return {
        name: difference_statistic(statistic, statistics_b[name])
        for name, statistic in statistics_a.items()
    }


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
    is meant for comparison with papers: `cluster_accuracy_difference` respects families.

    Args:
        b: Items that only A gets right.
        c: Items that only B gets right.
        n: Items.
        rng: Source of the resamples.
        resamples: Number of resamples.
        confidence: Nominal coverage of the interval, in (0, 1).

    Returns:
        Accuracy of A minus accuracy of B, a fraction in [-1, 1], with `clusters` = n. Quantiles
        are interpolated linearly. NaN without items; no interval from one item; a reason says
        where all resamples agree.

    Raises:
        ValueError: b or c is negative, b + c exceeds n, or another argument is out of range.

    References:
        Efron and Tibshirani, "An introduction to the bootstrap", 1993, chapter 13.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats.paired_intervals import item_accuracy_difference
        >>> estimate = item_accuracy_difference(39, 18, 324, rng=np.random.default_rng(18))
        >>> [round(100 * end, 1) for end in (estimate.value, estimate.low, estimate.high)]
        [6.5, 1.9, 11.1]
    """
    if min(b, c) < 0 or b + c > n:
        raise ValueError(f"expected 0 <= b, 0 <= c and b + c <= n, got b={b}, c={c}, n={n}")
    lead, number = np.array([1, -1, 0]), np.array([b, c, n - b - c])
    return _bootstrap(lead, np.ones(3, dtype=np.int64), number, "item", rng, resamples, confidence)


def cluster_accuracy_difference(
    correct_a: npt.ArrayLike,
    correct_b: npt.ArrayLike,
    cluster: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = 10_000,
    confidence: float = 0.95,
) -> Estimate:
    r"""Difference in accuracy with a paired percentile bootstrap interval over clusters.

    The same distribution as `bootstrap_intervals` on the difference of the two accuracies: a
    cluster counts only through its lead :math:`d_f` (right under A minus right under B) and its
    size :math:`m_f`, and a resample only through how often each kind (d, m) is drawn,

    .. math:: N^* \sim Multinomial(F; N_{dm} / F), \quad
              \Delta^* = \sum_{dm} N^*_{dm} d \,/ \sum_{dm} N^*_{dm} m

    Families of two are of at most eight kinds, whatever their number.

    Args:
        correct_a: (n,) bool: does A get the item right?
        correct_b: (n,) bool: does B? The same items in the same order.
        cluster: (n,) family labels of any sortable dtype.
        rng: Source of the resamples.
        resamples: Number of resamples.
        confidence: Nominal coverage of the interval, in (0, 1).

    Returns:
        Accuracy of A minus accuracy of B, a fraction in [-1, 1]. NaN without items; no interval
        from one cluster; a reason says where all resamples agree.

    Raises:
        ValueError: An outcome is not bool of shape (n,), the lengths differ, or another argument
            is out of range.

    References:
        Efron and Tibshirani, "An introduction to the bootstrap", 1993, chapter 13.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats.paired_intervals import cluster_accuracy_difference
        >>> a, b = [True] * 6 + [False] * 2, [False, False] + [True] * 6
        >>> families, rng = [0, 0, 1, 1, 2, 2, 3, 3], np.random.default_rng(7)
        >>> estimate = cluster_accuracy_difference(a, b, families, rng=rng)
        >>> estimate.value, estimate.low, estimate.high, estimate.n, estimate.clusters
        (0.0, -0.75, 0.75, 8, 4)
    """
    lead, size = cluster_leads(correct_a, correct_b, cluster)
    # One integer a kind: sorting those is several times faster than sorting rows.
    widest = int(size.max(initial=0))
    kind, number = np.unique((lead + widest) * (widest + 1) + size, return_counts=True)
    lead_of, size_of = np.divmod(kind, widest + 1)
    return _bootstrap(lead_of - widest, size_of, number, "family", rng, resamples, confidence)


def _bootstrap(
    lead: IntArray,
    size: IntArray,
    number: IntArray,
    unit: str,
    rng: np.random.Generator,
    resamples: int,
    confidence: float,
) -> Estimate:
    """Estimates sum(lead) / sum(size) over clusters, given as `number` of each kind."""
    check_probability("confidence", confidence)
    if resamples < 1:
        raise ValueError(f"resamples: expected at least 1, got {resamples}")
    # Kinds that are absent are left out: rounding could give the last one a draw.
    lead, size, number = lead[number > 0], size[number > 0], number[number > 0]
    clusters, n = int(number.sum()), int(number @ size)
    over = "items, paired" if unit == "item" else "clusters, paired"
    method = f"{100 * confidence:g}% percentile bootstrap over {over}, {resamples:,} resamples"
    value = int(number @ lead) / n if n else math.nan
    if clusters < 2:
        nothing = f"one {unit}: no interval" if clusters else "no rows: nothing to estimate"
        return Estimate(value, math.nan, math.nan, n, clusters, method, nothing)
    replicates = np.empty(resamples)
    step = max(1, _BATCH_NUMBERS // number.size)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn = rng.multinomial(clusters, number / clusters, size=rows)
        replicates[start : start + rows] = (drawn @ lead) / (drawn @ size)
    low, high = np.quantile(replicates, [(1 - confidence) / 2, (1 + confidence) / 2])
    agree = (replicates == replicates[0]).all()
    reason = "all resamples agree; a zero-width interval does not mean certainty" if agree else None
    return Estimate(value, float(low), float(high), n, clusters, method, reason)
