"""Power of the tests of two runs, of a rate and of a letter, for groups of items of one size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final

import numpy as np

from pact_eval._typing import FloatArray, IntArray
from pact_eval.stats._quantiles import border, t_quantile
from pact_eval.stats.estimate import FEWEST, LEVEL
from pact_eval.stats.linearised import LinearInference
from pact_eval.stats.proportions import p_value_below, rate_ends
from pact_eval.stats.rate_differences import PairedRates

MOST_GROUPS: Final = 1_000_000
"""`fewest_groups` does not look for more groups than these."""

_ROUNDING: Final = 1e-9
_HALVINGS: Final = 30
_WIDE: Final = 7.0  # standard deviations of a binomial number
_CDF: Final = NormalDist().cdf


@dataclass(frozen=True)
class Groups:
    r"""Groups of items that belong together, all of one size.

    n items are worth :math:`n^* = n / (1 + (m - 1) \rho)` independent ones (Kish 1965).

    Attributes:
        count: number of groups F.
        size: items of each, m.
        alike: correlation of two items of a group, from 0 (independent) to 1 (copies).

    Examples:
        >>> groups = Groups(100, size=2, alike=0.5)
        >>> groups.items, round(groups.n_effective, 1)
        (200, 133.3)
    """

    count: int
    size: int = 1
    alike: float = 0.0

    @property
    def items(self) -> int:
        """Number of items."""
        return self.count * self.size

    @property
    def n_effective(self) -> float:
        """Number of independent items that they are worth."""
        return self.items / (1 + (self.size - 1) * self.alike)


def fewest_groups(enough: Callable[[Groups], bool], like: Groups) -> Groups | None:
    """Find the fewest groups that are enough, by bisection.

    Args:
        enough: whether some groups are enough; more groups must be enough too.
        like: their size and how alike their items are; its count does not matter.

    Returns:
        The groups, `FEWEST` or more; None if `MOST_GROUPS` would not do.

    Examples:
        >>> fewest_groups(lambda groups: groups.items >= 1_001, Groups(0, size=2))
        Groups(count=501, size=2, alike=0.0)
    """
    low, high = FEWEST - 1, FEWEST
    while not enough(replace(like, count=high)):
        if high >= MOST_GROUPS:
            return None
        low, high = high, min(2 * high, MOST_GROUPS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(replace(like, count=middle)) else (middle, high)
    return replace(like, count=high)


def power_of_difference(difference: float, differing: float, groups: Groups) -> float:
    r"""Return the chance that `PairedRates` shows a difference of two rates, in its direction.

    Of :math:`n^*` independent items, :math:`D \sim Bin(n^*, \psi)` are right in one run alone, and
    of these :math:`B \sim Bin(D, (1 + d / \psi) / 2)` in the better one. The chance of a B for
    which both the score test and the sign flip reject is summed over D. It is exact for groups of
    one item and for copies.

    Args:
        difference: d of the accuracies, a fraction above 0.
        differing: share :math:`\psi` of items that are right in one run alone, at least d.
        groups: the items.

    References:
        Connor, "Sample size for testing differences in proportions for the paired-sample design",
        Biometrics 43, 1987; summed instead of approximated here.

    Examples:
        >>> round(power_of_difference(0.02, 0.1, Groups(1_960)), 3)
        0.802
    """
    from scipy import stats

    n = int(groups.n_effective)
    middle, spread = n * differing, _WIDE * math.sqrt(n * differing * (1 - differing)) + 1
    differ = np.arange(max(0, int(middle - spread)), min(n, math.ceil(middle + spread)) + 1)
    least = least_lead(differ, groups.count - 1)
    in_lead = stats.binom.sf(least - 1, differ, (1 + difference / differing) / 2)
    return float((stats.binom.pmf(differ, n, differing) * in_lead).sum())


def least_lead(differ: IntArray, degrees: int) -> IntArray:
    """Return of how many differing items one run must have right to be shown to be better.

    Args:
        differ: (D,) items that are right in one run alone.
        degrees: degrees of freedom of t: groups minus 1.

    Returns:
        (D,) counts; one more than `differ` if no lead shows it.

    Examples:
        >>> least_lead(np.array([5, 6, 100]), 999)
        array([ 6,  6, 60])
    """
    score = t_quantile(1 - LEVEL / 2, degrees) * np.sqrt(differ * (degrees + 1) / degrees)
    ahead = np.minimum(np.ceil((differ + score) / 2 - _ROUNDING).astype(np.int64), differ + 1)
    while (open_leads := (ahead <= differ) & (_flip(ahead, differ) > LEVEL)).any():
        ahead = ahead + open_leads
    return ahead


def _flip(ahead: IntArray, differ: IntArray) -> FloatArray:
    """Return the mid-p value of the sign flip, at least what an exact one can reach."""
    behind = differ - ahead
    below = np.where(behind > 0, p_value_below(np.maximum(behind - 1, 0), differ, 0.5), 0.0)
    mid_p = below + p_value_below(behind, differ, 0.5)
    return np.asarray(np.maximum(mid_p, 2.0 ** (1 - differ)), dtype=np.float64)


def power_of_margin(margin: float, differing: float, groups: Groups) -> float:
    r"""Return the chance that `equivalence_verdict` shows two equal rates to be equivalent.

    .. math:: 2 \Phi\left(d_c \sqrt{n^* / \psi}\right) - 1

    where :math:`d_c` is the largest difference whose 95% interval is inside the margin.

    Args:
        margin: largest difference that does not matter, a fraction above 0.
        differing: share of items that are right in one run alone.
        groups: the items.

    Examples:
        >>> round(power_of_margin(0.02, 0.1, Groups(2_700)), 2)
        0.81
    """

    def inside(lead: float) -> bool:
        return _rates(lead, differing, groups).estimate().high < margin

    if not inside(0.0):
        return 0.0
    critical = border(inside, 0.0, min(margin, differing), _HALVINGS)[0]
    return 2 * _CDF(critical * math.sqrt(groups.n_effective / differing)) - 1


def half_width_of_rate(rate: float, groups: Groups) -> float:
    """Return half the width of the 95% interval of `rate_estimate`, a fraction.

    Args:
        rate: share of positive items, in [0, 1].
        groups: the items.

    Examples:
        >>> round(half_width_of_rate(0.85, Groups(1_230)), 3)
        0.02
    """
    low, high = rate_ends(rate, _estimated(groups), groups.count - 1)
    return (high - low) / 2


def power_of_letter(
    preference: float, moved: float, groups: Groups, *, letters: int, least: float
) -> float:
    r"""Return the chance that `slot_preferences` shows a letter that is chosen too often.

    Items are shown in C orders of C answers, each answer once at each letter. A share
    :math:`\phi` of the items takes the letter in every order, which is
    :math:`\delta = \phi (C - 1) / C` above chance. Of the others, as many answer at random in
    every order as make up the share that changes. The variance of an item is

    .. math:: v = \phi (1 - \phi) \left(\frac{C - 1}{C}\right)^2 + (\mu - \phi)\, \frac{C - 1}{C^3}

    `LinearInference` must reject for C letters (Holm), with its interval beyond `least`.

    Args:
        preference: share of views above chance that choose the letter, above 0.
        moved: share of items whose answer changes between orders.
        groups: the items.
        letters: C, 2 or more.
        least: the preference beyond which the interval must lie.

    Examples:
        >>> round(power_of_letter(0.05, 0.1, Groups(120), letters=4, least=0.01), 2)
        0.82
    """

    def hidden(value: float) -> bool:
        found = _letter(value, moved, groups, letters)
        return found.p_value() > LEVEL / letters or found.estimate().low < least

    critical = border(hidden, 0.0, 1 - 1 / letters, _HALVINGS)[0]
    return _CDF((preference - critical) / _letter(preference, moved, groups, letters).error)


def _letter(preference: float, moved: float, groups: Groups, letters: int) -> LinearInference:
    """Return the inference on a letter from a typical sample; see `power_of_letter`."""
    share = 1 - 1 / letters
    followers = preference / share
    at_random = max(0.0, moved - followers)
    square = followers * share**2 + at_random * share / letters**2
    cube = followers * share**3 + at_random * share * (1 - 2 / letters) / letters**3
    variance = square - preference**2
    third = cube - 3 * preference * square + 2 * preference**3
    return LinearInference(
        preference,
        math.sqrt(variance / groups.n_effective),
        third / variance**1.5 / math.sqrt(groups.n_effective),
        n=groups.items,
        clusters=groups.count,
        degrees=groups.count - 1,
    )


def _estimated(groups: Groups) -> float:
    """Return what tests take the items to be worth: a variance of F groups has F - 1 degrees."""
    return groups.n_effective * (1 - 1 / groups.count)


def _rates(lead: float, differing: float, groups: Groups) -> PairedRates:
    """Return the rates of two runs that differ by so much."""
    return PairedRates(
        lead,
        differing,
        n_effective=_estimated(groups),
        n=groups.items,
        clusters=groups.count,
        degrees=groups.count - 1,
    )
