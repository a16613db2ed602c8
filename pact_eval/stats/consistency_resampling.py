"""Consistency resampling: outcomes as a calibrated model would have them, families kept together.

A calibrated model with top probability c is right with probability c. Labels drawn at these
probabilities show how far a finite sample strays from calibration by chance alone (Broecker and
Smith 2007; Vaicenavicius et al. 2019). Items of one family are not independent: two questions on
one story are often right or wrong together. So some items of a family share one draw, as many as
the data say.
"""

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.progress import step
from pact_eval.stats.bootstrap import weight_batches
from pact_eval.stats.clusters import check_cluster, intraclass_correlation

# Numbers drawn at a time (8 MiB).
_BATCH_NUMBERS = 2**20
# Families beyond which sums are drawn from a normal distribution, and items likewise.
_MANY = 10_000
_MANY_ITEMS = 20_000
_ROUNDING = 1e-12


def shared_draw_rate(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, cluster: npt.ArrayLike, n_clusters: int
) -> float:
    r"""Estimate how often two items of a family share a draw, from their outcomes.

    The residual of an item is :math:`e_i = y_i - c_i`: a model need not be calibrated for its
    families to show how they depend. Two items with probabilities :math:`c_i \le c_j` that share
    one uniform number have the covariance :math:`c_i - c_i c_j`, the largest possible. The rate is
    the covariance within families relative to the mean :math:`\bar m` of these over all pairs of
    items in families. The covariance is that of the one-way analysis of variance, scaled to the
    variance of a calibrated model:

    .. math:: \hat\rho = \hat\iota\, \frac{\frac1n \sum_i c_i (1 - c_i)}{\bar m}, \quad
              \hat\iota = \frac{MS_B - MS_W}{MS_B + (n_0 - 1) MS_W}, \quad
              n_0 = \frac{n - \sum_f n_f^2 / n}{F - 1}

    A sum of products over pairs would be the luck of one family if that has half of the items;
    variances between and within families weigh all families by their items. If the intraclass
    correlation :math:`\hat\iota` is negative (one of two contrasted items is right, the other
    wrong), the rate is the sum of products of neighbours in a family relative to the smallest
    possible, :math:`\max(0, c_i + c_j - 1) - c_i c_j`: they then use u and 1 - u.

    Args:
        confidence: (n,) probabilities in [0, 1].
        correct: (n,) outcomes y, 1 if right, else 0.
        cluster: (n,) family code of each item, in 0..n_clusters-1.
        n_clusters: Number of families F.

    Returns:
        A rate in [-1, 1]; 0 if every family has one item, or if there is one family.

    References:
        Donner, "A review of inference procedures for the intraclass correlation coefficient in the
        one-way random effects model", International Statistical Review 54, 1986.

    Examples:
        >>> from pact_eval.stats.consistency_resampling import shared_draw_rate
        >>> shared_draw_rate([0.5] * 4, [1, 1, 0, 0], [0, 0, 1, 1], 2)
        1.0
        >>> shared_draw_rate([0.5] * 4, [1, 0, 0, 1], [0, 0, 1, 1], 2)
        -1.0
    """
    families = check_cluster(cluster, n_clusters, len(np.asarray(confidence)))
    c = np.asarray(confidence, dtype=np.float64)
    size = np.bincount(families, minlength=n_clusters)
    e = np.asarray(correct, dtype=np.float64) - c
    e -= e.mean() if e.size else 0.0
    sums, squares = (
        np.bincount(families, weights, n_clusters)[size > 0].astype(np.float64)
        for weights in (e, e**2)
    )
    correlation = intraclass_correlation(sums, squares, size[size > 0].astype(np.float64))
    if not correlation:
        return 0.0
    order = np.lexsort((c, families))
    place = _place(families[order], n_clusters)
    if correlation > 0:
        larger = size[families[order]] - 1 - place
        most = float(c[order] @ larger) - _products(c, families, n_clusters)
        pairs = float(size @ (size - 1)) / 2
        rate = correlation * float((c * (1 - c)).mean()) * pairs
        return min(1.0, max(0.0, rate / most)) if most > _ROUNDING * pairs else 0.0
    first = _firsts(families[order], place)
    ahead, behind = order[first], order[first + 1]
    least = float((c[ahead] * c[behind] - np.maximum(0.0, c[ahead] + c[behind] - 1)).sum())
    product = float(e[ahead] @ e[behind])
    return max(-1.0, product / least) if least > 0 and product < 0 else 0.0


