"""Isotonic recalibration of confidence (CORP), and the parts of proper scores that it separates.

The event is "the answer is right", and the top probability is its forecast. The Brier and log
scores here are those of this event. They are not the Brier score and NLL over all answers, for
which isotonic regression has no counterpart.

Many samples of outcomes with the same confidences are pooled in one pass: the means of sample r are
shifted by 2 r, so that samples never violate the order among each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.metrics._arrays import check_confidence, item_mean, ranked_chunks, tie_starts
from pact_eval.metrics.calibration_error import smooth_ece

INFINITE_LOG_SCORE = "the log score is infinite: an answer of confidence 1 is wrong"
"""Why a log score is not in parts."""


@dataclass(frozen=True, eq=False)
class Recalibration:
    """The isotonic regression of being right on confidence: m pools, confidence ascending.

    Attributes:
        lowest: (m,) lowest confidence of a pool.
        highest: (m,) highest confidence.
        count: (m,) items.
        accuracy: (m,) share of right answers, which is the recalibrated confidence; increasing.
    """

    lowest: FloatArray
    highest: FloatArray
    count: IntArray
    accuracy: FloatArray

    def at(self, confidence: npt.ArrayLike) -> FloatArray:
        """Return the recalibrated confidence, interpolated linearly between pools.

        Args:
            confidence: (...) numbers; below the first pool and above the last, the curve is flat.

        Returns:
            (...) in [0, 1]; NaN without items.
        """
        x = np.asarray(confidence, dtype=np.float64)
        if not self.count.size:
            return np.full(x.shape, np.nan)
        ends = np.ravel([self.lowest, self.highest], order="F")
        return np.asarray(np.interp(x, ends, np.repeat(self.accuracy, 2)))


@dataclass(frozen=True, slots=True)
class ScoreDecomposition:
    """A mean score in parts: score = miscalibration - discrimination + uncertainty.

    Attributes:
        score: Mean over the items; lower is better.
        miscalibration: What recalibration would gain; 0 or above, lower is better.
        discrimination: What recalibrated confidence gains over the accuracy as everyone's
            confidence; 0 or above, higher is better.
        uncertainty: The score of the accuracy as everyone's confidence.
        reason: Why numbers are NaN, or None.
    """

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerScores:
    """Scores of the top probability as the forecast of being right, in parts.

    Attributes:
        items: Number of items.
        brier: Mean of (c - 1[right])^2, in [0, 1].
        log_nats: Mean of -log c if right and -log(1 - c) if wrong, in nats.
        smooth_ece: Calibration error without bins, see `smooth_ece`.
    """

    items: int
    brier: ScoreDecomposition
    log_nats: ScoreDecomposition
    smooth_ece: float


def isotonic_pools(sums: FloatArray, counts: FloatArray) -> IntArray:
    """Pool adjacent violators: groups whose means become the increasing sequence closest to them.

    Neighbours that do not increase have equal values in the solution, so all such runs are pooled
    at once, until the means of the pools increase.

    Args:
        sums: (m,) sum of each group.
        counts: (m,) its size, above 0.

    Returns:
        (p,) first group of each pool; the solution is the mean of each pool.

    References:
        Ayer, Brunk, Ewing, Reid and Silverman, "An empirical distribution function for sampling
        with incomplete information", Annals of Mathematical Statistics 26, 1955.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import isotonic_pools
        >>> isotonic_pools(np.array([0.0, 1.0, 0.0, 1.0]), np.ones(4))
        array([0, 1, 3])
    """
    starts = np.arange(len(sums))
    means = sums / counts
    while (falls := means[1:] <= means[:-1]).any():
        first = np.flatnonzero(np.r_[True, ~falls])
        sums, counts = np.add.reduceat(sums, first), np.add.reduceat(counts, first)
        starts, means = starts[first], sums / counts
    return starts


def recalibrate(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> Recalibration:
    """Fit the accuracy as an increasing function of confidence, by isotonic regression.

    The pools are the bins of a CORP reliability diagram: no number of bins has to be chosen.

    Args:
        confidence: (n,) top probabilities in [0, 1]; ties to 1e-12 are one group.
        correct: (n,) bool.

    Returns:
        The pools; none without items.

    Raises:
        ValueError: Shapes differ, or a confidence is NaN or outside [0, 1].

    References:
        Dimitriadis, Gneiting and Jordan, "Stable reliability diagrams for probabilistic
        classifiers", PNAS 118(8), 2021.

    Examples:
        >>> from pact_eval.metrics import recalibrate
        >>> recalibration = recalibrate([0.5, 0.6, 0.7, 0.9], [False, True, False, True])
        >>> recalibration.accuracy, recalibration.count
        (array([0. , 0.5, 1. ]), array([1, 2, 1]))
    """
    c, right = check_confidence(confidence, correct)
    # Pools of a chunk are within pools of all items, so chunks are pooled first.
    parts = [_pool(_group_ties(sure, wrong)) for sure, wrong in ranked_chunks(c, right)]
    groups = np.concatenate([np.empty((4, 0)), *parts[::-1]], axis=1)
    lowest, highest, sums, counts = _pool(groups)
    return Recalibration(lowest, highest, counts.astype(np.int64), sums / counts)


def answer_scores(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> AnswerScores:
    r"""Split Brier and log score of "the answer is right" into three parts.

    With S the mean score of the confidence, S_C of the recalibrated one (isotonic regression), and
    S_R of the accuracy as everyone's confidence:

    .. math:: S = (S - S_C) - (S_R - S_C) + S_R

    Miscalibration S - S_C is 0 or above even by chance: on few items, isotonic regression gains
    something on a calibrated model too.

    Args:
        confidence: (n,) top probabilities in [0, 1].
        correct: (n,) bool.

    Returns:
        Both scores in parts. A wrong answer of confidence 1 (or a right one of 0) makes the log
        score infinite: score and miscalibration are then NaN with a reason.

    Raises:
        ValueError: Shapes differ, or a confidence is NaN or outside [0, 1].

    References:
        Dimitriadis, Gneiting and Jordan, "Stable reliability diagrams for probabilistic
        classifiers", PNAS 118(8), 2021: the CORP score decomposition.

    Examples:
        >>> from pact_eval.metrics import answer_scores
        >>> parts = answer_scores([0.8, 0.8, 0.6, 0.6], [True, True, True, False]).brier
        >>> round(parts.score, 3), round(parts.miscalibration, 3), parts.discrimination
        (0.15, 0.025, 0.0625)
        >>> parts.uncertainty
        0.1875
    """
    c, right = check_confidence(confidence, correct)
    c = np.minimum(c, 1.0)
    pools = recalibrate(c, right)
    accuracy = item_mean(right)
    gap = c - right
    brier = _in_parts(
        item_mean(np.square(gap, out=gap)),
        _mean_over(pools, pools.accuracy * (1 - pools.accuracy)),
        accuracy * (1 - accuracy),
    )
    log_nats = _in_parts(
        item_mean(_log_loss(c, right)),
        _mean_over(pools, binary_entropy_nats(pools.accuracy)),
        float(binary_entropy_nats(np.array([accuracy]))[0]),
    )
    return AnswerScores(c.size, brier, log_nats, smooth_ece(c, right))


def _group_ties(sure: FloatArray, wrong: BoolArray) -> FloatArray:
    """Return (4, g): lowest and highest confidence, number right and size of ties, ascending."""
    starts = tie_starts(sure)
    size = np.diff(starts, append=sure.size)
    right = size - np.add.reduceat(wrong.astype(np.int64), starts)
    return np.array([sure[starts + size - 1], sure[starts], right, size], dtype=np.float64)[:, ::-1]


def _pool(groups: FloatArray) -> FloatArray:
    """Return (4, p): the same of the pools of isotonic regression."""
    lowest, highest, sums, counts = groups
    starts = isotonic_pools(sums, counts)
    if not starts.size:
        return groups
    last = np.r_[starts[1:], sums.size] - 1
    return np.array(
        [
            lowest[starts],
            highest[last],
            np.add.reduceat(sums, starts),
            np.add.reduceat(counts, starts),
        ]
    )


def _log_loss(c: FloatArray, right: BoolArray) -> FloatArray:
    """Return (n,) nats; inf for a wrong answer of confidence 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(0.0 - np.log(np.where(right, c, 1.0 - c)))


