"""Permutation test of a slice: the mean of a group of items against that of the others."""

from dataclasses import dataclass

import numpy as np

from pact_eval._typing import BoolArray, FloatArray, IntArray

_BLOCK = 2_000_000


@dataclass(frozen=True, slots=True)
class SliceTest:
    """Difference between the items of a group and all others.

    Attributes:
        inside: Mean over the items of the group.
        outside: Mean over all other items.
        p_value: Share of permutations with a difference of at least this size; NaN if nothing can
            be permuted.
        permutations: Number of permutations, without the one of the data.
        clusters: Clusters that a permutation moves.
    """

    inside: float
    outside: float
    p_value: float
    permutations: int
    clusters: int


def slice_permutation_test(
    values: FloatArray,
    cluster: IntArray,
    inside: BoolArray,
    *,
    rng: np.random.Generator,
    permutations: int = 1_999,
) -> SliceTest:
    r"""Test whether the mean of a group differs from the mean of the other items.

    If every cluster lies inside or outside as a unit, clusters change places. Otherwise the
    membership changes places within clusters, and clusters of one side do not count. The chance of
    a p-value of at most :math:`\alpha` is at most :math:`\alpha` if membership tells nothing of the
    values: of a cluster in the first case, of an item in the second.

    .. math:: p = \frac{1 + \#\{b : |D_b| \ge |D|\}}{1 + B}

    Args:
        values: (n,) one value per item, finite.
        cluster: (n,) code of the cluster of each item, 0 or more.
        inside: (n,) whether an item belongs to the group; some do, and some do not.
        rng: Source of the permutations.
        permutations: Their number B, at least 1.

    Raises:
        ValueError: The shapes differ, or a side is empty.

    References:
        Phipson and Smyth, "Permutation p-values should never be zero", Statistical Applications in
        Genetics and Molecular Biology 2010.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats.slice_permutation import slice_permutation_test
        >>> values, cluster = np.repeat([1.0, 0.0], 12), np.arange(24)
        >>> test = slice_permutation_test(
        ...     values, cluster, values == 1, rng=np.random.default_rng(0))
        >>> test.inside, test.outside, test.p_value
        (1.0, 0.0, 0.0005)
    """
    if not values.shape == cluster.shape == inside.shape:
        raise ValueError("values, cluster and inside: expected one shape (n,)")
    if inside.all() or not inside.any():
        raise ValueError("inside: expected some items of the group, and some others")
    codes = np.unique(cluster, return_inverse=True)[1]
    n_inside = np.bincount(codes, weights=inside)
    sizes = np.bincount(codes)
    mixed = (n_inside > 0) & (n_inside < sizes)
    if mixed.any():
        kept = mixed[codes]
        values, codes, inside = (
            values[kept],
            np.unique(codes[kept], return_inverse=True)[1],
            inside[kept],
        )
        differences = _within(values, codes, inside, rng, permutations)
        clusters = int(mixed.sum())
    else:
        sums: FloatArray = np.bincount(codes, weights=values).astype(np.float64)
        differences = _between(sums, sizes, n_inside > 0, rng, permutations)
        clusters = int(sizes.size)
    means = float(values[inside].mean()), float(values[~inside].mean())
    # Equal differences count, also if they were summed in another order.
    extreme = np.count_nonzero(np.abs(differences) >= abs(means[0] - means[1]) - 1e-12)
    return SliceTest(*means, (1 + int(extreme)) / (1 + permutations), permutations, clusters)


def _between(
    sums: FloatArray,
    sizes: IntArray,
    inside: BoolArray,
    rng: np.random.Generator,
    permutations: int,
) -> FloatArray:
    """Return differences of means if clusters change places, (permutations,)."""
    differences = []
    rows = max(1, _BLOCK // inside.size)
    for start in range(0, permutations, rows):
        members = np.tile(inside, (min(rows, permutations - start), 1))
        members = rng.permuted(members, axis=1).astype(np.float64)
        n, total = members @ sizes, members @ sums
        differences.append(total / n - (sums.sum() - total) / (sizes.sum() - n))
    return np.concatenate(differences)


def _within(
    values: FloatArray,
    codes: IntArray,
    inside: BoolArray,
    rng: np.random.Generator,
    permutations: int,
) -> FloatArray:
    """Return differences of means if membership changes places within clusters, (permutations,)."""
    order = np.argsort(codes, kind="stable")
    values, codes, inside = values[order], codes[order], inside[order]
    inside_n, total = int(inside.sum()), values.sum()
    differences = []
    rows = max(1, _BLOCK // values.size)
    for start in range(0, permutations, rows):
        keys = rng.random((min(rows, permutations - start), values.size))
        # Clusters stay where they are: the random key decides within a cluster alone.
        shuffled = inside[np.lexsort((keys, np.broadcast_to(codes, keys.shape)))]
        sums = shuffled.astype(np.float64) @ values
        differences.append(sums / inside_n - (total - sums) / (values.size - inside_n))
    return np.concatenate(differences)
