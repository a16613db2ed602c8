r"""The percentile bootstrap of many clusters, drawn as counts of kinds of clusters.

A resample of F clusters matters to a ratio of sums only through how often each *kind* of cluster
(its numerator and denominator) is drawn, and those counts are multinomial:

.. math:: N^* \sim Multinomial(F; N_k / F), \quad
          \theta^* = \sum_k N^*_k\, s_k \Big/ \sum_k N^*_k\, m_k

That is the distribution of `bootstrap_intervals`, at a cost of kinds times resamples instead of
clusters times resamples. Sums of outcomes (accuracy, pairs, flips, ...) are of few kinds, and the
equation is exact. Sums of real numbers (NLL, Brier, ...) are of as many kinds as there are
clusters; they are put into bins of equal width h, a bin stands for its mean, and what a draw from
it deviates from that mean is added as a normal number of the same variance,

.. math:: \theta^* = \Big(\sum_k N^*_k\, \bar s_k + \sqrt{\textstyle\sum_k N^*_k\, v_k}\; Z\Big)
          \Big/ \sum_k N^*_k\, m_k, \quad Z \sim N(0, 1)

so that mean and variance of a resample are exact. Given N*, the numerator of the plain bootstrap
is a sum of independent deviations below h from the bin means. By Goldstein's bound its L1
(Wasserstein) distance from the normal sum is at most :math:`\sum E|r|^3 / \sum E r^2 \le h`, so
that the two bootstrap distributions of the ratio lie within :math:`h / (F \min m)` of each other:
quantiles, averaged over all levels, differ by no more. A million NLLs between 0 and 25 nats in 256
bins: 1e-7 nats, where the interval is some 1e-3 wide.

References: Efron and Tibshirani, "An introduction to the bootstrap", 1993, chapter 13. Goldstein,
"Bounds on the constant in the mean central limit theorem", Annals of Probability 2010.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pact_eval.stats._paired_arrays import FloatArray, IntArray, check_cluster
from pact_eval.stats.bootstrap import cluster_sums, percentile_estimate
from pact_eval.stats.estimate import Estimate

__all__ = ["mean_interval", "ratio_interval", "resampled_label_counts"]

_BINS = 256
# Denominators beyond these would make too many kinds of them; they are sizes of families.
_MOST_DENOMINATORS = 64
# Counts drawn at a time (32 MiB).
_BATCH_NUMBERS = 2**22


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Kinds of clusters, by row.

    Attributes:
        number: clusters of each kind.
        top: mean numerator, over its finite part.
        variance: variance of the numerator within the kind; 0 where all are equal.
        bottom: denominator.
        flags: (kinds, 3) whether a numerator holds +inf, -inf, NaN.
    """

    number: IntArray
    top: FloatArray
    variance: FloatArray
    bottom: FloatArray
    flags: npt.NDArray[np.bool_]


def mean_interval(
    values: npt.ArrayLike,
    cluster: npt.ArrayLike | None = None,
    n_clusters: int | None = None,
    *,
    rng: np.random.Generator,
    resamples: int = 10_000,
    confidence: float = 0.95,
    bins: int = _BINS,
) -> Estimate:
    """Mean with a percentile bootstrap interval over clusters, for very many rows.

    Of a difference between two runs, `values` are the differences item by item.

    Args:
        values: (n,) numbers or bools, such as NLL in nats; infinities and NaN as in
            `ratio_statistic`.
        cluster: (n,) cluster code of each row, in 0..n_clusters-1; none makes every row its own.
        n_clusters: Number of clusters F, where `cluster` is given.
        rng: Source of the resamples.
        resamples: Number of resamples.
        confidence: Nominal coverage of the interval, in (0, 1).
        bins: Bins of the sums of clusters of one size, where these are of more values than that.

    Returns:
        The mean, in the unit of the values, and its interval, reasons as in `bootstrap_intervals`.

    Raises:
        ValueError: The shapes do not fit, or an argument is out of range.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats import mean_interval
        >>> nll = np.random.default_rng(1).exponential(size=100_000)
        >>> estimate = mean_interval(nll, rng=np.random.default_rng(2))
        >>> [round(end, 3) for end in (estimate.low, estimate.value, estimate.high)]
        [0.99, 0.996, 1.002]
    """
    rows = np.asarray(values, dtype=np.float64)
    return ratio_interval(
        rows,
        np.ones(rows.shape),
        cluster,
        n_clusters,
        rng=rng,
        resamples=resamples,
        confidence=confidence,
        bins=bins,
    )


