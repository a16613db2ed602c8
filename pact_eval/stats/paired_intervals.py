"""The item-level paired bootstrap interval of an accuracy difference that papers print.

Differences of any metric over families are `resample(...)[a] - resample(...)[b]`.
"""

import math
from dataclasses import replace

import numpy as np

from pact_eval.stats.bootstrap import percentile_estimate
from pact_eval.stats.estimate import Estimate


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
        >>> from pact_eval.stats.paired_intervals import item_accuracy_difference
        >>> estimate = item_accuracy_difference(39, 18, 324, rng=np.random.default_rng(18))
        >>> [round(100 * end, 1) for end in (estimate.value, estimate.low, estimate.high)]
        [6.5, 1.9, 11.1]
    """
    if min(b, c) < 0 or b + c > n:
        raise ValueError(f"expected 0 <= b, 0 <= c and b + c <= n, got b={b}, c={c}, n={n}")
    if resamples < 1:
        raise ValueError(f"resamples: expected at least 1, got {resamples}")
    method = (
        f"{100 * confidence:g}% percentile bootstrap over items, paired, {resamples:,} resamples"
    )
    value = (b - c) / n if n else math.nan
    if n < 2:
        nothing = "one item: no interval" if n else "no rows: nothing to estimate"
        return Estimate(value, math.nan, math.nan, n, n, method, nothing)
    # Outcomes that are absent are left out: rounding could give the last one a draw.
    lead, number = np.array([1, -1, 0]), np.array([b, c, n - b - c])
    lead, number = lead[number > 0], number[number > 0]
    replicates = rng.multinomial(n, number / n, size=resamples) @ lead / n
    found = percentile_estimate(
        value, replicates, n=n, n_clusters=n, confidence=confidence, expanded=False
    )
    return replace(found, method=method)
