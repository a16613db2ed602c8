"""Power of the exact McNemar test on a holdout, and the loss of power to clusters.

scipy is imported where it is called: `pact-eval report` computes no power, and would wait 0.2 s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray
from pact_eval.stats._paired_arrays import check_probability, cluster_codes
from pact_eval.stats._quantiles import normal_quantile
from pact_eval.stats.binomial import critical_count, p_value_below

# Numbers of differing items that together are less likely than this are left out.
_NEGLIGIBLE = 1e-12

_BLOCK = 256


@dataclass(frozen=True)
class DesignEffect:
    """By how much clusters inflate the variance of a mean.

    Attributes:
        value: Variance over clusters divided by the variance as if rows were independent: 1 where
            they are, 2 where pairs are copies; NaN if undefined.
        n: Rows.
        clusters: Clusters (families) that they form.
        n_effective: Independent rows that would say as much, n / max(value, 1); NaN with it.
        reason: None, or a sentence that says why it is undefined.
    """

    value: float
    n: int
    clusters: int
    n_effective: float
    reason: str | None = None


@dataclass(frozen=True)
class DetectableDifference:
    """The smallest difference in accuracy that so many items are likely to show.

    Attributes:
        value: True difference in accuracy, a fraction above 0; NaN if none is detectable.
        power: Chance to find a difference of `value` significant; NaN with it.
        n: Items.
        n_effective: Independent items that they are worth, an integer.
        discordance: Share of items that differ at `value`: the assumed share, or `value` itself
            where that is larger.
        level: Level of the test.
        method: The test and what it averages over, in words.
        reason: None, or a sentence that says why nothing is detectable, or why the assumed
            share of differing items was raised.
    """

    value: float
    power: float
    n: int
    n_effective: int
    discordance: float
    level: float
    method: str
    reason: str | None = None


def mcnemar_power(n: int, discordance: float, difference: float, *, level: float = 0.05) -> float:
    r"""Return the power of the exact two-sided McNemar test.

    Unconditional: over how many of n items differ, D, and who wins them. With the share
    :math:`\psi` of items that differ and the difference :math:`\delta` in accuracy,

    .. math:: \sum_d P[D = d] \; P[\min(B, d - B) \le k_d], \quad D \sim Binomial(n, \psi), \quad
              B \mid d \sim Binomial(d, (1 + \delta / \psi) / 2)

    where :math:`k_d` is the largest count whose p-value does not exceed the level. Values of D
    with a joint probability below 2e-12 are left out.

    Args:
        n: Independent items, 0 or more.
        discordance: Share of items that exactly one run gets right, in [0, 1].
        difference: True difference in accuracy, a fraction in [-discordance, discordance].
        level: Level of the test, in (0, 1).

    Returns:
        A probability; at a difference of 0 it is the true size of the test, at most `level`.

    Raises:
        ValueError: An argument is out of range.

    References:
        Duffy, "Asymptotic and exact power for the McNemar test and its analogue with R controls
        per case", Biometrics 1984.

    Examples:
        >>> from pact_eval.stats.power import mcnemar_power
        >>> round(mcnemar_power(324, discordance=0.176, difference=0.065), 3)
        0.773
        >>> mcnemar_power(5, discordance=1.0, difference=1.0)
        0.0
    """
    check_probability("level", level)
    if n < 0 or not 0 <= discordance <= 1 or not abs(difference) <= discordance:
        raise ValueError(
            "expected n >= 0 and |difference| <= discordance <= 1, got "
            f"n={n}, discordance={discordance}, difference={difference}"
        )
    return _DifferingItems.of(n, discordance, level).power(difference)


@dataclass(frozen=True)
class _DifferingItems:
    """Numbers of differing items that are likely, and what the test rejects with each of them.

    Attributes:
        share: Chance that an item differs.
        number: (m,) numbers of differing items.
        chance: (m,) chances of these numbers.
        most: (m,) the largest min(b, c) that is rejected; -1 for none.
    """

    share: float
    number: npt.NDArray[np.int64]
    chance: FloatArray
    most: FloatArray

    @classmethod
    def of(cls, n: int, share: float, level: float) -> _DifferingItems:
        if n * share <= _NEGLIGIBLE:
            return cls(share, np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))
        fewest, fewest_alike = (
            int(critical_count(n, rate, _NEGLIGIBLE)) + 1 for rate in (share, 1 - share)
        )
        number = np.arange(fewest, n - fewest_alike + 1)
        chance = np.diff(_at_most(np.r_[fewest - 1, number], n, share))
        return cls(share, number, chance, _largest_rejected(number, level))

    def power(self, difference: float) -> float:
        """Return the chance of a significant result."""
        if not self.number.size:
            return 0.0
        wins = (1 + difference / self.share) / 2
        rejected = _at_most(self.most, self.number, wins)
        rejected = rejected + _at_most(self.most, self.number, 1 - wins)
        return float(self.chance @ rejected)


def _largest_rejected(differing: npt.NDArray[np.int64], level: float) -> FloatArray:
    """Return the largest min(b, c) with a two-sided p-value of at most `level`; -1 for none.

    Args:
        differing: (m,) consecutive numbers of differing items.
        level: level of the test.
    """
    if not differing.size:
        return np.zeros(0)
    first, last = int(differing[0]) // _BLOCK, int(differing[-1]) // _BLOCK
    blocks = [_rejected_of_block(block, level) for block in range(first, last + 1)]
    return np.asarray(np.concatenate(blocks)[differing - first * _BLOCK], dtype=np.float64)


@lru_cache(maxsize=1_000)
def _rejected_of_block(block: int, level: float) -> FloatArray:
    """Return what `_largest_rejected` does of a block of numbers, which searches ask for often."""
    from scipy import special

    differing = np.arange(block * _BLOCK, (block + 1) * _BLOCK)
    most = np.ceil(np.nan_to_num(special.bdtrik(level / 2, differing, 0.5)))
    return np.asarray(most - (p_value_below(most, differing, 0.5) > level / 2), dtype=np.float64)


def _at_most(count: npt.ArrayLike, trials: npt.ArrayLike, rate: float) -> FloatArray:
    """Return the chances of at most `count` positive trials; the count may be -1."""
    chance = p_value_below(np.maximum(count, 0), trials, rate)
    return np.asarray(np.where(np.less(count, 0), 0.0, chance), dtype=np.float64)


def detectable_difference(
    n: int,
    discordance: float,
    *,
    design_effect: float = 1.0,
    power: float = 0.8,
    level: float = 0.05,
) -> DetectableDifference:
    r"""Find the smallest difference in accuracy that the exact McNemar test is likely to show.

    .. math:: \min \{\delta : power(n / \max(deff, 1), \max(\psi, \delta), \delta) \ge 0.8\}

    with `mcnemar_power`, which grows with :math:`\delta`. The share :math:`\psi` of items that
    differ is held at its assumed value while the difference grows, and is raised with it only
    where the difference could not fit in otherwise. A design effect below 1 is not counted in
    favour: it is mostly noise of its estimate.

    This plans, it does not excuse: the power of a difference that was seen is only its p-value in
    other words, and is not offered.

    Args:
        n: Items.
        discordance: Share of items that exactly one run gets right, observed or assumed.
        design_effect: Inflation of the variance by families, `design_effect(...).value`, 0 or
            more: it is 0 if the values of every family that differs cancel.
        power: Chance of a significant result that is asked for, above `level` and below 1.
        level: Level of the test.

    Returns:
        The difference, found to 1e-9. NaN, with a reason, where even runs that differ on every
        item would not be distinguished.

    Raises:
        ValueError: An argument is out of range.

    Examples:
        >>> from pact_eval.stats.power import detectable_difference
        >>> round(100 * detectable_difference(324, 0.176).value, 1)
        6.7
        >>> round(100 * detectable_difference(324, 0.176, design_effect=1.5).value, 1)
        8.2
        >>> detectable_difference(5, 0.2).reason
        'no difference is detectable with 5 independent items'
    """
    from pact_eval.stats._root import brent_root  # a report computes no power

    check_probability("level", level)
    check_probability("power", power)
    if n < 0 or not 0 <= discordance <= 1 or not 0 <= design_effect < math.inf:
        raise ValueError(
            "expected n >= 0, discordance in [0, 1] and a finite design_effect >= 0, got "
            f"{n}, {discordance} and {design_effect}"
        )
    if power <= level:
        raise ValueError(f"power: expected more than the level {level}, got {power}")
    n_effective = math.floor(n / max(design_effect, 1.0))
    method = f"exact McNemar over items, two-sided at {level:g}, power over all discordant counts"

    assumed = _DifferingItems.of(n_effective, discordance, level)

    def excess(delta: float) -> float:
        fits = delta <= discordance
        items = assumed if fits else _DifferingItems.of(n_effective, delta, level)
        return items.power(delta) - power

    if excess(1.0) < 0:
        reason = f"no difference is detectable with {n_effective} independent items"
        return DetectableDifference(
            math.nan, math.nan, n, n_effective, discordance, level, method, reason
        )
    value = brent_root(excess, 0.0, 1.0, xtol=1e-9)
    share, reached = max(discordance, value), excess(value) + power
    raised = f"more items must differ for it than the {discordance:.1%} assumed"
    return DetectableDifference(
        value,
        reached,
        n,
        n_effective,
        share,
        level,
        method,
        raised if share > discordance else None,
    )


def items_needed(
    difference: float,
    discordance: float,
    *,
    design_effect: float = 1.0,
    power: float = 0.8,
    level: float = 0.05,
) -> int:
    r"""Find how many items the exact McNemar test needs to show a difference in accuracy.

    .. math:: \lceil \max(deff, 1) \min \{m : power(m, \max(\psi, \delta), \delta) \ge 0.8\} \rceil

    with `mcnemar_power`. More items are assumed to be like those at hand: families of the same
    kind, and the same share of items on which the runs differ. The power of an exact test falls a
    little now and then as m grows, so the number may be a few items too small.

    Args:
        difference: True difference in accuracy, a fraction in (0, 1].
        discordance: Share of items that exactly one run gets right; `difference` if that is larger.
        design_effect: Inflation of the variance by families, `design_effect(...).value`, 0 or more.
        power: Chance of a significant result that is asked for, above `level` and below 1.
        level: Level of the test.

    Returns:
        The number of items.

    Raises:
        ValueError: An argument is out of range.

    References:
        Connett, Smith and McHugh, "Sample size and power for pair-matched case-control studies",
        Statistics in Medicine 1987, for the approximation from which the search starts.

    Examples:
        >>> from pact_eval.stats.power import items_needed
        >>> items_needed(0.02, 0.15)
        3028
        >>> items_needed(0.02, 0.15, design_effect=2.0)
        6056
    """
    check_probability("level", level)
    check_probability("power", power)
    if not 0 < difference <= 1 or not 0 <= discordance <= 1 or not 0 <= design_effect < math.inf:
        raise ValueError(
            "expected difference in (0, 1], discordance in [0, 1] and a finite design_effect >= 0, "
            f"got {difference}, {discordance} and {design_effect}"
        )
    if power <= level:
        raise ValueError(f"power: expected more than the level {level}, got {power}")
    share = max(discordance, difference)

    def enough(items: int) -> bool:
        return mcnemar_power(items, share, difference, level=level) >= power

    critical, beyond = normal_quantile(1 - level / 2), normal_quantile(power)
    spread = critical * math.sqrt(share) + beyond * math.sqrt(share - difference**2)
    # The exact test needs a few per cent more than the approximation says.
    low = high = math.floor((spread / difference) ** 2)
    while not enough(high):
        low, high = high, math.ceil(1.1 * high) + 1
    if low == high:
        low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return math.ceil(high * max(design_effect, 1.0))


def design_effect(values: npt.ArrayLike, cluster: npt.ArrayLike) -> DesignEffect:
    r"""Estimate by how much clusters inflate the variance of a mean: a ratio of variances.

    .. math:: deff = \frac{F / (F - 1) \sum_f (\sum_{i \in f} (x_i - \bar x))^2}
                          {n / (n - 1) \sum_i (x_i - \bar x)^2}

    For clusters of m rows it is 1 + (m - 1) times the intraclass correlation; the ratio needs
    neither equal clusters nor a model. For the difference of two accuracies, `values` is
    right under A minus right under B.

    Args:
        values: (n,) finite numbers or bools, one a row.
        cluster: (n,) family labels of any sortable dtype.

    Returns:
        The design effect and the rows that it leaves; NaN, with a reason, where the values do not
        vary or there are fewer than two clusters.

    Raises:
        ValueError: The values are not finite of shape (n,), or the shapes differ.

    References:
        Kish, "Survey sampling", 1965, section 8.2.

    Examples:
        >>> from pact_eval.stats.power import design_effect
        >>> effect = design_effect([1, 1, 0, 0, -1, -1, 0, 0], [0, 0, 1, 1, 2, 2, 3, 3])
        >>> round(effect.value, 2), round(effect.n_effective, 1)
        (2.33, 3.4)
    """
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 1 or not np.isfinite(rows).all():
        raise ValueError(f"values: expected finite numbers of shape (n,), got {rows.shape}")
    codes, clusters = cluster_codes(cluster, rows.size)
    if clusters < 2:
        reason = "one family: no variance between families" if clusters else "no rows"
        return DesignEffect(math.nan, rows.size, clusters, math.nan, reason)
    if (rows == rows[0]).all():
        return DesignEffect(math.nan, rows.size, clusters, math.nan, "the values do not vary")
    apart = rows - rows.mean()
    between = float((np.bincount(codes, weights=apart) ** 2).sum()) * clusters / (clusters - 1)
    within = float((apart**2).sum()) * rows.size / (rows.size - 1)
    effect = between / within
    return DesignEffect(effect, rows.size, clusters, rows.size / max(effect, 1.0))