def ratio_interval(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    cluster: npt.ArrayLike | None = None,
    n_clusters: int | None = None,
    *,
    rng: np.random.Generator,
    resamples: int = 10_000,
    confidence: float = 0.95,
    bins: int = _BINS,
) -> Estimate:
    """Ratio of sums with a percentile bootstrap interval over clusters, for very many rows.

    Args:
        numerator: (n,) values; infinities and NaN as in `ratio_statistic`.
        denominator: (n,) whole numbers, 0 or more, such as 1 for the rows of a subset.
        cluster: (n,) cluster code of each row, in 0..n_clusters-1; none makes every row its own.
        n_clusters: Number of clusters F, where `cluster` is given.
        rng: Source of the resamples.
        resamples: Number of resamples.
        confidence: Nominal coverage of the interval, in (0, 1).
        bins: Bins of the numerators of clusters of one denominator, where these are of more values
            than that.

    Returns:
        sum(numerator) / sum(denominator) and its interval, reasons as in `bootstrap_intervals`;
        exact in distribution where clusters are of few kinds, else to the bound stated above.

    Raises:
        ValueError: The shapes do not fit, a denominator is no whole number of 0 or more, clusters
            have more than 64 different denominators, or an argument is out of range.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats import ratio_interval
        >>> right, rng = np.arange(1000) % 5 > 0, np.random.default_rng(3)
        >>> estimate = ratio_interval(right, np.ones(1000), np.arange(1000) // 2, 500, rng=rng)
        >>> round(estimate.low, 3), estimate.value, estimate.clusters
        (0.778, 0.8, 500)
    """
    top = np.asarray(numerator, dtype=np.float64)
    bottom = np.asarray(denominator, dtype=np.float64)
    if top.ndim != 1 or top.shape != bottom.shape:
        raise ValueError(f"expected two equal shapes (n,), got {top.shape} and {bottom.shape}")
    if not (np.isfinite(bottom) & (bottom >= 0) & (bottom == np.floor(bottom))).all():
        raise ValueError("denominator: expected whole numbers, 0 or more")
    if bins < 1:
        raise ValueError(f"bins: expected at least 1, got {bins}")
    if (cluster is None) != (n_clusters is None):
        raise ValueError("expected cluster and n_clusters both, or neither")
    clusters = top.size if n_clusters is None else n_clusters
    kinds = _kinds(*_cluster_totals(top, bottom, cluster, clusters), bins)
    replicates = np.full(resamples, np.nan) if resamples > 0 else np.empty(0)
    if clusters > 1:
        for batch, drawn in _count_batches(kinds.number, resamples, rng):
            noise = rng.standard_normal(len(drawn)) if kinds.variance.any() else 0.0
            replicates[batch] = _ratio(kinds, drawn, noise)
    value = float(_ratio(kinds, kinds.number[None], 0.0)[0]) if clusters else math.nan
    return percentile_estimate(
        value, replicates, n=top.size, n_clusters=clusters, confidence=confidence
    )


def _cluster_totals(
    top: FloatArray, bottom: FloatArray, cluster: npt.ArrayLike | None, n_clusters: int
) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
    """Returns finite numerator, denominator and flags (F, 3) of each cluster."""
    finite = np.isfinite(top)
    odd = np.zeros((n_clusters, 3), dtype=np.bool_)
    if not finite.all():
        marks = np.column_stack([top == np.inf, top == -np.inf, np.isnan(top)])
        codes = np.arange(top.size) if cluster is None else np.asarray(cluster)
        odd = cluster_sums(marks, codes, n_clusters) > 0
        top = np.where(finite, top, 0.0)
    if cluster is None:
        return top, bottom, odd
    return cluster_sums(top, cluster, n_clusters), cluster_sums(bottom, cluster, n_clusters), odd