def calibrated_outcomes(
    confidence: npt.ArrayLike,
    cluster: npt.ArrayLike,
    n_clusters: int,
    *,
    rate: float,
    rng: np.random.Generator,
    resamples: int,
) -> Iterator[BoolArray]:
    r"""Yield outcomes of a calibrated model: item i is right with probability :math:`c_i`.

    Every item compares a uniform number with its probability, so that each is right as often as its
    confidence says. With a positive rate, an item takes the number of its family with probability
    :math:`\sqrt{\rho}`, and two items share it with probability :math:`\rho`. With a negative rate,
    the second of two neighbours takes one minus the number of the first with probability
    :math:`-\rho`.

    Args:
        confidence: (n,) probabilities in [0, 1].
        cluster: (n,) family code of each item, in 0..n_clusters-1.
        n_clusters: Number of families F.
        rate: Of `shared_draw_rate`, in [-1, 1].
        rng: Source of the draws.
        resamples: Number of resamples.

    Yields:
        (b, n) bool, batch by batch until there are `resamples` rows.

    Raises:
        ValueError: The rate is outside [-1, 1], or a code is out of range.

    References:
        Broecker and Smith, "Increasing the reliability of reliability diagrams", Weather and
        Forecasting 2007. Vaicenavicius et al., "Evaluating model calibration in classification",
        AISTATS 2019.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats.consistency_resampling import calibrated_outcomes
        >>> (right,) = calibrated_outcomes(
        ...     [0.9, 0.2], [0, 0], 1, rate=1.0, rng=np.random.default_rng(1), resamples=10_000)
        >>> right.mean(axis=0).round(2), bool((right[:, 0] >= right[:, 1]).all())
        (array([0.9, 0.2]), True)
    """
    if not -1 <= rate <= 1:
        raise ValueError(f"rate: expected a number in [-1, 1], got {rate}")
    c = np.asarray(confidence, dtype=np.float64)
    families = check_cluster(cluster, n_clusters, c.size)
    order = np.lexsort((c, families))
    first = _firsts(families[order], _place(families[order], n_clusters))
    ahead, behind = order[first], order[first + 1]
    shares_number, mirrors_number = _float32_above(math.sqrt(max(rate, 0.0))), _float32_above(-rate)
    threshold = _float32_above(c)
    for rows in _batches(resamples, c.size):
        drawn = rng.random((rows, c.size), dtype=np.float32)
        if rate > 0:
            shares = rng.random((rows, c.size), dtype=np.float32) < shares_number
            common = rng.random((rows, n_clusters), dtype=np.float32)
            np.copyto(drawn, common.take(families, axis=1), where=shares)
        elif rate < 0:
            mirrors = rng.random((rows, ahead.size), dtype=np.float32) < mirrors_number
            drawn[:, behind] = np.where(mirrors, 1 - drawn[:, ahead], drawn[:, behind])
        yield drawn < threshold


