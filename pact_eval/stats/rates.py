"""Rates over clusters: Wilson's interval with the effective number of rows and a t quantile."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray, IntArray
from pact_eval.stats._quantiles import beta_quantile, border, t_quantile
from pact_eval.stats.clusters import (
    concentration,
    degrees_of_freedom,
    effective_clusters,
    jackknifed,
    pooled_design_effect,
)
from pact_eval.stats.estimate import (
    FEWEST,
    LEVEL,
    NO_ROWS,
    ONE_CLUSTER,
    ClusterText,
    Estimate,
    Method,
)

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
        >>> from pact_eval.stats.rates import p_value_below
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
        >>> from pact_eval.stats.rates import p_value_above
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
        >>> from pact_eval.stats.rates import critical_count
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
        >>> from pact_eval.stats.rates import rate_limit
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
        >>> from pact_eval.stats.rates import trials_needed
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


# Halvings of a rate: below the spacing of doubles.
# Share of a sum below which its further terms do not count.
_NEGLIGIBLE: Final = 1e-18

_AnyEstimate = TypeVar("_AnyEstimate", bound=Estimate)


def few_clusters(clusters: int) -> ClusterText | None:
    """Return why so few clusters have no interval; None if there are enough, or only one.

    Examples:
        >>> few_clusters(4)
        '4 families, fewer than 5: no interval'
        >>> few_clusters(5)
    """
    if not 1 < clusters < FEWEST:
        return None
    return ClusterText(f"{clusters} {{clusters}}, fewer than {FEWEST}: no interval")


def few_outcomes(wrong: int, right: int) -> ClusterText | None:
    """Return why a loss has no interval if few answers are wrong, or few are right.

    A loss with few errors rests on these errors: the next cluster with an error would move it by
    more than the spread of the others tells. The same holds if few answers are right.

    Args:
        wrong: clusters with an error.
        right: clusters with a right answer.

    Examples:
        >>> few_outcomes(1, 40)
        '1 family with an error, fewer than 5: no interval'
        >>> few_outcomes(5, 40)
    """
    for count, of_what in ((wrong, "an error"), (right, "a right answer")):
        if count < FEWEST:
            clusters = "{cluster}" if count == 1 else "{clusters}"
            return ClusterText(
                f"{count or 'no'} {clusters} with {of_what}, fewer than {FEWEST}: no interval"
            )
    return None


def without_interval(estimate: _AnyEstimate, reason: ClusterText | None) -> _AnyEstimate:
    """Return an estimate without its interval, for a reason; as it is if there is none."""
    if reason is None or math.isnan(estimate.low):
        return estimate
    return replace(estimate, low=math.nan, high=math.nan, reason=reason)


@lru_cache(maxsize=1_024)
def lowest_share(count: int, clusters: int) -> float:
    r"""Return how far an observed number of clusters with an error may exceed its expectation.

    An interval is printed only if the number K of such clusters is at least `FEWEST`, so K is drawn
    from a binomial distribution that is cut off below. The lower limit p of the rate solves

    .. math:: P[K \ge k \mid K \ge 5] = 2.5\%

    The limit of the binomial distribution itself (Clopper and Pearson 1934) would be too high: the
    printed runs are those whose number of errors came out large.

    Args:
        count: clusters with an error, k, `FEWEST` or more.
        clusters: all clusters, F.

    Returns:
        p F / k, in [0, 1); 0 for k = 5.

    References:
        Fithian, Sun and Taylor, "Optimal inference after model selection", arXiv 1410.2597, 2014,
        for inference on what a selection has left.

    Examples:
        >>> [round(lowest_share(count, 162), 2) for count in (5, 7, 9)]
        [0.0, 0.15, 0.36]
    """

    def is_unlikely(rate: float) -> bool:
        return not _chance_given_enough(count, clusters, rate) > LEVEL / 2

    return border(is_unlikely, 0.0, count / clusters)[0] * clusters / count


def _chance_given_enough(count: int, clusters: int, rate: float) -> float:
    """Return P[K >= count | K >= FEWEST] of a binomial number; the rate is below 1."""
    odds = rate / (1 - rate)
    term, below, total = 1.0, 0.0, 0.0
    for k in range(FEWEST, clusters + 1):
        if k == count:
            below = total
        total += term
        term *= (clusters - k) / (k + 1) * odds
        if k >= count and term < _NEGLIGIBLE * total:
            break
    return 1 - below / total


_ROUNDING = 1e-12


def rate_estimate(
    positive: npt.ArrayLike,
    counted: npt.ArrayLike,
    *,
    squares: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> Estimate:
    r"""Estimate a rate from counts by cluster, with an interval that holds for few clusters.

    Wilson's interval for :math:`p = \sum_f s_f / n`, with the effective number of rows
    :math:`n^*` of `effective_rows` in place of n, and Student's t in place of z. If clusters differ
    in size, the degrees of freedom are those of :math:`n^2 / \sum_f n_f^2` clusters:

    .. math:: \frac{p + \kappa / 2 \pm \sqrt{\kappa p (1 - p) + \kappa^2 / 4}}{1 + \kappa},
              \quad \kappa = t_{(1 + confidence) / 2,\, F - 1}^2 / n^*

    It lies in [0, 1] and always has a width: 0 of 47 is compatible with rates above 0.

    If few rows are positive, Wilson's lower end is too high: with one expected positive row of 324,
    three rows or more occur in 8% and exclude it. The upper end cannot fail then, so that the whole
    5% belong to the lower one (Brown, Cai and DasGupta 2001). It is at most the one-sided limit of
    Clopper and Pearson (1934), see `rare_limit`. That is the lower one of both if fewer than about
    10 of the :math:`n^*` rows are positive. The upper end follows from the negative rows.

    Args:
        positive: (F,) number of positive rows of each cluster.
        counted: (F,) number of rows of each cluster; clusters of 0 rows do not count.
        squares: (F,) sum of the squares of the rows of each cluster if they are fractions, such as
            the share of its views that answer an item correctly; None if they are 0 or 1.
        confidence: Nominal coverage, in (0, 1).

    Returns:
        The rate, a fraction. NaN with a reason without rows; no interval from one cluster.

    Raises:
        ValueError: The shapes differ, or a count does not lie in 0..counted.

    References:
        Wilson, "Probable inference, the law of succession, and statistical inference", JASA 1927.
        Korn and Graubard, "Confidence intervals for proportions with small expected number of
        positive counts estimated from survey data", Survey Methodology 1998. Franco, Little,
        Louis and Slud, "Comparative study of confidence intervals for proportions in complex
        sample surveys", Journal of Survey Statistics and Methodology 2019. Brown, Cai and DasGupta,
        "Interval estimation for a binomial proportion", Statistical Science 2001, section 4.1.

    Examples:
        >>> from pact_eval.stats.rates import rate_estimate
        >>> estimate = rate_estimate([2, 1, 2, 0, 1, 2, 2, 1], [2] * 8)
        >>> [round(end, 3) for end in (estimate.value, estimate.low, estimate.high)]
        [0.688, 0.365, 0.894]
        >>> none = rate_estimate([0] * 24, [2] * 23 + [1])
        >>> none.value, round(none.low, 3), round(none.high, 3)
        (0.0, 0.0, 0.153)
    """
    successes, rows = _check_counts(positive, counted, confidence)
    n, clusters = int(rows.sum()), int(np.count_nonzero(rows))
    method = Method("Wilson interval", " (rates)", confidence)
    rate = float(successes.sum()) / n if n else math.nan
    if clusters < 2:
        why = ONE_CLUSTER if clusters else NO_ROWS
        return Estimate(rate, math.nan, math.nan, n, clusters, method, why)
    degrees = degrees_of_freedom(rows[rows > 0])
    low, high = rate_ends(rate, effective_rows(successes, rows, squares), degrees, confidence)
    return Estimate(rate, low, high, n, clusters, method, None, concentration(rows))


def rate_ends(rate: float, n: float, degrees: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return both ends of the interval of `rate_estimate`.

    Args:
        rate: Share of positive rows, in [0, 1].
        n: Independent rows that it rests on, above 0; not necessarily an integer.
        degrees: Degrees of freedom of t, 1 or more.
        confidence: Nominal coverage, in (0, 1).

    Examples:
        >>> [round(end, 3) for end in rate_ends(0.0, 40.0, 39)]
        [0.0, 0.093]
    """
    low, high = wilson_interval(rate, n, t_quantile((1 + confidence) / 2, degrees))
    low = min(low, rare_limit(rate, n, confidence))
    return low, max(high, 1 - rare_limit(1 - rate, n, confidence))


