"""Clusters of unequal size: their checks, degrees of freedom, residuals, design effects, folds."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.stats.estimate import FEWEST, ClusterText

_ROUNDING: Final = 1e-9
_MOST_CLUSTERS: Final = 1_000_000
# Share of the rows that few clusters may have before conclusions rest on these clusters.
_LARGE_SHARE: Final = 0.25
# Clusters of one size that together have that share are a quarter of all; few are half of those.
_FEW_OF: Final = 8


def effective_clusters(rows: FloatArray) -> float:
    r"""Return how many clusters of one size are worth as much, :math:`n^2 / \sum_f n_f^2`.

    Args:
        rows: (F,) number of rows of each cluster, 0 or more; not all 0.

    References:
        Kish, "Survey sampling", 1965.

    Examples:
        >>> import numpy as np
        >>> effective_clusters(np.array([2.0, 2.0, 2.0]))
        3.0
        >>> round(effective_clusters(np.tile([1.0, 2.0, 2.0, 3.0, 8.0], 20)), 1)
        62.4
    """
    return float(rows.sum()) ** 2 / float((rows**2).sum())


def few_worth(rows: FloatArray) -> float | None:
    """Return what clusters are worth if that is fewer than five of one size; None otherwise.

    How far the luck of one large cluster may carry a statistic is not known then.

    Args:
        rows: (F,) number of rows of each cluster, 0 or more; not all 0.

    Examples:
        >>> import numpy as np
        >>> few_worth(np.array([50.0] + [1.0] * 50)), few_worth(np.full(5, 2.0))
        (3.9215686274509802, None)
    """
    worth = effective_clusters(rows)
    return worth if worth < FEWEST - _ROUNDING else None


def degrees_of_freedom(rows: FloatArray) -> int:
    """Return the degrees of t quantiles: effective clusters minus one, rounded down, at least 1.

    Examples:
        >>> import numpy as np
        >>> degrees_of_freedom(np.array([2.0, 2.0, 2.0])), degrees_of_freedom(np.array([9.0, 1.0]))
        (2, 1)
    """
    return max(1, math.floor(effective_clusters(rows) + _ROUNDING) - 1)


def degrees_of_copies(rows: FloatArray) -> int:
    r"""Return the degrees of t quantiles if the rows of a cluster are like copies of one another.

    The residual of a cluster then grows with its size, and so does its part in the variance: of
    :math:`\sum_f U_f^2` with variances in proportion to :math:`n_f^2`, Satterthwaite's degrees are
    :math:`(\sum_f n_f^2)^2 / \sum_f n_f^4 - 1`, rounded down, at least 1.

    References:
        Satterthwaite, "An approximate distribution of estimates of variance components",
        Biometrics 1946.

    Examples:
        >>> import numpy as np
        >>> unequal = np.tile([1.0, 2.0, 2.0, 3.0, 8.0], 20)
        >>> degrees_of_copies(np.full(100, 2.0)), degrees_of_copies(unequal)
        (99, 30)
        >>> degrees_of_freedom(unequal)
        61
    """
    return degrees_of_freedom(rows**2)


def jackknifed(residuals: FloatArray, rows: FloatArray) -> FloatArray:
    r"""Return residuals :math:`U_f (1 - 1/F) / (1 - n_f / n)`; clusters of one size keep theirs.

    A large cluster pulls the estimate towards itself, so its residual is too small. The squares of
    these residuals, summed and times F / (F - 1), are the variance of the jackknife.

    Args:
        residuals: (F,) of two or more clusters with rows.
        rows: (F,) number of rows of each, above 0.

    References:
        Bell and McCaffrey, "Bias reduction in standard errors for linear regression with
        multi-stage samples", Survey Methodology 28, 2002; MacKinnon, Nielsen and Webb, "Fast and
        reliable jackknife and bootstrap methods for cluster-robust inference", Journal of Applied
        Econometrics 38, 2023.

    Examples:
        >>> import numpy as np
        >>> jackknifed(np.array([1.0, -1.0]), np.array([3.0, 1.0]))
        array([ 2.        , -0.66666667])
    """
    return np.asarray(residuals * ((1 - 1 / rows.size) / (1 - rows / rows.sum())))


def pooled_design_effect(sums: FloatArray, squares: FloatArray, rows: FloatArray) -> float:
    r"""Return the design effect of a mean by an intraclass correlation of all clusters together.

    .. math:: deff = 1 + \left(\frac{\sum_f n_f^2}{n} - 1\right) ICC, \quad
              ICC = \frac{MSB - MSW}{MSB + (n_0 - 1)\, MSW}, \quad
              n_0 = \frac{n - \sum_f n_f^2 / n}{F - 1}

    with the mean squares between and within clusters of a one-way analysis of variance. A variance
    from residuals of clusters takes a large cluster for what it shows. If a rare event has not hit
    one yet, that variance is far too small; the small clusters show how much the rows of a cluster
    depend on each other.

    Args:
        sums: (F,) sum of each cluster.
        squares: (F,) sum of the squares of its rows; for rows of 0 and 1, their sum.
        rows: (F,) number of its rows, above 0.

    Returns:
        A number, 1 or more; 1 for clusters of one size, whose residuals need no help, and for rows
        that are all alike.

    References:
        Kish, "Survey sampling", 1965, section 5.4. Donner, "A review of inference procedures for
        the intraclass correlation coefficient in the one-way random effects model", International
        Statistical Review 54, 1986. Ridout, Demetrio and Firth, "Estimating intraclass correlation
        for binary data", Biometrics 55, 1999.

    Examples:
        >>> import numpy as np
        >>> rows = np.array([10.0, 2.0, 2.0, 2.0])
        >>> right = np.array([10.0, 2.0, 0.0, 2.0])  # the members of a family agree
        >>> pooled_design_effect(right, right, rows)
        7.0
    """
    if rows.size < 2 or float(np.ptp(rows)) == 0:
        return 1.0
    excess = float((rows**2).sum() / rows.sum()) - 1
    return 1 + excess * max(0.0, intraclass_correlation(sums, squares, rows))


def intraclass_correlation(sums: FloatArray, squares: FloatArray, rows: FloatArray) -> float:
    """Return the correlation ICC of two rows of a cluster; see `pooled_design_effect`.

    Args:
        sums: (F,) sum of each cluster.
        squares: (F,) sum of the squares of its rows.
        rows: (F,) number of its rows, above 0.

    Returns:
        At most 1, below 0 for rows that contrast; 0 for one cluster, for clusters of one row, and
        for rows that are all alike.

    Examples:
        >>> import numpy as np
        >>> two, ones = np.array([2.0, 0.0]), np.array([1.0, 1.0])
        >>> intraclass_correlation(two, two, np.array([2.0, 2.0]))
        1.0
        >>> intraclass_correlation(ones, ones, np.array([2.0, 2.0]))
        -1.0
    """
    n, clusters = float(rows.sum()), rows.size
    if clusters < 2 or n <= clusters:
        return 0.0
    mean = float(sums.sum()) / n
    between = float((rows * (sums / rows - mean) ** 2).sum()) / (clusters - 1)
    within = max(0.0, float((squares - sums**2 / rows).sum())) / (n - clusters)
    typical = (n - float((rows**2).sum()) / n) / (clusters - 1)
    total = between + (typical - 1) * within
    return min(1.0, (between - within) / total) if total > 0 else 0.0


def pooled_variance(values: FloatArray, cluster: IntArray, n_clusters: int) -> float:
    r"""Return the variance of the sum of rows: that of independent rows times the design effect.

    .. math:: V = n\, s^2\, deff, \quad s^2 = \frac{1}{n - 1} \sum_i (x_i - \bar x)^2

    with deff of `pooled_design_effect`.

    Args:
        values: (n,) finite numbers.
        cluster: (n,) code of the cluster of each row, in 0..n_clusters-1.
        n_clusters: Number of codes.

    Returns:
        The variance; 0 for clusters of one size, or fewer than two rows.

    Examples:
        >>> import numpy as np
        >>> rows = np.array([1.0] * 10 + [1.0, 1.0, 0.0, 0.0, 1.0, 1.0])
        >>> variance = pooled_variance(rows, np.repeat([0, 1, 2, 3], [10, 2, 2, 2]), 4)
        >>> round(variance, 2), round(16 * float(rows.var(ddof=1)) * 7, 2)
        (13.07, 13.07)
    """
    count = np.bincount(cluster, minlength=n_clusters).astype(np.float64)
    present = count > 0
    if values.size < 2 or float(np.ptp(count[present])) == 0:
        return 0.0
    sums, squares = (
        np.bincount(cluster, weights, n_clusters)[present].astype(np.float64)
        for weights in (values, values**2)
    )
    return (
        values.size
        * float(values.var(ddof=1))
        * pooled_design_effect(sums, squares, count[present])
    )


def concentration(rows: FloatArray) -> ClusterText | None:
    """Say how few clusters have more than a quarter of the rows; None if they are not few.

    Few are fewer than five, and at most half as many as clusters of one size would be.

    Args:
        rows: (F,) number of rows of each cluster, 0 or more.

    Examples:
        >>> import numpy as np
        >>> concentration(np.array([30.0] + [2.0] * 35))
        '1 family has 30% of the items'
        >>> concentration(np.full(12, 2.0))
    """
    total, clusters = float(rows.sum()), int(np.count_nonzero(rows))
    largest = np.sort(rows)[::-1][: FEWEST - 1]
    few = np.flatnonzero(np.cumsum(largest) > _LARGE_SHARE * total)
    if not few.size or (int(few[0]) + 1) * _FEW_OF > clusters:
        return None
    count, share = int(few[0]) + 1, float(largest[: few[0] + 1].sum()) / total
    have = "1 {cluster} has" if count == 1 else f"{count} {{clusters}} have"
    return ClusterText(f"{have} {share:.0%} of the items")


def clusters_for(clusters: int, error: float, largest: float) -> int | None:
    """Return with how many clusters a standard error would be no larger than a size.

    Args:
        clusters: number of clusters that the error comes from; it falls as the root of this number.
        error: the standard error.
        largest: the size, of at least 0.

    Returns:
        Clusters; None if a million would not do.

    Examples:
        >>> clusters_for(100, 0.02, 0.01)
        400
    """
    needed = clusters * (error / largest) ** 2 if largest else math.inf
    return math.ceil(needed) if needed <= _MOST_CLUSTERS else None


def dealt_folds(sizes: IntArray, folds: int) -> IntArray:
    """Deal units into folds, the largest first, each to the fold with the fewest items.

    Args:
        sizes: (U,) number of items of each unit, such as a source family.
        folds: number of folds, 1 or more.

    Returns:
        (U,) the fold of each unit, from 0. Ties go to the first unit and to the first fold.

    Examples:
        >>> dealt_folds(np.array([1, 5, 3, 2]), 2)
        array([0, 0, 1, 1])
    """
    loads = np.zeros(folds, dtype=np.int64)
    fold = np.zeros(len(sizes), dtype=np.int64)
    for unit in np.argsort(-sizes, kind="stable"):
        fold[unit] = loads.argmin()
        loads[fold[unit]] += sizes[unit]
    return fold


# Largest label, as a multiple of the number of rows, up to which integers are counted.
_DENSE: Final = 4


def check_outcomes(
    correct_a: npt.ArrayLike, correct_b: npt.ArrayLike
) -> tuple[BoolArray, BoolArray]:
    """Return both as bool arrays of one shape (n,)."""
    checked = []
    for name, correct in (("correct_a", correct_a), ("correct_b", correct_b)):
        array: npt.NDArray[Any] = np.asarray(correct)
        if array.ndim != 1:
            raise ValueError(f"{name}: expected shape (n,), got {array.shape}")
        if array.dtype != np.bool_ and array.size:
            raise ValueError(f"{name}: expected dtype bool, got {array.dtype}")
        checked.append(array.astype(np.bool_, copy=False))
    if checked[0].size != checked[1].size:
        raise ValueError(
            f"expected the same items in both runs, got {checked[0].size} and {checked[1].size}"
        )
    return checked[0], checked[1]


def check_cluster(cluster: npt.ArrayLike, n_clusters: int, n: int) -> IntArray:
    """Return cluster codes as int64 (n,) after checking that they lie in 0..n_clusters-1."""
    index: npt.NDArray[np.generic] = np.asarray(cluster)
    if index.shape != (n,) or (index.dtype.kind not in "iu" and n):
        raise ValueError(f"cluster: expected integers of shape ({n},), got shape {index.shape}")
    codes = index.astype(np.int64, copy=False)
    if n and not (codes.min() >= 0 and codes.max() < n_clusters):
        raise ValueError(
            f"cluster: expected codes in 0..{n_clusters - 1}, got {codes.min()}..{codes.max()}"
        )
    return codes


def cluster_codes(cluster: npt.ArrayLike, n: int) -> tuple[IntArray, int]:
    """Return labels of any sortable dtype as codes (n,) in 0..F-1, in their order, and F."""
    labels: npt.NDArray[Any] = np.asarray(cluster)
    if labels.shape != (n,):
        raise ValueError(f"cluster: expected shape ({n},), got {labels.shape}")
    if labels.dtype.kind in "iu" and n and labels.min() >= 0 and labels.max() < _DENSE * n:
        # Counting finds the codes of integers without the sort that takes most of the time.
        present = np.bincount(labels.astype(np.int64)) > 0
        return (np.cumsum(present) - 1)[labels], int(present.sum())
    names, codes = np.unique(labels, return_inverse=True)
    return codes.astype(np.int64), names.size


def cluster_leads(
    correct_a: npt.ArrayLike, correct_b: npt.ArrayLike, cluster: npt.ArrayLike
) -> tuple[IntArray, IntArray]:
    """Return per cluster by how many right items A leads (below 0: trails), and its items."""
    a, b = check_outcomes(correct_a, correct_b)
    codes, clusters = cluster_codes(cluster, a.size)
    only_a = np.bincount(codes[a & ~b], minlength=clusters)
    only_b = np.bincount(codes[~a & b], minlength=clusters)
    return only_a - only_b, np.bincount(codes, minlength=clusters)