def binary_entropy_nats(p: FloatArray) -> FloatArray:
    """Return the mean log score of a forecast p for events of frequency p, in nats."""
    least = np.finfo(np.float64).tiny
    return np.asarray(
        0.0 - p * np.log(np.maximum(p, least)) - (1.0 - p) * np.log(np.maximum(1.0 - p, least))
    )


def _mean_over(pools: Recalibration, scores: FloatArray) -> float:
    n = int(pools.count.sum())
    return float((pools.count * scores).sum()) / n if n else float("nan")


def _in_parts(score: float, recalibrated: float, constant: float) -> ScoreDecomposition:
    """Take the scores of confidence, of recalibrated confidence, and of the accuracy."""
    if math.isnan(score):
        return ScoreDecomposition(math.nan, math.nan, math.nan, math.nan, "no items")
    # Isotonic regression can only gain; rounding can lose a digit.
    discrimination = max(0.0, constant - recalibrated)
    if math.isinf(score):
        return ScoreDecomposition(math.nan, math.nan, discrimination, constant, INFINITE_LOG_SCORE)
    return ScoreDecomposition(score, max(0.0, score - recalibrated), discrimination, constant)


# Distance of the means of neighbouring samples; accuracies are at most 1 apart.
_SHIFT = 2.0


@dataclass(frozen=True, eq=False)
class ResampledRecalibration:
    """The pools of b samples of outcomes of n items, sample by sample, confidence ascending.

    Attributes:
        items: Number of items, n.
        samples: Number of samples, b.
        sample: (p,) the sample of each pool.
        lowest: (p,) lowest confidence of the pool.
        highest: (p,) highest confidence.
        count: (p,) items.
        accuracy: (p,) share of right answers, increasing within a sample.
    """

    items: int
    samples: int
    sample: IntArray
    lowest: FloatArray
    highest: FloatArray
    count: FloatArray
    accuracy: FloatArray

    def at(self, confidence: npt.ArrayLike) -> FloatArray:
        """Return (b, m) the recalibrated confidence at m confidences, as `Recalibration.at` does.

        Args:
            confidence: (m,) numbers; below the first pool and above the last, the curve is flat.
        """
        shift = _SHIFT * self.sample
        ends = np.ravel([self.lowest + shift, self.highest + shift], order="F")
        first = np.searchsorted(self.sample, np.arange(self.samples))
        last = np.r_[first[1:], self.sample.size] - 1
        x = np.asarray(confidence, dtype=np.float64)
        inside = np.clip(x, self.lowest[first][:, None], self.highest[last][:, None])
        shifted = inside + _SHIFT * np.arange(self.samples)[:, None]
        return np.asarray(np.interp(shifted, ends, np.repeat(self.accuracy, 2)))

    @cached_property
    def brier(self) -> FloatArray:
        """(b,) mean Brier score of the recalibrated confidences."""
        return self._mean(self.accuracy * (1 - self.accuracy))

    @cached_property
    def log_nats(self) -> FloatArray:
        """(b,) mean log score of the recalibrated confidences, in nats."""
        return self._mean(binary_entropy_nats(self.accuracy))

    def _mean(self, scores: FloatArray) -> FloatArray:
        sums = np.bincount(self.sample, weights=self.count * scores, minlength=self.samples)
        return np.asarray(sums / self.items)