def _float32_above(limit: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return the smallest float32 numbers that are not below limits.

    A float32 number is below a limit if and only if it is below this one; to compare it with
    float64 limits takes four times as long.
    """
    limits = np.asarray(limit, dtype=np.float64)
    rounded = limits.astype(np.float32)
    return np.where(rounded < limits, np.nextafter(rounded, np.float32(np.inf)), rounded)


def calibrated_gaps(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    bins: npt.ArrayLike,
    n_bins: int,
    cluster: npt.ArrayLike,
    n_clusters: int,
    *,
    rng: np.random.Generator,
    resamples: int,
) -> FloatArray:
    """Draw the gaps of a calibrated model: sums of confidence minus outcome by bin.

    Families depend on each other as the outcomes say (`shared_draw_rate`). Of more than 20,000
    items, gaps are drawn from a normal distribution: their sums are as good as normal.

    Args:
        confidence: (n,) probabilities in [0, 1].
        correct: (n,) outcomes, 1 if right, else 0.
        bins: (n,) bin of each item, in 0..n_bins-1.
        n_bins: Number of bins.
        cluster: (n,) family code of each item, in 0..n_clusters-1.
        n_clusters: Number of families.
        rng: Source of the draws.
        resamples: Number of draws.

    Returns:
        (resamples, n_bins) gaps.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats.consistency_resampling import calibrated_gaps
        >>> gaps = calibrated_gaps([0.5] * 4, [1, 1, 0, 0], [0, 0, 1, 1], 2, [0, 0, 1, 1], 2,
        ...     rng=np.random.default_rng(1), resamples=100)
        >>> np.unique(gaps)  # the members of a family share their draw
        array([-1.,  1.])
    """
    c, y = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    place = np.asarray(bins, dtype=np.int64)
    families = check_cluster(cluster, n_clusters, c.size)
    rate = shared_draw_rate(c, y, families, n_clusters)
    if c.size > _MANY_ITEMS:
        covariance = _covariance_if_calibrated(c, place, n_bins, families, n_clusters, rate)
        return rng.multivariate_normal(np.zeros(n_bins), covariance, resamples, method="eigh")
    # Counts of right answers are exact in float32, whose product takes half the time.
    membership = np.zeros((c.size, n_bins), dtype=np.float32)
    membership[np.arange(c.size), place] = 1.0
    expected = np.bincount(place, weights=c, minlength=n_bins)
    drawn = calibrated_outcomes(c, families, n_clusters, rate=rate, rng=rng, resamples=resamples)
    gaps = []
    with step("Drawing outcomes by chance", resamples, "samples") as drawing:
        for right in drawn:
            gaps.append(expected - right.astype(np.float32) @ membership)
            drawing.done += len(right)
    return np.concatenate(gaps)


def _covariance_if_calibrated(
    c: FloatArray, bins: IntArray, n_bins: int, families: IntArray, n_clusters: int, rate: float
) -> FloatArray:
    """Return the covariance (bins, bins) of the gaps of a calibrated model.

    Pairs of items in a family share draws at the rate, with the mean confidences of their bins. At
    a negative rate they are independent.
    """
    shared = max(rate, 0.0)
    count = np.bincount(bins, minlength=n_bins)
    mean = np.bincount(bins, weights=c, minlength=n_bins) / np.maximum(count, 1)
    cell = families * n_bins + bins
    items = np.bincount(cell, minlength=n_clusters * n_bins).reshape(-1, n_bins).astype(np.float64)
    pairs = items.T @ items - np.diag(count)
    covariance = shared * pairs * (np.minimum.outer(mean, mean) - np.outer(mean, mean))
    own = np.bincount(bins, weights=c * (1 - c), minlength=n_bins)
    return np.asarray(covariance + np.diag(own))


def centred_sums(sums: npt.ArrayLike, *, rng: np.random.Generator, resamples: int) -> FloatArray:
    r"""Draw how far the totals of a sample stray from their expectation, over families.

    .. math:: N = \sqrt{\frac{F}{S}} \sum_f (w_f - 1) g_f, \quad w \sim Multinomial(F, 1/F), \quad
              S \sim \chi^2_{F - 1}

    With F - 1 in place of S, the variance would be that of independent families. But that variance
    is estimated from F families, and S gives the draws the tails of Student's t with F - 1 degrees
    of freedom. Of many families the sums are as good as normal, and are drawn from a normal
    distribution with the same covariance.

    Args:
        sums: (F, m) sums of each family, for two families or more.
        rng: Source of the draws.
        resamples: Number of draws.

    Returns:
        (resamples, m) deviations from the totals.

    Raises:
        ValueError: There are fewer than two families.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats.consistency_resampling import centred_sums
        >>> sums, rng = [[1.0], [0.0], [2.0]], np.random.default_rng(1)
        >>> noise = centred_sums(sums, rng=rng, resamples=9_999)
        >>> round(float(np.median(noise)), 1) + 0.0, round(float(np.quantile(noise, 0.975)), 0)
        (0.0, 7.0)
    """
    totals = np.asarray(sums, dtype=np.float64)
    families, columns = totals.shape
    if families < 2:
        raise ValueError(f"sums: expected two families or more, got {families}")
    spread = totals - totals.mean(axis=0)
    if families > _MANY:
        covariance = families / (families - 1) * (spread.T @ spread)
        return np.asarray(
            rng.multivariate_normal(np.zeros(columns), covariance, resamples, method="eigh")
        )
    # One multinomial for each draw takes five times as long as counting the families drawn.
    drawn = [weights @ spread for _, weights in weight_batches(families, families, resamples, rng)]
    scale = np.sqrt(families / rng.chisquare(families - 1, (resamples, 1)))
    return np.asarray(scale * np.concatenate(drawn), dtype=np.float64)


def _batches(rows: int, width: int) -> Iterator[int]:
    """Yield numbers of rows that fit a batch, until there are enough."""
    step = max(1, _BATCH_NUMBERS // max(1, width))
    for start in range(0, rows, step):
        yield min(step, rows - start)


def _place(families: IntArray, n_clusters: int) -> IntArray:
    """Return the place of each item in its family, 0, 1, ...; families are sorted."""
    size = np.bincount(families, minlength=n_clusters)
    return np.arange(families.size) - (np.cumsum(size) - size)[families]


def _firsts(families: IntArray, place: IntArray) -> IntArray:
    """Return the rows whose item and the next one are neighbours: 0 and 1, 2 and 3, ..."""
    same = families[:-1] == families[1:]
    return np.flatnonzero(same & (place[:-1] % 2 == 0))


def _products(values: FloatArray, families: IntArray, n_clusters: int) -> float:
    """Return the sum of products over all pairs of items within families."""
    sums = np.bincount(families, weights=values, minlength=n_clusters)
    return float(sums @ sums - values @ values) / 2