def _kinds(top: FloatArray, bottom: FloatArray, flags: npt.NDArray[np.bool_], bins: int) -> _Kinds:
    """Groups clusters: by denominator and flags, and by equal or nearly equal numerator."""
    strata = bottom.astype(np.int64) * 8 + flags @ np.array([1, 2, 4])
    parts = []
    for stratum in _distinct(strata):
        number, mean, variance = _grouped(np.sort(top[strata == stratum]), bins)
        columns = number, mean, variance, np.full(number.size, stratum // 8)
        parts.append((*columns, np.full(number.size, stratum % 8)))
    if not parts:
        nothing = np.zeros(0)
        return _Kinds(nothing.astype(int), nothing, nothing, nothing, np.zeros((0, 3), bool))
    number, mean, variance, below, code = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    bits = code[:, None] & np.array([1, 2, 4]) > 0
    return _Kinds(number, mean, variance, below.astype(np.float64), bits)


def _distinct(strata: IntArray) -> IntArray:
    found = np.unique(strata)
    if np.unique(found // 8).size > _MOST_DENOMINATORS:
        raise ValueError(
            f"denominator: expected clusters of at most {_MOST_DENOMINATORS} sizes, got "
            f"{np.unique(found // 8).size}; use bootstrap_intervals"
        )
    return found


def _grouped(rows: FloatArray, bins: int) -> tuple[IntArray, FloatArray, FloatArray]:
    """Returns number, mean and variance of groups of sorted values: equal ones, or bins of them."""
    starts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
    exact = starts.size <= bins
    if not exact:
        edges = np.linspace(rows[0], rows[-1], bins + 1)[1:-1]
        starts = np.unique(np.r_[0, np.searchsorted(rows, edges)])
        starts = starts[starts < rows.size]
    number = np.diff(starts, append=rows.size)
    if exact:
        return number, rows[starts], np.zeros(starts.size)
    mean = np.add.reduceat(rows, starts) / number
    # Deviations first: the difference of two mean squares would be mostly rounding.
    squares = np.square(rows - np.repeat(mean, number))
    return number, mean, np.add.reduceat(squares, starts) / number


def _ratio(kinds: _Kinds, drawn: npt.NDArray[np.integer], noise: FloatArray | float) -> FloatArray:
    """Returns (b,) ratios under (b, kinds) counts, and what infinities make of them."""
    counts = drawn.astype(np.float64)
    top = counts @ kinds.top + np.sqrt(counts @ kinds.variance) * noise
    below = counts @ kinds.bottom
    ratio: FloatArray = np.full(len(counts), np.nan)
    np.divide(top, below, out=ratio, where=below > 0)
    if kinds.flags.any():
        plus, minus, undefined = (counts @ kinds.flags.astype(np.float64)).T > 0
        ratio[plus & (below > 0)] = np.inf
        ratio[minus & (below > 0)] = -np.inf
        ratio[undefined | (plus & minus)] = np.nan
    return ratio


def _count_batches(
    number: IntArray, resamples: int, rng: np.random.Generator
) -> Iterator[tuple[slice, IntArray]]:
    """Yields counts (b, kinds): how often each kind was drawn."""
    step = max(1, _BATCH_NUMBERS // max(number.size, 1))
    share = number / number.sum()
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        yield slice(start, start + rows), rng.multinomial(int(number.sum()), share, size=rows)


def resampled_label_counts(
    label: npt.ArrayLike,
    n_labels: int,
    cluster: npt.ArrayLike,
    n_clusters: int,
    *,
    rng: np.random.Generator,
    resamples: int,
) -> FloatArray:
    """Draws how many rows of each label the resamples of the clusters hold.

    Statistics of rows that are of few labels (a bin of confidence and an outcome, say) are
    functions of these counts. Clusters of one row or two are drawn by kind, a label or an unordered
    pair of labels; with larger ones among them clusters are drawn one by one.

    Args:
        label: (n,) label of each row, in 0..n_labels-1.
        n_labels: Number of labels.
        cluster: (n,) cluster code of each row, in 0..n_clusters-1.
        n_clusters: Number of clusters F, one or more.
        rng: Source of the resamples.
        resamples: Number of resamples b.

    Returns:
        (b, n_labels) counts.

    Raises:
        ValueError: The shapes do not fit, or a label or a code is out of range.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats import resampled_label_counts
        >>> rng = np.random.default_rng(0)
        >>> resampled_label_counts([0, 1, 1], 2, [0, 0, 1], 2, rng=rng, resamples=3)
        array([[1., 2.],
               [1., 2.],
               [0., 2.]])
    """
    labels, codes = np.asarray(label), check_cluster(cluster, n_clusters, np.size(label))
    if labels.size and not (labels.min() >= 0 and labels.max() < n_labels):
        raise ValueError(f"label: expected 0..{n_labels - 1}, got {labels.min()}..{labels.max()}")
    counts = np.empty((resamples, n_labels))
    size = np.bincount(codes, minlength=n_clusters)
    if size.max(initial=0) > 2:
        for row in range(resamples):
            drawn = np.bincount(rng.integers(0, n_clusters, n_clusters), minlength=n_clusters)
            counts[row] = np.bincount(labels, weights=drawn[codes], minlength=n_labels)
        return counts
    kind, number = np.unique(_label_pairs(labels, n_labels, codes, size), return_counts=True)
    held = np.zeros((kind.size, n_labels + 1))
    for member in np.divmod(kind, n_labels + 1):
        np.add.at(held, (np.arange(kind.size), member), 1.0)
    for batch, drawn in _count_batches(number, resamples, rng):
        counts[batch] = (drawn.astype(np.float64) @ held)[:, :n_labels]
    return counts


def _label_pairs(
    labels: npt.NDArray[np.integer], n_labels: int, codes: IntArray, size: IntArray
) -> IntArray:
    """Returns (F,) the two labels of each cluster as one number; n_labels stands for none."""
    # One of the two labels and their sum give the other, without sorting any rows.
    last = np.full(size.size, n_labels, dtype=np.int64)
    last[codes] = labels
    total = np.bincount(codes, weights=labels, minlength=size.size).astype(np.int64)
    other = np.where(size == 2, total - last, n_labels)
    return np.minimum(last, other) * (n_labels + 1) + np.maximum(last, other)
