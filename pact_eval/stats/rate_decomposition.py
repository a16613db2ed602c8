"""Decomposition of a difference of rates: another mix of groups, or other rates within them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray, IntArray
from pact_eval.stats._paired_arrays import check_cluster
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.linearised import Linearisation, linear_inference

_BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class GroupShift:
    """One group of items in both samples.

    Attributes:
        group: its code.
        rows: items in A and in B.
        shares: share of the items of A and of B.
        rates: rate in A and in B; NaN without items.
        mix: what its other share adds to the difference, against the mean rate of both samples (see
            `mix_shift`); 0 if only one sample has the group.
        within: what its other rate adds; 0 likewise.
    """

    group: int
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
        groups: the parts of each group, by code.
    """

    total: float
    mix: Estimate
    within: Estimate
    unshared: Estimate
    groups: tuple[GroupShift, ...]


@dataclass(frozen=True)
class GroupedOutcomes:
    """The items of one sample.

    Attributes:
        positive: (n,) outcome of each item, 0 or 1.
        group: (n,) code of its group, from 0.
        cluster: (n,) code of its cluster, in codes that both samples share.
    """

    positive: FloatArray
    group: IntArray
    cluster: IntArray


def mix_shift(a: GroupedOutcomes, b: GroupedOutcomes, *, groups: int, clusters: int) -> MixShift:
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
        groups: number of groups.
        clusters: number of clusters of both samples together.

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
        >>> shift = mix_shift(a, b, groups=2, clusters=4)
        >>> shift.total, shift.mix.value, shift.within.value
        (-0.5, -0.5, 0.0)
    """
    samples = tuple(_Sample.of(outcomes, groups, clusters) for outcomes in (a, b))
    first, second = samples
    shared = (first.rows > 0) & (second.rows > 0)
    added_by_a = first.influence(second, shared, -1.0)
    added_by_b = second.influence(first, shared, 1.0)
    codes = np.concatenate([a.cluster, b.cluster])
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
        linear = Linearisation.of_rows(added, codes, clusters, 1.0 / n)
        return linear_inference(value, linear, n=n, outer=True).estimate()

    unshared = 0.0 if shared.all() else total - float(mix.sum()) - float(within.sum())
    return MixShift(
        total=total,
        mix=estimate("mix", float(mix.sum())),
        within=estimate("within", float(within.sum())),
        unshared=estimate("unshared", unshared),
        groups=tuple(
            GroupShift(
                group=group,
                rows=(int(first.rows[group]), int(second.rows[group])),
                shares=(float(first.shares[group]), float(second.shares[group])),
                rates=(float(first.rates[group]), float(second.rates[group])),
                mix=float(mix[group]),
                within=float(within[group]),
            )
            for group in range(groups)
        ),
    )


@dataclass(frozen=True, eq=False)
class _Sample:
    """One sample, with the totals of its groups."""

    of_rows: GroupedOutcomes
    rows: FloatArray
    rates: FloatArray
    rate: float

    @classmethod
    def of(cls, sample: GroupedOutcomes, groups: int, clusters: int) -> _Sample:
        n = len(sample.positive)
        check_cluster(sample.cluster, clusters, n)
        if not n or sample.group.shape != (n,):
            raise ValueError(f"expected one group for each of 1 or more items, got {n:,} items")
        rows = np.bincount(sample.group, minlength=groups).astype(np.float64)
        right = np.bincount(sample.group, sample.positive, groups)
        with np.errstate(invalid="ignore"):
            rates = right / rows
        return cls(sample, rows, rates, float(sample.positive.mean()))

    @property
    def shares(self) -> FloatArray:
        return np.asarray(self.rows / self.rows.sum())

    def shares_within(self, shared: _BoolArray) -> FloatArray:
        """Return the shares of the shared groups among themselves; 0 elsewhere."""
        kept = np.where(shared, self.rows, 0.0)
        return kept / kept.sum() if kept.any() else kept

    def influence(self, other: _Sample, shared: _BoolArray, sign: float) -> dict[str, FloatArray]:
        """Return (n,) what each item of this sample adds to each part.

        Args:
            other: the other sample.
            shared: (groups,) whether both samples have a group.
            sign: 1 for B, -1 for A.
        """
        y, group = self.of_rows.positive, self.of_rows.group
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