def recalibrate_samples(
    confidence: npt.ArrayLike, correct: npt.ArrayLike
) -> ResampledRecalibration:
    """Fit isotonic regression to each of many samples of outcomes.

    Args:
        confidence: (n,) top probabilities in [0, 1], one or more; ties to 1e-12 are one group.
        correct: (b, n) bool.

    Returns:
        The pools of every sample; those of one sample are the pools of `recalibrate`.

    Raises:
        ValueError: Shapes differ, there are no items, or a confidence is NaN or outside [0, 1].

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import recalibrate_samples
        >>> outcomes = np.array([[False, True], [True, False]])
        >>> recalibrated = recalibrate_samples([0.5, 0.9], outcomes)
        >>> recalibrated.sample, recalibrated.accuracy
        (array([0, 0, 1]), array([0. , 1. , 0.5]))
    """
    right = np.asarray(correct, dtype=np.bool_)
    c, _ = check_confidence(confidence, right[0] if len(right) else right)
    if not c.size:
        raise ValueError("confidence: expected one item or more, got none")
    order = np.argsort(-c, kind="stable")
    ranked = c[order]
    starts = tie_starts(ranked)
    size = np.diff(starts, append=c.size)
    samples, groups = len(right), starts.size
    # Ascending, as the fit increases. Without ties, every item is a group.
    ranked_right = right.take(order, axis=1).astype(np.float64)
    if groups < c.size:
        ranked_right = np.add.reduceat(ranked_right, starts, axis=1)
    sums = ranked_right[:, ::-1]
    counts = np.broadcast_to(size[::-1].astype(np.float64), sums.shape)
    shift = _SHIFT * np.arange(samples)[:, None] * counts
    first = isotonic_pools((sums + shift).ravel(), counts.ravel())
    last = np.r_[first[1:], sums.size] - 1
    pooled, total = (np.add.reduceat(series.ravel(), first) for series in (sums, counts))
    lowest, highest = ranked[starts + size - 1][::-1], ranked[starts][::-1]
    return ResampledRecalibration(
        items=c.size,
        samples=samples,
        sample=first // groups,
        lowest=lowest[first % groups],
        highest=highest[last % groups],
        count=total,
        accuracy=pooled / total,
    )


def miscalibration_samples(
    confidence: npt.ArrayLike, correct: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Return the miscalibration of each of many samples of outcomes, see `answer_scores`.

    Args:
        confidence: (n,) top probabilities in [0, 1], one or more.
        correct: (b, n) bool.

    Returns:
        (b,) miscalibration of the Brier score, and (b,) of the log score in nats: inf if an answer
        of confidence 1 is wrong.

    Raises:
        ValueError: As `recalibrate_samples`.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import miscalibration_samples
        >>> outcomes = np.array([[False, True], [True, True]])
        >>> miscalibration_samples([0.5, 0.5], outcomes)[0]
        array([0.  , 0.25])
    """
    pools = recalibrate_samples(confidence, correct)
    c = np.minimum(np.asarray(confidence, dtype=np.float64), 1.0)
    right = np.asarray(correct, dtype=np.bool_)
    with np.errstate(divide="ignore"):
        log_nats = np.where(right, -np.log(c), -np.log(1.0 - c)).mean(axis=1)
    brier = np.square(c - right).mean(axis=1)
    return np.maximum(brier - pools.brier, 0.0), np.maximum(log_nats - pools.log_nats, 0.0)