def wilson_interval(rate: float, n: float, quantile: float) -> tuple[float, float]:
    """Return both ends of Wilson's interval.

    Args:
        rate: Share of positive rows, in [0, 1].
        n: Independent rows that it rests on, above 0; not necessarily an integer.
        quantile: Of the standard normal distribution, or of Student's t, above 0.

    Examples:
        >>> from pact_eval.stats.rates import wilson_interval
        >>> [round(end, 4) for end in wilson_interval(0.0, 10, 1.96)]
        [0.0, 0.2775]
    """
    kappa = quantile**2 / n
    half = math.sqrt(kappa * rate * (1 - rate) + kappa**2 / 4)
    low, high = ((rate + kappa / 2 + sign * half) / (1 + kappa) for sign in (-1, 1))
    return (low if rate > 0 else 0.0), (high if rate < 1 else 1.0)


def rare_limit(rate: float, n: float, confidence: float) -> float:
    r"""Return the one-sided lower limit of a rate by Clopper and Pearson (1934).

    With x = n p positive rows, it is the quantile of the beta distribution with the parameters x
    and n - x + 1 at 1 - confidence.

    Args:
        rate: Share of positive rows p, in [0, 1].
        n: Independent rows, above 0; not necessarily an integer.
        confidence: One-sided, from one half.

    References:
        Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of
        the binomial", Biometrika 1934.

    Examples:
        >>> round(rare_limit(3 / 324, 324, 0.95) * 324, 2)  # Poisson: 0.82
        0.82
    """
    x = rate * n
    return beta_quantile(1 - confidence, x, n - x + 1) if x > 0 else 0.0


