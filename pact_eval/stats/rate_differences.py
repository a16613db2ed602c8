"""The difference of two rates: a score interval for few clusters, and its decomposition.

The interval is of two rates of the same rows. The decomposition says what comes of another mix of
groups, and what of other rates within them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.stats._quantiles import border, t_quantile, t_tail
from pact_eval.stats.clusters import (
    check_cluster,
    concentration,
    degrees_of_freedom,
    effective_clusters,
    jackknifed,
    pooled_variance,
)
from pact_eval.stats.estimate import NO_ROWS, ONE_CLUSTER, ClusterText, Estimate, Method
from pact_eval.stats.linearised import Linearisation, linear_inference
from pact_eval.stats.paired_tests import flip_mid_p

_ROUNDING = 1e-12
_HALVINGS = 55
# Rows by which clusters lead, in all, up to which the sign flip is computed.
_MOST_LEADS = 5_000


@dataclass(frozen=True)
class PairedRates:
    r"""Interval and test of a difference of rates over the same rows, which form clusters.

    With the share b of rows that count only in A, the share c that count only in B, and the
    effective number of rows n* of `paired_rates`, the interval of :math:`d = b - c` holds every
    difference :math:`\Delta` that the score test does not reject (Tango 1998), with Student's t
    in place of z:

    .. math:: \sqrt{n^*}\; \frac{|d - \Delta|}{\sqrt{2 q + \Delta (1 - \Delta)}}
              \le t_{(1 + confidence) / 2}

    where t has `degrees` degrees of freedom, and q is the estimate of the probability of c under
    :math:`\Delta`: the larger root of
    :math:`2 q^2 + q\,[(2 - b + c) \Delta - b - c] = c\,\Delta (1 - \Delta)`. The interval lies in
    [-1, 1] and always has a width: no row in which the runs differ is compatible with a
    difference.

    Of no difference, the sign flip over clusters must be able to convince as well: if its mid-p
    value is above 1 - confidence, the interval reaches to 0. With few clusters that differ, the
    score test alone rejects too often.

    Attributes:
        value: d, in [-1, 1].
        differing: b + c, a share in [0, 1].
        n_effective: n*, above 0.
        n: Rows.
        clusters: Clusters, F.
        degrees: Degrees of freedom of t: F - 1 for clusters of one size, fewer otherwise.
        flip_p: P-value of the sign flip over clusters; 0 leaves it out.
        concentration: The few clusters that have more than a quarter of the rows, if there are.

    References:
        Tango, "Equivalence test and confidence interval for the difference in proportions for the
        paired-sample design", Statistics in Medicine 17, 1998. For n* and t: Korn and Graubard,
        Survey Methodology 1998.

    Examples:
        >>> from pact_eval.stats.rate_differences import PairedRates
        >>> tango = PairedRates(-4 / 20, 8 / 20, n_effective=20, n=20, clusters=10**6,
        ...     degrees=10**6).estimate()
        >>> round(tango.value, 3), round(tango.low, 4), round(tango.high, 4)
        (-0.2, -0.457, 0.0858)
    """

    value: float
    differing: float
    n_effective: float
    n: int
    clusters: int
    degrees: int
    flip_p: float = 0.0
    concentration: ClusterText | None = None

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return b - c with its interval; no interval from one cluster."""
        method = Method("score interval", " (differences of rates)", confidence)
        low, high, reason = math.nan, math.nan, None
        if self.clusters < 2:
            reason = ONE_CLUSTER if self.clusters else NO_ROWS
        else:
            t = t_quantile((1 + confidence) / 2, self.degrees)
            low = -_upper_end(-self.value, self.differing, self.n_effective, t)
            high = _upper_end(self.value, self.differing, self.n_effective, t)
            if self.p_value() > 1 - confidence:
                low, high = min(low, 0.0), max(high, 0.0)
        n, clusters = self.n, self.clusters
        return Estimate(self.value, low, high, n, clusters, method, reason, self.concentration)

    def p_value(self) -> float:
        """Return the level at which the interval ends at 0; NaN from one cluster."""
        if self.clusters < 2:
            return math.nan
        if self.differing == 0:
            return 1.0
        score = self.value * math.sqrt(self.n_effective / self.differing)
        return max(2 * t_tail(score, self.degrees), self.flip_p)


