"""P-values of differences from the bootstrap: the level at which an interval ends at 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pact_eval.stats._quantiles import normal_quantile, t_tail
from pact_eval.stats.bootstrap import Resampled
from pact_eval.stats.estimate import Estimate

_HALVINGS = 30


def inverted_p_value(
    interval: Callable[[float], Estimate], resamples: int, n_clusters: int
) -> float:
    r"""Return the p-value of a difference from the function that makes its interval.

    .. math:: p = \inf\{\alpha : 0 \notin [l(1 - \alpha), u(1 - \alpha)]\}

    found by bisection to 1e-9, and never below `least_p_value`. Intervals have to grow with their
    confidence.

    Args:
        interval: Takes a confidence in (0, 1) to the difference with such an interval.
        resamples: Number of resamples B behind the interval.
        n_clusters: Number of clusters F that were resampled.

    Returns:
        A p-value in (0, 1]; NaN if there is no interval.

    References:
        Davison and Hinkley, "Bootstrap methods and their application", 1997, section 5.7.

    Examples:
        >>> from pact_eval.stats.bootstrap_p_values import inverted_p_value
        >>> from pact_eval.stats.estimate import Estimate
        >>> def wide(confidence):  # 0.3, and to either side as much as the confidence
        ...     return Estimate(0.3, 0.3 - confidence, 0.3 + confidence, 9, 9)
        >>> round(inverted_p_value(wide, resamples=9_999, n_clusters=162), 3)
        0.7
    """
    least, most = 0.0, 1.0
    for _ in range(_HALVINGS):
        level = (least + most) / 2
        estimate = interval(1 - level)
        if math.isnan(estimate.low) or math.isnan(estimate.high):
            return math.nan
        least, most = (least, level) if estimate.excludes_zero else (level, most)
    return min(1.0, max(most, least_p_value(resamples, n_clusters)))


def least_p_value(resamples: int, n_clusters: int) -> float:
    r"""Return the smallest p-value that so many resamples of so many clusters can give.

    .. math:: 2\,P\left[T_{F - 1} \le \sqrt{\tfrac{F - 1}{F}}\;\Phi^{-1}(a)\right], \quad
              a = \frac{1}{B + 1}

    the level at which `expanded_tail` is a.

    References:
        Davison and Hinkley, "Bootstrap methods and their application", 1997, section 4.2.5, for
        the share; Hesterberg, "What teachers should know about the bootstrap", The American
        Statistician 2015, for the expansion.

    Examples:
        >>> from pact_eval.stats.bootstrap_p_values import least_p_value
        >>> round(least_p_value(10_000, 162), 5), round(least_p_value(10_000, 8), 3)
        (0.00029, 0.01)
    """
    return _of_tail(1 / (resamples + 1), n_clusters)


@dataclass(frozen=True, eq=False)
class ResampledInference:
    """Interval and test of a statistic by resamples of its clusters.

    Attributes:
        drawn: The statistic on the rows and on the resamples.
        interval: Makes the interval from them; None takes the expanded percentile interval.
    """

    drawn: Resampled
    interval: Callable[[Resampled, float], Estimate] | None = None

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the statistic with its interval."""
        if self.interval is None:
            return self.drawn.estimate(confidence)
        return self.interval(self.drawn, confidence)

    def p_value(self) -> float:
        """Return the level at which the interval ends at 0; NaN without an interval."""
        return inverted_p_value(self.estimate, self.drawn.resamples, self.drawn.n_clusters)


def _of_tail(share: float, n_clusters: int) -> float:
    """Return the two-sided level whose expanded tail is a share of the replicates."""
    if share >= 0.5:
        return 1.0
    t = math.sqrt((n_clusters - 1) / n_clusters) * normal_quantile(share)
    return min(1.0, 2 * t_tail(t, n_clusters - 1))
