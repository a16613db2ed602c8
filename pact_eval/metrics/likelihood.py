"""Log-probabilities per item: negative log-likelihood, Brier score, and the lead of an answer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray, IntArray
from pact_eval.metrics._arrays import (
    check_log_probs,
    check_reference,
    check_whole,
    item_mean,
    rows_of,
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