def paired_rates(lead: npt.ArrayLike, cluster: npt.ArrayLike, n_clusters: int) -> PairedRates:
    r"""Count how often two rates differ, and how many independent rows that is worth.

    .. math:: n^* = \frac{b + c - d^2}{V}, \quad
              V = \frac{F}{F - 1} \sum_f \frac{(s_f - d\, n_f)^2}{n^2}

    V is the variance of the difference over the F clusters, with the lead :math:`s_f` of cluster
    f; if clusters differ in size, it is that of the jackknife, see `jackknifed`, and at least that
    of independent rows times their `pooled_design_effect`. If all clusters
    have the same lead (none, say), V is 0 and :math:`n^* = n^2 / \sum_f n_f^2`, as in
    `effective_rows`. Unlike there, a design effect below 1 is used: with many clusters, the
    interval is that of V.

    Args:
        lead: (n,) what a row counts in A minus what it counts in B: -1, 0 or 1, or the mean of
            such leads over seeds.
        cluster: (n,) cluster code of each row, in 0..n_clusters-1; clusters without rows do not
            count.
        n_clusters: Number of clusters.

    Raises:
        ValueError: The shapes do not fit, or a lead is not in [-1, 1].

    Examples:
        >>> from pact_eval.stats.rate_differences import paired_rates
        >>> rates = paired_rates([1, 0, 0, -1, 1, 1, 0, 0], [0, 0, 1, 1, 2, 2, 3, 3], 4)
        >>> rates.value, rates.differing, round(rates.n_effective, 2)
        (0.25, 0.5, 4.2)
    """
    leads = np.asarray(lead, dtype=np.float64)
    if leads.ndim != 1 or not (np.abs(leads) <= 1 + _ROUNDING).all():
        raise ValueError("lead: expected (n,) numbers in [-1, 1]")
    codes = check_cluster(cluster, n_clusters, len(leads))
    rows = np.bincount(codes, minlength=n_clusters).astype(np.float64)
    by_cluster, rows = np.bincount(codes, leads, n_clusters)[rows > 0], rows[rows > 0]
    n, clusters = leads.size, rows.size
    if clusters == 0:
        return PairedRates(math.nan, math.nan, math.nan, 0, 0, 1)
    value, differing = float(leads.mean()), float(np.abs(leads).mean())
    apart, degrees, flip_p = (
        by_cluster - value * rows,
        degrees_of_freedom(rows),
        _flip(by_cluster.astype(np.float64)),
    )
    if clusters < 2 or float(np.abs(apart).max()) <= _ROUNDING * float(rows.max()):
        n_effective = effective_clusters(rows)
    else:
        squares = clusters / (clusters - 1) * float((jackknifed(apart, rows) ** 2).sum())
        squares = max(squares, pooled_variance(leads, codes, n_clusters))
        n_effective = (differing - value**2) * n**2 / squares
    large = concentration(rows)
    return PairedRates(value, differing, n_effective, n, clusters, degrees, flip_p, large)


def _flip(leads: FloatArray) -> float:
    """Return the mid-p value of the sign flip of clusters, at least what an exact one can reach.

    It is computed for whole numbers that are not too many: the score test needs no help then.
    """
    differing = np.abs(leads[np.abs(leads) > _ROUNDING])
    least = min(1.0, 2.0 ** (1 - differing.size))
    if differing.sum() > _MOST_LEADS or not np.array_equal(differing, np.rint(differing)):
        return least
    return max(least, flip_mid_p(np.rint(leads).astype(np.int64)))


def _upper_end(value: float, differing: float, n: float, t: float) -> float:
    """Return the largest difference that the score test does not reject."""
    c = (differing - value) / 2

    def is_kept(difference: float) -> bool:
        linear = (2 - value) * difference - differing
        root = math.sqrt(max(0.0, linear**2 + 8 * c * difference * (1 - difference)))
        variance = (root - linear) / 2 + difference * (1 - difference)
        return not n * (difference - value) ** 2 > t**2 * variance

    return border(is_kept, value, 1.0, _HALVINGS)[1]


