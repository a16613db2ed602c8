"""Selective prediction: the error rate among the items a model is most sure of."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.metrics._arrays import TIE, check_confidence, item_mean, ranked_chunks, tie_starts


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """The risk-coverage curve, one point for each number of items kept.

    Attributes:
        coverage: (n,) share of items kept: 1/n, 2/n, ..., 1.
        error_rate: (n,) expected error rate among the items kept, ties in random order.
        threshold: (n,) confidence of the last item kept, descending.
    """

    coverage: FloatArray
    error_rate: FloatArray
    threshold: FloatArray


def _tie_groups(confidence: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the order of descending confidence, and where in it each group of ties starts."""
    order = np.argsort(-confidence, kind="stable")
    return order, tie_starts(confidence[order])


def risk_coverage(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> RiskCoverage:
    r"""Expected error rate among the most confident items, at every coverage.

    Items of equal confidence (to 1e-12) count by their expected order: within a group of m items
    with e errors, that follows M items with E errors, keeping j of the m expects E + j e/m.

    .. math:: risk(M + j) = \frac{E + j\,e/m}{M + j}

    Args:
        confidence: (n,) top probabilities in [0, 1].
        correct: (n,) bool.

    Returns:
        The curve, with n points; error rates are fractions, lower is better.

    Raises:
        ValueError: Shapes differ, or a confidence is NaN or outside [0, 1].

    Examples:
        >>> from pact_eval.metrics import risk_coverage
        >>> risk_coverage([0.9, 0.6, 0.6], [True, True, False]).error_rate.round(3)
        array([0.   , 0.25 , 0.333])
    """
    c, right = check_confidence(confidence, correct)
    order, starts = _tie_groups(c)
    n = c.size
    if n == 0:
        return RiskCoverage(*(np.empty(0) for _ in range(3)))
    kept = np.arange(1, n + 1)
    m = np.diff(starts, append=n)
    e = np.add.reduceat((~right[order]).astype(np.int64), starts)
    group = np.repeat(np.arange(starts.size), m)
    errors = (np.cumsum(e) - e)[group] + (kept - starts[group]) * (e / m)[group]
    return RiskCoverage(coverage=kept / n, error_rate=errors / kept, threshold=c[order])


def oracle_error_rate(error_rate: float, coverage: npt.ArrayLike) -> FloatArray:
    r"""Error rate of the items kept if every right answer is surer than every wrong one.

    .. math:: oracle(c) = \max\Big(0, 1 - \frac{1 - e}{c}\Big)

    Args:
        error_rate: error rate e of all answers, a fraction.
        coverage: (...) shares of the items that are kept, in (0, 1].

    Returns:
        (...) fractions: the lowest risk-coverage curve of any confidence for these answers.

    Raises:
        ValueError: a coverage is not in (0, 1].

    Examples:
        >>> from pact_eval.metrics import oracle_error_rate
        >>> oracle_error_rate(0.25, [0.5, 0.75, 1.0])
        array([0.  , 0.  , 0.25])
    """
    kept = np.asarray(coverage, dtype=np.float64)
    if not ((kept > 0) & (kept <= 1)).all():
        raise ValueError("coverage: expected numbers in (0, 1]")
    return np.asarray(np.maximum(0.0, 1 - (1 - error_rate) / kept), dtype=np.float64)


def aurc(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    r"""Area under the risk-coverage curve: mean error rate over coverages 1/n, 2/n, ..., 1.

    .. math:: AURC = \frac1n \sum_{i=1}^n risk(i)

    Items of equal confidence (to 1e-12) count by their expected order, so the value depends
    neither on the order of the rows nor on rounding.

    Args:
        confidence: (n,) top probabilities in [0, 1].
        correct: (n,) bool.

    Returns:
        A fraction in [0, 1], lower is better; NaN without items.

    Raises:
        ValueError: Shapes differ, or a confidence is NaN or outside [0, 1].

    References:
        Geifman and El-Yaniv, "Selective classification for deep neural networks", NeurIPS 2017.

    Examples:
        >>> from pact_eval.metrics import aurc
        >>> round(aurc([0.9, 0.6, 0.6], [True, True, False]), 6)
        0.194444
    """
    c, right = check_confidence(confidence, correct)
    area, errors, kept = 0.0, 0, 0
    for sure, wrong in ranked_chunks(c, right):
        area += _area(sure, wrong, kept, errors)
        errors += int(wrong.sum())
        kept += wrong.size
    return area / kept if kept else float("nan")


def aurc_bounds(
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    can_be_right: npt.ArrayLike,
    can_be_wrong: npt.ArrayLike,
) -> tuple[float, float]:
    """Smallest and largest AURC of items whose confidences are known up to an interval.

    AURC rises if a right answer becomes wrong, if a wrong one becomes surer or a right one less
    sure. So it is largest if every item that can be wrong is, at its largest confidence, and the
    others are at their smallest, ties with the wrong ones first; it is smallest the other way
    round. Items of one rounded confidence thus have their worst and their best order.

    Args:
        low: (n,) smallest confidence of each item.
        high: (n,) largest.
        can_be_right: (n,) bool.
        can_be_wrong: (n,) bool; an item can be right or wrong or either.

    Returns:
        Two fractions in [0, 1]; NaN without items.

    Raises:
        ValueError: Shapes differ, a confidence is NaN or outside [0, 1], or an item can be neither.

    Examples:
        >>> from pact_eval.metrics import aurc_bounds
        >>> aurc_bounds([0.6, 0.6], [0.6, 0.6], [True, False], [False, True])
        (0.25, 0.75)
    """
    smallest, right = check_confidence(low, can_be_right)
    largest, wrong = check_confidence(high, can_be_wrong)
    if smallest.shape != largest.shape or not (right | wrong).all():
        message = "expected two ends of each confidence, and items that can be right or wrong"
        raise ValueError(message)

    def area(errors: BoolArray, wrong_first: bool) -> float:
        confidence = np.where(errors == wrong_first, largest, smallest)
        ranked = errors[np.lexsort((errors != wrong_first, -confidence))]
        return item_mean(np.cumsum(ranked) / np.arange(1, ranked.size + 1))

    return area(~right, wrong_first=False), area(wrong, wrong_first=True)


def aurc_influence(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> FloatArray:
    r"""Derivatives of AURC in the weights of the items: how much each item adds to it.

    With the risk R_i and the weight i of the i most confident items, and e_m = 1 if item m is
    wrong,

    .. math:: n U_m = R_m - AURC + \sum_{i \ge m} \frac{e_m - R_i}{i}

    Items of equal confidence count by their expected order, so the sum is that of the mean
    position in their group.

    Args:
        confidence: (n,) top probabilities in [0, 1].
        correct: (n,) bool.

    Returns:
        (n,) numbers with a sum of about 0: the infinitesimal jackknife.

    Raises:
        ValueError: Shapes differ, or a confidence is NaN or outside [0, 1].

    References:
        Efron and Tibshirani, "An introduction to the bootstrap", 1993, chapter 21.

    Examples:
        >>> from pact_eval.metrics import aurc_influence
        >>> aurc_influence([0.9, 0.8, 0.7], [True, False, True]).round(3)
        array([-0.213,  0.231, -0.019])
    """
    c, right = check_confidence(confidence, correct)
    order, starts = _tie_groups(c)
    n = c.size
    if n == 0:
        return np.empty(0)
    risk, kept = risk_coverage(c, right).error_rate, np.arange(1, n + 1)
    size = np.diff(starts, append=n)
    later = np.cumsum((1 / kept)[::-1])[::-1]
    expected = risk - np.cumsum((risk / kept)[::-1])[::-1]
    of_wrong, of_any = (
        np.repeat(np.add.reduceat(sums, starts) / size, size) for sums in (later, expected)
    )
    influence: FloatArray = np.empty(n)
    influence[order] = (of_any - risk.mean() + np.where(right[order], 0.0, of_wrong)) / n
    return influence


def _area(confidence: FloatArray, wrong: BoolArray, before: int, errors_before: int) -> float:
    """Return the sum of the expected error rates at the coverages of these items."""
    errors = np.cumsum(wrong, dtype=np.float64)
    tied = confidence[:-1] - confidence[1:] <= TIE
    if tied.any():
        _spread_ties(errors, wrong, tied)
    errors += errors_before
    errors /= np.arange(before + 1, before + wrong.size + 1)
    return float(errors.sum())


def _spread_ties(errors: FloatArray, wrong: BoolArray, tied: BoolArray) -> None:
    """Replace the running counts within groups of ties by their expected values.

    Args:
        errors: (n,) running counts of errors; changed in place.
        wrong: (n,) whether an item is wrong.
        tied: (n - 1,) whether an item is tied with the next one.
    """
    rows = np.flatnonzero(np.r_[tied, False] | np.r_[False, tied])
    first = ~np.r_[False, tied][rows]
    starts = np.flatnonzero(first)
    size = np.diff(starts, append=rows.size)
    in_group = np.add.reduceat(wrong[rows].astype(np.int64), starts)
    earlier = errors[rows[starts]] - wrong[rows[starts]]
    nth = np.arange(1, rows.size + 1) - np.repeat(starts, size)
    errors[rows] = np.repeat(earlier, size) + nth * np.repeat(in_group / size, size)
