"""Scores of probabilities per item: NLL, Brier score, lead, and the errors of what is surest."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.metrics._arrays import (
    TIE,
    check_confidence,
    check_log_probs,
    check_reference,
    check_whole,
    item_mean,
    ranked_chunks,
    rows_of,
    tie_starts,
)
from pact_eval.metrics.decoding import predicted


def nll_nats(log_probs: npt.ArrayLike, reference: npt.ArrayLike) -> FloatArray:
    r"""Negative log-likelihood of the reference, unclipped: :math:`-\log p_y`.

    A reference in an unused slot cannot be told here from one of probability 0; records are
    checked for that when they are read.

    Args:
        log_probs: (n, C_max) normalised log-probabilities, unused slots -inf.
        reference: (n,) canonical index of the right answer.

    Returns:
        (n,) nats in [0, inf], lower is better; +inf where the reference had probability 0.

    Raises:
        ValueError: A value is NaN or above 0, or a reference lies outside the slots.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import nll_nats
        >>> nll_nats(np.array([[-0.25, -1.5], [0.0, -np.inf]]), [1, 1])
        array([1.5, inf])
    """
    log_p = check_log_probs(log_probs)
    return nll_of_checked(log_p, check_reference(reference, log_p.shape))


def nll_of_checked(log_p: FloatArray, y: IntArray) -> FloatArray:
    """Return `nll_nats` of log-probabilities and references that were checked before."""
    # One index into the answers laid out one after the other: twice as fast as two indices.
    of_reference = log_p.T.ravel().take(y * len(y) + np.arange(len(y)))
    # Subtracting from 0 rather than negating: log 1 must give 0.0, not -0.0.
    return np.asarray(0.0 - of_reference, dtype=np.float64)


def brier(log_probs: npt.ArrayLike, reference: npt.ArrayLike) -> FloatArray:
    r"""Brier score over all answers, not halved: :math:`\sum_j (p_j - 1[j = y])^2`.

    Args:
        log_probs: (n, C_max) normalised log-probabilities, unused slots -inf.
        reference: (n,) canonical index of the right answer.

    Returns:
        (n,) in [0, 2], lower is better.

    Raises:
        ValueError: A value is NaN or above 0, or a reference lies outside the slots.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import brier
        >>> brier(np.log([[0.5, 0.5], [0.25, 0.75]]), [0, 1]).round(12)
        array([0.5  , 0.125])
    """
    log_p = check_log_probs(log_probs)
    return brier_of_checked(log_p, check_reference(reference, log_p.shape))


def brier_of_checked(log_p: FloatArray, y: IntArray) -> FloatArray:
    """Return `brier` of log-probabilities and references that were checked before."""
    difference = np.exp(log_p)
    # A mask with the answers first, as `item_blocks` has them: three times as fast as indices.
    difference -= (np.arange(log_p.shape[1])[:, None] == y).T
    return np.asarray(np.einsum("ij,ij->i", difference, difference), dtype=np.float64)


@dataclass(frozen=True)
class NllSummary:
    """The mean NLL together with what an infinite one hides.

    Attributes:
        mean: Mean over all items in nats; +inf where any item is infinite, NaN without items.
        items: Number of items.
        infinite_items: Items whose reference had probability 0.
        finite_mean: Mean over the other items; NaN if there are none.
    """

    mean: float
    items: int
    infinite_items: int
    finite_mean: float

    def lower_bound(self, smallest_probability: float) -> float:
        """Bound the mean NLL from below where zeros are numbers rounded down.

        A source that writes probabilities with four digits writes 0 for anything below 5e-5; each
        such item costs at least -log 5e-5 nats, so the true mean is at least

            (sum of the finite items + infinite_items * -log smallest_probability) / items.

        Args:
            smallest_probability: What the source rounds down to 0 is below this; in (0, 1].

        Returns:
            The bound in nats; equal to `mean` where no item is infinite, NaN without items.

        Raises:
            ValueError: `smallest_probability` is outside (0, 1].
        """
        if not 0 < smallest_probability <= 1:
            raise ValueError(
                f"smallest_probability: expected a number in (0, 1], got {smallest_probability}"
            )
        if self.infinite_items == 0:
            return self.mean
        finite_items = self.items - self.infinite_items
        finite_sum = self.finite_mean * finite_items if finite_items else 0.0
        return (finite_sum - self.infinite_items * math.log(smallest_probability)) / self.items


def nll_summary(nll: npt.ArrayLike) -> NllSummary:
    """Split per-item NLL into its finite part and the number of infinite items.

    Args:
        nll: (n,) nats in [0, inf], as `nll_nats` returns them.

    Returns:
        The summary; its `lower_bound` gives a finite figure to report next to an infinite mean.

    Raises:
        ValueError: `nll` is not one-dimensional, or holds NaN.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import nll_summary
        >>> summary = nll_summary([0.5, np.inf, 1.5])
        >>> summary
        NllSummary(mean=inf, items=3, infinite_items=1, finite_mean=1.0)
        >>> round(summary.lower_bound(1e-4), 3)
        3.737
    """
    array = np.asarray(nll, dtype=np.float64)
    if np.isnan(array).any():
        raise ValueError("nll: expected numbers, got NaN")
    finite = array[np.isfinite(array)]
    return NllSummary(
        mean=item_mean(array),
        items=array.size,
        infinite_items=array.size - finite.size,
        finite_mean=item_mean(finite),
    )


def answer_gap_nats(log_probs: npt.ArrayLike, answers: npt.ArrayLike) -> FloatArray:
    r"""Distance of two answers in log-probability, which is that of their logits.

    .. math:: |z_a - z_b| = |\log p_a - \log p_b|

    On a context without its evidence nothing tells the two answers of a pair apart, and 0 is what
    it should be: the square of this is the necessity term L_NR with eps = 0.

    Args:
        log_probs: (n, C_max) normalised log-probabilities, unused slots -inf.
        answers: (n, 2) canonical indices of the two answers a and b of each item.

    Returns:
        (n,) nats, 0 or more, lower is better; infinite if one of the two answers is impossible,
        NaN if both are.

    Raises:
        ValueError: The shapes do not fit, a value is NaN or above 0, or an answer lies outside the
            slots.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import answer_gap_nats
        >>> answer_gap_nats(np.log([[0.5, 0.1, 0.4], [0.2, 0.2, 0.6]]), [[0, 1], [1, 0]]).round(3)
        array([1.609, 0.   ])
    """
    log_p = check_log_probs(log_probs)
    n, width = log_p.shape
    pair = check_whole("answers", answers)
    if pair.shape != (n, 2):
        raise ValueError(f"answers: expected shape ({n}, 2), got {pair.shape}")
    outside = (pair < 0) | (pair >= width)
    if outside.any():
        raise ValueError(
            f"answers: expected indices in 0..{width - 1}, got {pair[outside][0]} "
            f"in {rows_of(outside)}"
        )
    chosen = np.take_along_axis(log_p, pair, axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(chosen[:, 0] - chosen[:, 1]), dtype=np.float64)


def expected_level_error(log_probs: npt.ArrayLike, reference: npt.ArrayLike) -> FloatArray:
    r"""Distance of the expected level from the reference: :math:`|\sum_j j\,p_j - y|`.

    Args:
        log_probs: (n, C_max) normalised log-probabilities of levels 0..C-1, unused slots -inf.
        reference: (n,) reference level.

    Returns:
        (n,) levels in [0, C - 1], lower is better; the mean is the expected-level MAE. It is not
        proper: over-confidence moves the expected level from the mean of the true distribution
        towards its median, and so lowers it. `rps` is proper.

    Raises:
        ValueError: A value is NaN or above 0, or a reference lies outside the slots.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import expected_level_error
        >>> expected_level_error(np.log([[0.25, 0.5, 0.25]]), [2]).round(12)
        array([1.])
    """
    log_p = check_log_probs(log_probs)
    y = check_reference(reference, log_p.shape)
    return np.asarray(np.abs(np.exp(log_p) @ np.arange(log_p.shape[1]) - y), dtype=np.float64)


def rps(log_probs: npt.ArrayLike, reference: npt.ArrayLike) -> FloatArray:
    r"""Ranked probability score: :math:`\sum_j (F_j - 1[j \ge y])^2`, with :math:`F_j` cumulative.

    The sum is not divided by C - 1, so it is in levels: a distribution on one level has its
    distance from the reference, as in the level error. It is the term L_EMD of the PACT objective.
    The score is strictly proper: with G the true cumulative distribution, the expected score is
    :math:`\sum_j (F_j - G_j)^2 + \sum_j G_j (1 - G_j)`, and only F = G attains the minimum.

    Args:
        log_probs: (n, C_max) normalised log-probabilities of levels 0..C-1, unused slots -inf.
        reference: (n,) reference level.

    Returns:
        (n,) levels in [0, C - 1], lower is better.

    Raises:
        ValueError: A value is NaN or above 0, or a reference lies outside the slots.

    References:
        Epstein, "A scoring system for probability forecasts of ranked categories", Journal of
        Applied Meteorology 8, 1969; in this form Murphy, "A note on the ranked probability score",
        Journal of Applied Meteorology 10, 1971.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import rps
        >>> rps(np.log([[0.25, 0.5, 0.25]]), [2]).round(12)
        array([0.625])
    """
    log_p = check_log_probs(log_probs)
    y = check_reference(reference, log_p.shape)
    cumulative = np.cumsum(np.exp(log_p), axis=1)
    reached = np.arange(log_p.shape[1]) >= y[:, None]
    # The last sum is 1 but for rounding, and unused slots add nothing to it.
    return np.asarray(np.square(cumulative - reached).sum(axis=1), dtype=np.float64)


def level_error(log_probs: npt.ArrayLike, reference: npt.ArrayLike) -> FloatArray:
    r"""Distance of the predicted level from the reference: :math:`|\arg\max_j p_j - y|`.

    Args:
        log_probs: (n, C_max) normalised log-probabilities of levels 0..C-1, unused slots -inf.
        reference: (n,) reference level.

    Returns:
        (n,) integer levels in [0, C - 1], lower is better; the mean is the level MAE.

    Raises:
        ValueError: A value is NaN or above 0, or a reference lies outside the slots.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import level_error
        >>> level_error(np.log([[0.2, 0.5, 0.3], [0.8, 0.1, 0.1]]), [2, 2])
        array([1., 2.])
    """
    log_p = check_log_probs(log_probs)
    y = check_reference(reference, log_p.shape)
    return np.asarray(np.abs(predicted(log_p) - y), dtype=np.float64)


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