@dataclass(frozen=True)
class GroupShift:
    """One group of items in both samples.

    Attributes:
        group: its name.
        rows: items in A and in B.
        shares: share of the items of A and of B.
        rates: rate in A and in B; NaN without items.
        mix: what its other share adds to the difference, against the mean rate of both samples (see
            `mix_shift`); 0 if only one sample has the group.
        within: what its other rate adds; 0 likewise.
    """

    group: str
    rows: tuple[int, int]
    shares: tuple[float, float]
    rates: tuple[float, float]
    mix: float
    within: float


@dataclass(frozen=True)
class MixShift:
    """A difference of rates, B - A, in three parts that add up to it.

    Attributes:
        total: the difference.
        mix: due to other shares of the groups that both samples have.
        within: due to other rates within these groups.
        unshared: due to groups that only one sample has.
        groups: the parts of each group, sorted by name.
    """

    total: float
    mix: Estimate
    within: Estimate
    unshared: Estimate
    groups: tuple[GroupShift, ...]

    @property
    def same_groups(self) -> bool:
        """Whether both samples have every group."""
        return all(all(group.rows) for group in self.groups)


@dataclass(frozen=True)
class GroupedOutcomes:
    """The items of one sample.

    Attributes:
        positive: (n,) outcome of each item, 0 or 1.
        group: (n,) name of its group.
        cluster: (n,) label of its cluster, which both samples may have.
    """

    positive: FloatArray
    group: npt.NDArray[Any]
    cluster: npt.NDArray[Any]


def mix_shift(a: GroupedOutcomes, b: GroupedOutcomes) -> MixShift:
    r"""Decompose the difference of two rates by groups.

    With the shares :math:`w_g` of the groups C that both samples have, and the rates :math:`r_g`,

    .. math:: r_B - r_A =
        \underbrace{\sum_C (w_{gB} - w_{gA}) \frac{r_{gA} + r_{gB}}{2}}_{mix}
        + \underbrace{\sum_C (r_{gB} - r_{gA}) \frac{w_{gA} + w_{gB}}{2}}_{within}
        + \underbrace{(r_B - r_{C,B}) - (r_A - r_{C,A})}_{unshared}

    The first two parts are Kitagawa's (1955) symmetric decomposition: neither sample is the
    standard of the other. The shares of C add up to 1 in both samples, so a constant may be taken
    from the rates of the first sum. The part of one group is therefore centred:

    .. math:: mix_g = (w_{gB} - w_{gA}) (m_g - M), \quad m_g = \frac{r_{gA} + r_{gB}}{2}, \quad
        M = \sum_C \frac{w_{gA} + w_{gB}}{2} m_g

    It is 0 for every group if all rates are equal, whatever the shares are. Groups that only one
    sample has show no rate to compare, so they have their own part (Nopo 2008). Intervals are those
    of `linear_inference`: each part is linearised in the totals of the clusters of both samples.

    Args:
        a: items of the first sample.
        b: items of the second sample.

    Raises:
        ValueError: a sample is empty, or the shapes do not fit.

    References:
        Kitagawa, "Components of a difference between two rates", JASA 50, 1955. Nopo, "Matching as
        a tool to decompose wage gaps", Review of Economics and Statistics 90, 2008. Fortin,
        Lemieux and Firpo, "Decomposition methods in economics", Handbook of Labor Economics 4A,
        2011, for the family of Oaxaca-Blinder decompositions that this belongs to.

    Examples:
        >>> import numpy as np
        >>> easy_then_hard = np.array([1.0, 1.0, 1.0, 0.0])
        >>> a = GroupedOutcomes(easy_then_hard, np.array([0, 0, 0, 1]), np.arange(4))
        >>> b = GroupedOutcomes(easy_then_hard[[0, 3, 3, 3]], np.array([0, 1, 1, 1]), np.arange(4))
        >>> shift = mix_shift(a, b)
        >>> shift.total, shift.mix.value, shift.within.value
        (-0.5, -0.5, 0.0)
    """
    for sample in (a, b):
        n = len(sample.positive)
        if not n or not sample.group.shape == sample.cluster.shape == (n,):
            raise ValueError(f"expected a group and a cluster of 1 or more items, got {n:,} items")
    names, group = np.unique(np.concatenate([a.group, b.group]), return_inverse=True)
    clusters, codes = np.unique(np.concatenate([a.cluster, b.cluster]), return_inverse=True)
    samples = first, second = tuple(
        _Sample.of(outcomes.positive, of_sample, len(names))
        for outcomes, of_sample in zip((a, b), np.split(group, [len(a.group)]), strict=True)
    )
    shared = (first.rows > 0) & (second.rows > 0)
    added_by_a = first.influence(second, shared, -1.0)
    added_by_b = second.influence(first, shared, 1.0)
    # Groups that one sample lacks have no rate there; they count in the third part alone.
    rate_a, rate_b = (np.where(shared, sample.rates, 0.0) for sample in samples)
    share_a, share_b = (sample.shares_within(shared) for sample in samples)
    middle, weight = (rate_a + rate_b) / 2, (share_a + share_b) / 2
    # Shares add up to 1, so the mean does not change the sum; a part is then that of its group.
    mix = (share_b - share_a) * np.where(shared, middle - (weight * middle).sum(), 0.0) + 0.0
    within = (rate_b - rate_a) * weight
    total = second.rate - first.rate
    n = len(a.positive) + len(b.positive)

    def estimate(name: str, value: float) -> Estimate:
        added = np.concatenate([added_by_a[name], added_by_b[name]])
        linear = Linearisation.of_rows(added, codes, len(clusters), 1.0 / n)
        return linear_inference(value, linear, n=n, outer=True).estimate()

    unshared = 0.0 if shared.all() else total - float(mix.sum()) - float(within.sum())
    return MixShift(
        total=total,
        mix=estimate("mix", float(mix.sum())),
        within=estimate("within", float(within.sum())),
        unshared=estimate("unshared", unshared),
        groups=tuple(
            GroupShift(
                group=str(name),
                rows=(int(first.rows[at]), int(second.rows[at])),
                shares=(float(first.shares[at]), float(second.shares[at])),
                rates=(float(first.rates[at]), float(second.rates[at])),
                mix=float(mix[at]),
                within=float(within[at]),
            )
            for at, name in enumerate(names)
        ),
    )


