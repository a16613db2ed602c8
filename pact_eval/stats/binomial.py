"""Exact binomial tests of a rate: p-values, critical counts, and the trials that a test needs.

scipy is imported where it is called: `pact-eval report` tests no rates, and would wait 0.2 s.
"""

import math
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray, IntArray

MOST_TRIALS: Final = 10**6
"""`trials_needed` does not look for more trials than these."""

_STEP: Final = 1.02


def p_value_below(
    positive: npt.ArrayLike, trials: npt.ArrayLike, rate: npt.ArrayLike
) -> FloatArray:
    r"""P-value of "the true rate is at least `rate`" against "it is below".

    .. math:: p = P(Bin(n, rate) \le k)

    Args:
        positive: (...) number k of positive trials.
        trials: (...) number n of independent trials; 0 gives a p-value of 1.
        rate: (...) in (0, 1); a number, or one for each test.

    Returns:
        (...) numbers in (0, 1]. They are exact: P(p <= level) <= level for every rate that is not
        below `rate`.

    References:
        Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of
        the binomial", Biometrika 1934.

    Examples:
        >>> from pact_eval.stats.binomial import p_value_below
        >>> p_value_below([0, 0, 1], [58, 59, 59], 0.05).round(4)
        array([0.051 , 0.0485, 0.1991])
    """
    from scipy import special

    k, n = np.broadcast_arrays(np.asarray(positive, float), np.asarray(trials, float))
    tail = special.betainc(np.maximum(n - k, 1), k + 1, 1 - np.asarray(rate, float))
    return np.asarray(np.where(k < n, tail, 1.0), dtype=np.float64)


def p_value_above(positive: npt.ArrayLike, trials: npt.ArrayLike, rate: float) -> FloatArray:
    r"""P-value of "the true rate is at most `rate`" against "it is above".

    .. math:: p = P(Bin(n, rate) \ge k)

    Args:
        positive: (...) number k of positive trials.
        trials: (...) number n of independent trials.
        rate: in (0, 1).

    Returns:
        (...) numbers in (0, 1].

    Examples:
        >>> from pact_eval.stats.binomial import p_value_above
        >>> p_value_above([0, 5], [20, 20], 0.1).round(4)
        array([1.    , 0.0432])
    """
    from scipy import special

    k, n = np.broadcast_arrays(np.asarray(positive, float), np.asarray(trials, float))
    tail = special.betainc(np.maximum(k, 1), n - k + 1, rate)
    return np.asarray(np.where(k > 0, tail, 1.0), dtype=np.float64)


def critical_count(trials: npt.ArrayLike, rate: float, level: float) -> IntArray:
    """Largest number of positive trials that shows, at a level, that the true rate is below `rate`.

    Args:
        trials: (...) number of independent trials.
        rate: in (0, 1).
        level: of the test, in (0, 1).

    Returns:
        (...) counts; -1 if not even 0 positive trials show it.

    Examples:
        >>> from pact_eval.stats.binomial import critical_count
        >>> critical_count([58, 59, 93], 0.05, 0.05)
        array([-1,  0,  1])
    """
    n = np.asarray(trials, dtype=np.int64)
    # Bisection: the mean is within one of the median, so the count above it is not critical.
    low = np.full(n.shape, -1, dtype=np.int64)
    high = np.minimum(np.ceil(n * rate).astype(np.int64) + 1, n + 1)
    while ((high - low) > 1).any():
        middle = (low + high) // 2
        shows = (p_value_below(np.maximum(middle, 0), n, rate) <= level) & (middle >= 0)
        low, high = np.where(shows, middle, low), np.where(shows, high, middle)
    return np.asarray(low, dtype=np.int64)


def rate_limit(positive: int, trials: int, confidence: float) -> float:
    r"""Upper confidence limit of a rate: the largest one that an exact test does not reject.

    .. math:: P(Bin(n, u) \le k) = 1 - confidence

    Args:
        positive: number k of positive trials.
        trials: number n of independent trials.
        confidence: one-sided, in (0, 1).

    Returns:
        The limit u in (0, 1]; 1 if every trial is positive.

    References:
        Clopper and Pearson, as for `p_value_below`.

    Examples:
        >>> from pact_eval.stats.binomial import rate_limit
        >>> round(rate_limit(0, 59, 0.95), 4), rate_limit(3, 3, 0.95)
        (0.0495, 1.0)
    """
    from scipy import special

    if positive >= trials:
        return 1.0
    return float(special.betaincinv(positive + 1, trials - positive, confidence))


def trials_needed(true_rate: float, rate: float, level: float, *, power: float = 0.8) -> int | None:
    """Number of trials that are likely to show that the true rate is below, or above, `rate`.

    Args:
        true_rate: the rate that is assumed to be true; on its side of `rate` the test looks.
        rate: in (0, 1).
        level: of the exact one-sided test.
        power: chance that the test shows it.

    Returns:
        The smallest number on a grid with steps of 2%; None if `MOST_TRIALS` are too few.

    Examples:
        >>> from pact_eval.stats.binomial import trials_needed
        >>> trials_needed(0.0, 0.05, 0.05), trials_needed(0.05, 0.05, 0.05)
        (59, None)
    """
    if true_rate == rate:
        return None
    if true_rate > rate:  # the mirror image: few negative trials
        true_rate, rate = 1 - true_rate, 1 - rate
    grid, critical = _critical_counts(rate, level)
    chance = np.where(critical < 0, 0.0, p_value_below(np.maximum(critical, 0), grid, true_rate))
    enough = np.flatnonzero(chance >= power)
    return int(grid[enough[0]]) if enough.size else None


@lru_cache(maxsize=64)
def _critical_counts(rate: float, level: float) -> tuple[IntArray, IntArray]:
    """Return 1 to 100, then steps of 2% to `MOST_TRIALS`, and the critical count of each."""
    steps = math.ceil(math.log(MOST_TRIALS / 100) / math.log(_STEP))
    later = 100 * _STEP ** np.arange(1, steps + 1)
    grid = np.unique(np.r_[np.arange(1, 101), np.ceil(later)]).astype(np.int64)
    return grid, critical_count(grid, rate, level)
