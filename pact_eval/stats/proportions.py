"""Rates over clusters: Wilson's interval with the effective number of rows and a t quantile."""

import math

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray
from pact_eval.stats._quantiles import beta_quantile, t_quantile
from pact_eval.stats.clusters import (
    concentration,
    degrees_of_freedom,
    effective_clusters,
    jackknifed,
    pooled_design_effect,
)
from pact_eval.stats.estimate import ClusterText, Estimate, Method

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
        >>> from pact_eval.stats.proportions import rate_estimate
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
        why = "one {cluster}: no interval" if clusters else "no rows: nothing to estimate"
        return Estimate(rate, math.nan, math.nan, n, clusters, method, ClusterText(why))
    t = t_quantile((1 + confidence) / 2, degrees_of_freedom(rows[rows > 0]))
    independent = effective_rows(successes, rows, squares)
    low, high = wilson_interval(rate, independent, t)
    low = min(low, rare_limit(rate, independent, confidence))
    high = max(high, 1 - rare_limit(1 - rate, independent, confidence))
    return Estimate(rate, low, high, n, clusters, method, None, concentration(rows))


def wilson_interval(rate: float, n: float, quantile: float) -> tuple[float, float]:
    """Return both ends of Wilson's interval.

    Args:
        rate: Share of positive rows, in [0, 1].
        n: Independent rows that it rests on, above 0; not necessarily an integer.
        quantile: Of the standard normal distribution, or of Student's t, above 0.

    Examples:
        >>> from pact_eval.stats.proportions import wilson_interval
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
        >>> from pact_eval.stats.proportions import effective_rows
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
