"""Few clusters, or few with an error: no interval, or one that allows for a lucky count."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeVar

from pact_eval.stats.estimate import FEWEST, LEVEL, ClusterText, Estimate

# Halvings of a rate: below the spacing of doubles.
_HALVINGS: Final = 60
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
    low, high = 0.0, count / clusters
    for _ in range(_HALVINGS):
        rate = (low + high) / 2
        likely = _chance_given_enough(count, clusters, rate) > LEVEL / 2
        low, high = (low, rate) if likely else (rate, high)
    return low * clusters / count


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
