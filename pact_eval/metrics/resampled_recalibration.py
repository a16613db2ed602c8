"""Isotonic recalibration of many samples of outcomes at once, all with the same confidences.

Pooling is one pass over all samples: the means of sample r are shifted by 2 r, so that samples
never violate the order among each other.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray, IntArray
from pact_eval.metrics._arrays import check_confidence, tie_starts
from pact_eval.metrics.recalibration import binary_entropy_nats, isotonic_pools

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
