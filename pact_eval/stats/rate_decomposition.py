"""Decomposition of a difference of rates: another mix of groups, or other rates within them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.linearised import Linearisation, linear_inference


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