@dataclass(frozen=True, eq=False)
class _Sample:
    """One sample, with the totals of its groups."""

    positive: FloatArray
    group: IntArray
    rows: FloatArray
    rates: FloatArray
    rate: float

    @classmethod
    def of(cls, positive: FloatArray, group: IntArray, groups: int) -> _Sample:
        rows = np.bincount(group, minlength=groups).astype(np.float64)
        right = np.bincount(group, positive, groups)
        with np.errstate(invalid="ignore"):
            rates = right / rows
        return cls(positive, group, rows, rates, float(positive.mean()))

    @property
    def shares(self) -> FloatArray:
        return np.asarray(self.rows / self.rows.sum())

    def shares_within(self, shared: BoolArray) -> FloatArray:
        """Return the shares of the shared groups among themselves; 0 elsewhere."""
        kept = np.where(shared, self.rows, 0.0)
        return kept / kept.sum() if kept.any() else kept

    def influence(self, other: _Sample, shared: BoolArray, sign: float) -> dict[str, FloatArray]:
        """Return (n,) what each item of this sample adds to each part.

        Args:
            other: the other sample.
            shared: (groups,) whether both samples have a group.
            sign: 1 for B, -1 for A.
        """
        y, group = self.positive, self.group
        counted = shared[group]
        kept = max(float(counted.sum()), 1.0)
        share, share_other = self.shares_within(shared), other.shares_within(shared)
        rate, rate_other = (np.where(shared, sample.rates, 0.0) for sample in (self, other))
        rate_within = float((share * rate).sum())
        with np.errstate(divide="ignore"):
            of_rate = np.where(counted, (y - rate[group]) / self.rows[group], 0.0)

        def of_share(weight: FloatArray) -> FloatArray:
            mean = float((share * weight).sum())
            return np.where(counted, (weight[group] - mean) / kept, 0.0)

        # The other sample minus this one, so `sign` turns it into B - A.
        gap_rate, gap_share = sign * (rate - rate_other), sign * (share - share_other)
        mix = sign * of_share((rate + rate_other) / 2) + of_rate * (gap_share / 2)[group]
        within = of_share(gap_rate / 2) + sign * of_rate * ((share + share_other) / 2)[group]
        all_rows = (y - self.rate) / y.size
        shared_rows = np.where(counted, (y - rate_within) / kept, 0.0)
        return {"mix": mix, "within": within, "unshared": sign * (all_rows - shared_rows)}