def effective_rows(
    positive: npt.ArrayLike, counted: npt.ArrayLike, squares: npt.ArrayLike | None = None
) -> float:
    r"""Return how many independent rows would say as much on a rate as the clusters do.

    .. math:: n^* = \frac{n}{\max(deff, 1)}, \quad deff = \frac{V}{p (1 - p) / n}, \quad
              V = \frac{F}{F - 1} \sum_f \frac{(s_f - p\, n_f)^2}{n^2}

    V is the linearised variance of the ratio of sums over the F clusters; if they differ in size,
    the residuals are those of the jackknife, see `jackknifed`, and deff is at least
    `pooled_design_effect`: the residual of a large cluster without an error does not show how far
    an error would move it. A design effect below 1 is not used: from few clusters it is mostly
    noise.

    Rows may be fractions. Their variance :math:`s^2 = \sum_i x_i^2 / n - p^2` is below
    :math:`p (1 - p)`, and V is at least :math:`s^2 / n` times `pooled_design_effect`.

    Where all clusters have the same rate (none or all positive, say), V is 0 and says nothing of
    the dependence within clusters. Then the rows of a cluster are taken to be copies of one
    another, :math:`n^* = n^2 / \sum_f n_f^2`, which is F for clusters of one size: the least that
    the clusters can be worth.

    Args:
        positive: (F,) number of positive rows of each cluster.
        counted: (F,) number of rows of each cluster, in two clusters or more.
        squares: (F,) sum of the squares of the rows of each cluster; None if they are 0 or 1.

    Returns:
        A number above 0, at most n.

    References:
        Kish, "Survey sampling", 1965, sections 2.6 and 8.2; Korn and Graubard 1998, section 2.

    Examples:
        >>> from pact_eval.stats.rates import effective_rows
        >>> effective_rows([2, 2, 0, 0], [2, 2, 2, 2])  # pairs are copies; V from 4 clusters
        3.0
        >>> effective_rows([2, 2, 2, 2], [2, 2, 2, 2])
        4.0
    """
    successes, rows = _check_counts(positive, counted)
    of_squares = successes if squares is None else np.asarray(squares, dtype=np.float64)
    successes, of_squares, rows = (each[rows > 0] for each in (successes, of_squares, rows))
    n, clusters = float(rows.sum()), rows.size
    rate = float(successes.sum()) / n
    apart = successes - rate * rows
    if float(np.abs(apart).max()) <= _ROUNDING * float(rows.max()):
        return effective_clusters(rows)
    apart = jackknifed(apart, rows)
    variance = clusters / (clusters - 1) * float((apart**2).sum()) / n**2
    of_rate = rate * (1 - rate)
    spread = 1 - float((successes - of_squares).sum()) / n / of_rate
    pooled = spread * pooled_design_effect(successes, of_squares, rows)
    return n / max(1.0, pooled, variance * n / of_rate)


def _check_counts(
    positive: npt.ArrayLike, counted: npt.ArrayLike, confidence: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    successes = np.asarray(positive, dtype=np.float64)
    rows = np.asarray(counted, dtype=np.float64)
    if successes.ndim != 1 or successes.shape != rows.shape:
        raise ValueError(f"expected two equal shapes (F,), got {successes.shape} and {rows.shape}")
    if not ((successes >= 0) & (successes <= rows)).all():
        raise ValueError("positive: expected counts in 0..counted")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: expected a number in (0, 1), got {confidence}")
    return successes, rows
