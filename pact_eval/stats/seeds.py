"""Mean and spread of a metric over the seeds of one recipe."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray

# Differences of equal numbers that were summed in another order.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class SeedSummary:
    """Mean and spread of one metric over the seeds of an arm.

    Attributes:
        mean: Mean over seeds; NaN without seeds, or where a seed has no value.
        deviation: Sample standard deviation (n - 1); NaN for fewer than two seeds.
        n: Seeds.
        reason: None, or a sentence that says why one of the two is NaN or infinite.
    """

    mean: float
    deviation: float
    n: int
    reason: str | None = None


@dataclass(frozen=True)
class SignAgreement:
    """Whether a difference has the same sign at every seed.

    Attributes:
        same: Whether all of two seeds or more differ in one direction.
        sign: That direction, 1 or -1; 0 where `same` is False.
        n: Seeds.
        chance: Chance that n seeds agree if every sign were a coin toss; NaN for fewer than two.
        reason: None if `same` is True, or else a sentence that says why not.
    """

    same: bool
    sign: Literal[-1, 0, 1]
    n: int
    chance: float
    reason: str | None = None


def seed_summary(values: npt.ArrayLike) -> SeedSummary:
    r"""Return mean and sample standard deviation over seeds.

    .. math:: \bar v = \frac{1}{n} \sum_s v_s, \quad
              s = \sqrt{\frac{1}{n - 1} \sum_s (v_s - \bar v)^2}

    The deviation is that of training, over seeds on one holdout: it does not cover other
    items. One seed has none. A seed without a value leaves no mean: the mean of the others
    would be that of another arm.

    Args:
        values: (n,) one number per seed.

    Returns:
        Both, with n and a reason where one is missing.

    Raises:
        ValueError: The shape is not (n,).

    Examples:
        >>> from pact_eval.stats.seeds import seed_summary
        >>> summary = seed_summary([0.840, 0.821, 0.877])
        >>> round(summary.mean, 3), round(summary.deviation, 3), summary.n
        (0.846, 0.028, 3)
        >>> seed_summary([0.840]).reason
        'one seed: no deviation'
    """
    seeds = _check_seeds("values", values)
    n, odd = seeds.size, int((~np.isfinite(seeds)).sum())
    if n == 0:
        return SeedSummary(math.nan, math.nan, 0, "no seeds")
    with np.errstate(invalid="ignore"):
        mean = float(seeds.mean())
    if odd:
        return SeedSummary(mean, math.nan, n, f"undefined or infinite at {odd} of {_seeds(n)}")
    if n == 1:
        return SeedSummary(mean, math.nan, n, "one seed: no deviation")
    return SeedSummary(mean, float(seeds.std(ddof=1)), n)


def same_sign(differences: npt.ArrayLike) -> SignAgreement:
    """Say whether a difference has the same sign at every seed.

    A difference of 0 (to 1e-12) has no sign and breaks the agreement, as NaN does: "the same sign
    at every seed" would not be true. One seed cannot agree with anything. Agreement of few seeds is
    weak evidence: three agree by chance one time in four.

    Args:
        differences: (n,) A minus B, one number per seed.

    Returns:
        Whether all agree, in which direction, and how likely that is by chance.

    Raises:
        ValueError: The shape is not (n,).

    Examples:
        >>> from pact_eval.stats.seeds import same_sign
        >>> same_sign([0.065, 0.040, 0.012])
        SignAgreement(same=True, sign=1, n=3, chance=0.25, reason=None)
        >>> same_sign([0.0, -0.019, 0.0]).reason
        'no difference at 2 of 3 seeds'
    """
    seeds = _check_seeds("differences", differences)
    n = seeds.size
    chance = 2.0 ** (1 - n) if n > 1 else math.nan
    undefined = int(np.isnan(seeds).sum())
    none = int((np.abs(seeds) <= _ROUNDING).sum())
    above = int((seeds > _ROUNDING).sum())
    reason = None
    if n < 2:
        reason = "one seed: nothing to agree with" if n else "no seeds"
    elif undefined:
        reason = f"undefined at {undefined} of {_seeds(n)}"
    elif none:
        reason = f"no difference at {none} of {_seeds(n)}"
    elif 0 < above < n:
        reason = f"A is above B at {above} of {_seeds(n)}"
    if reason is not None:
        return SignAgreement(False, 0, n, chance, reason)
    return SignAgreement(True, 1 if above else -1, n, chance)


def _check_seeds(name: str, values: npt.ArrayLike) -> FloatArray:
    seeds = np.asarray(values, dtype=np.float64)
    if seeds.ndim != 1:
        raise ValueError(f"{name}: expected shape (n,), got {seeds.shape}")
    return seeds


def _seeds(n: int) -> str:
    return "1 seed" if n == 1 else f"{n} seeds"
