"""Test of a group: its mean against that of the other items, by permutations and by Student's t."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.stats._quantiles import t_tail
from pact_eval.stats.clusters import effective_clusters

_BLOCK: Final = 2_000_000
_ROUNDING: Final = 1e-9
# Sides that are drawn in all: a large sample gets fewer permutations.
_DRAWS: Final = 5_000_000
_MOST, _FEWEST = 9_999, 1_999

MOST_CLUSTERS: Final = 5_000
"""So many clusters of a side are tested: more would show differences that do not matter."""


@dataclass(frozen=True, slots=True)
class GroupTest:
    """Difference between the items of a group and all others, in one direction.

    Attributes:
        inside: Mean over the items of the group.
        outside: Mean over all other items.
        p_value: One-sided: larger of that of the permutations and that of Student's t.
        permutations: Number of permutations, without the one of the data.
    """

    inside: float
    outside: float
    p_value: float
    permutations: int


def group_permutation_test(
    values: FloatArray,
    cluster: IntArray,
    inside: BoolArray,
    *,
    higher: bool,
    rng: np.random.Generator,
    permutations: int | None = None,
) -> GroupTest:
    r"""Test whether the mean of a group is higher, or lower, than that of the other items.

    The items of a cluster on one side of the group are a unit, with the sum :math:`s_u` over
    :math:`n_u` items. Units change sides at random, and each time

    .. math:: T = \frac{m_1 - m_0}{\sqrt{v_1 + v_0}}, \quad
              v = \frac{U}{U - 1} \sum_u \frac{(s_u - m\, n_u)^2}{n^2}, \quad
              p = \frac{1 + \#\{b : T_b \ge T\}}{1 + B}

    is computed anew, with the mean m, items n and units U of each side. The T of the data takes
    both units of a cluster on two sides together. If the units are exchangeable, p is exact: the
    chance of :math:`p \le \alpha` is at most :math:`\alpha`. If the sides differ in spread or in
    the size of units, T makes it so for many units. For few, p is at least that of Student's t
    with Welch's degrees of freedom, of as many units of one size as those of a side are worth.

    Args:
        values: (n,) one value per item, finite.
        cluster: (n,) code of the cluster of each item, 0 or more.
        inside: (n,) whether an item belongs to the group; some do, and some do not.
        higher: Whether the group is expected to have the higher mean.
        rng: Source of the permutations, and of the clusters if a side has more than
            `MOST_CLUSTERS`.
        permutations: Their number B, at least 1; None makes 9,999, fewer of more than 500 units.

    Raises:
        ValueError: The shapes differ, or a side is empty.

    References:
        Janssen, "Studentized permutation tests for non-i.i.d. hypotheses and the generalized
        Behrens-Fisher problem", Statistics & Probability Letters 36, 1997. Chung and Romano,
        "Exact and asymptotically robust permutation tests", Annals of Statistics 41, 2013. Phipson
        and Smyth, "Permutation p-values should never be zero", Statistical Applications in
        Genetics and Molecular Biology 2010.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats.group_permutation import group_permutation_test
        >>> values, cluster = np.repeat([1.0, 0.0], 12), np.arange(24)
        >>> test = group_permutation_test(
        ...     values, cluster, values == 1, higher=True, rng=np.random.default_rng(0))
        >>> test.inside, test.outside, test.p_value
        (1.0, 0.0, 0.0001)
    """
    if not values.shape == cluster.shape == inside.shape:
        raise ValueError("values, cluster and inside: expected one shape (n,)")
    if inside.all() or not inside.any():
        raise ValueError("inside: expected some items of the group, and some others")
    means = float(values[inside].mean()), float(values[~inside].mean())
    units = _Units.of(values if higher else -values, cluster, inside, rng)
    statistic = units.observed()
    if permutations is None:
        permutations = max(_FEWEST, min(_MOST, _DRAWS // units.n.size))
    drawn = units.permuted(rng, permutations)
    # Equal statistics count, also if they were summed in another order.
    least = statistic - _ROUNDING * abs(statistic) if math.isfinite(statistic) else statistic
    by_permutation = (1 + int(np.count_nonzero(drawn >= least))) / (1 + permutations)
    p_value = max(by_permutation, _one_sided(statistic, units.degrees()))
    return GroupTest(*means, p_value, permutations)


def _one_sided(statistic: float, degrees: float) -> float:
    """Return the chance of a larger t; 0 without a spread, of which t knows nothing."""
    if not math.isfinite(statistic):
        return 0.0 if statistic > 0 else 1.0
    tail = t_tail(abs(statistic), degrees)
    return tail if statistic > 0 else 1 - tail


@dataclass(frozen=True, eq=False)
class _Units:
    """The items of each cluster on each side.

    Attributes:
        n: (U,) number of items.
        s: (U,) sum of their values, less the mean of all.
        inside: (U,) whether they belong to the group.
        cluster: (U,) code of their cluster.
    """

    n: FloatArray
    s: FloatArray
    inside: BoolArray
    cluster: IntArray

    @classmethod
    def of(
        cls, values: FloatArray, cluster: IntArray, inside: BoolArray, rng: np.random.Generator
    ) -> _Units:
        """Sum the items of clusters; of a side with too many clusters, some are drawn."""
        unit = 2 * cluster.astype(np.int64) + inside
        codes = 2 * (int(cluster.max()) + 1)
        n = np.bincount(unit, minlength=codes).astype(np.float64)
        s = np.bincount(unit, values - values.mean(), codes).astype(np.float64)
        s[np.abs(s) <= _ROUNDING * np.abs(values).max() * n] = 0.0
        has_group = n[1::2] > 0
        sides = has_group, ~has_group & (n[0::2] > 0)
        drawn = np.concatenate([_some(np.flatnonzero(side), rng) for side in sides])
        units = np.sort(np.concatenate([2 * drawn, 2 * drawn + 1]))
        units = units[n[units] > 0]
        return cls(n[units], s[units], units % 2 == 1, units // 2)

    def observed(self) -> float:
        """Return the T of the data, with both sides of a cluster together."""
        return float(self._statistics(self.inside.astype(np.float64)[None], self._shared())[0])

    def permuted(self, rng: np.random.Generator, permutations: int) -> FloatArray:
        """Return T if units change sides, (permutations,)."""
        statistics = []
        rows = max(1, _BLOCK // self.n.size)
        for start in range(0, permutations, rows):
            members = np.tile(self.inside, (min(rows, permutations - start), 1))
            drawn = np.asarray(rng.permuted(members, axis=1), dtype=np.float64)
            statistics.append(self._statistics(drawn))
        return np.concatenate(statistics)

    def degrees(self) -> float:
        """Return Welch's degrees of freedom, at least 1."""
        parts = []
        for side in (self.inside, ~self.inside):
            n, s = self.n[side], self.s[side]
            parts.append((_spread(n.size, n, s), max(1.0, effective_clusters(n) - 1)))
        total = sum(spread for spread, _ in parts)
        if total <= 0:
            return 1.0
        welch = total**2 / sum(spread**2 / degrees for spread, degrees in parts)
        of_clusters = np.bincount(self.cluster, self.n).astype(np.float64)
        return max(1.0, min(welch, effective_clusters(of_clusters) - 1))

    def _shared(self) -> float:
        """Return twice the covariance of the two means, over clusters on both sides."""
        both = np.flatnonzero(self.cluster[1:] == self.cluster[:-1])
        if not both.size:
            return 0.0
        apart = []
        for side, at in ((~self.inside, both), (self.inside, both + 1)):
            n, s = self.n[side], self.s[side]
            mean, units = s.sum() / n.sum(), n.size
            factor = math.sqrt(units / max(1, units - 1))
            apart.append(factor * (self.s[at] - mean * self.n[at]) / n.sum())
        return 2 * float(apart[0] @ apart[1])

    def _statistics(self, members: FloatArray, shared: float = 0.0) -> FloatArray:
        """Return T for (b, U) sides of units: 1 in the group, 0 outside."""
        columns = np.stack([self.n, self.s, self.s**2, self.s * self.n, self.n**2], axis=1)
        inside = members @ columns
        count = members.sum(axis=1)
        sides = (count, inside), (self.n.size - count, columns.sum(axis=0) - inside)
        means, variances = [], []
        for units, sums in sides:
            n, s, ss, sn, nn = sums.T
            mean = s / n
            square = ss - 2 * mean * sn + mean**2 * nn
            square[square <= _ROUNDING * ss] = 0.0
            means.append(mean)
            variances.append(units / np.maximum(1, units - 1) * square / n**2)
        difference = means[0] - means[1]
        difference[np.abs(difference) <= _ROUNDING * np.abs(self.s).max(initial=0.0)] = 0.0
        variance = variances[0] + variances[1] - shared
        variance[variance <= _ROUNDING * (variances[0] + variances[1])] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = difference / np.sqrt(variance)
        return np.asarray(np.where(difference == 0, 0.0, statistic))


def _spread(units: int, n: FloatArray, s: FloatArray) -> float:
    """Return the variance of the mean of a side."""
    mean = float(s.sum() / n.sum())
    return units / max(1, units - 1) * float(((s - mean * n) ** 2).sum()) / float(n.sum()) ** 2


def _some(clusters: IntArray, rng: np.random.Generator) -> IntArray:
    if clusters.size <= MOST_CLUSTERS:
        return clusters
    return rng.choice(clusters, MOST_CLUSTERS, replace=False)
