"""Items scored in blocks of equal numbers of answers: every per-item metric in one go.

The other modules take one padded array of log-probabilities to one metric. For millions of items
that reads and writes the same numbers many times over. Here ragged logits, as they lie in a
Parquet file, are cut into blocks of items with the same number of answers, small enough for the
processor's cache, with the answers along the first axis, so that no slot is padding and every sum
over answers runs over whole rows. The numbers are those of the other modules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from pact_eval.metrics._arrays import TIE, BoolArray, FloatArray, IntArray, check_whole

__all__ = ["ItemBlock", "item_blocks"]

# Items of a block: six answers of them, in float64, fit a processor's second-level cache.
_BLOCK_ITEMS = 2**13


@dataclass(frozen=True, eq=False)
class ItemBlock:
    """The scored items of one block: m items of C answers and K views.

    Attributes:
        rows: (m,) where the items stand among all of them.
        predicted: (m,) canonical index of the most probable answer under the decoding.
        correct: (m,) whether it is the reference.
        confidence: (m,) its probability.
        nll: (m,) nats, +inf where the reference had probability 0.
        brier: (m,) not halved.
        expected_level_error: (m,) levels; of meaning for Score fields alone.
        predicted_by_view: (K, m) canonical index that each view predicts.
        view_tv: (m,) mean total variation distance over pairs of views; NaN for one view.
        flipped: (m,) 1.0 where two views disagree, else 0.0; NaN for one view.
        gain: (m,) right by K views minus right by view 0; NaN for one view, and where the views
            leave no answer possible together.
        smallest_log_prob: smallest finite log-probability of any view, 0.0 where there is none.
    """

    rows: IntArray
    predicted: IntArray
    correct: BoolArray
    confidence: FloatArray
    nll: FloatArray
    brier: FloatArray
    expected_level_error: FloatArray
    predicted_by_view: IntArray
    view_tv: FloatArray
    flipped: FloatArray
    gain: FloatArray
    smallest_log_prob: float


@dataclass(frozen=True, eq=False)
class _Distributions:
    """Distributions (..., C, m) and, for each of them, the log-probability of its top answer."""

    log_probs: FloatArray
    probs: FloatArray
    top: FloatArray

    def predicted(self) -> IntArray:
        """Returns the (..., m) lowest index among the most probable answers, ties to 1e-12."""
        least = self.top - TIE
        answers = self.log_probs.shape[-2]
        found = np.full(self.top.shape, answers - 1, dtype=np.int64)
        for index in range(answers - 2, -1, -1):
            np.copyto(found, index, where=self.log_probs[..., index, :] >= least)
        return found


def item_blocks(
    logits: npt.ArrayLike,
    n_choices: npt.ArrayLike,
    reference: npt.ArrayLike,
    *,
    views: int = 1,
    ensemble: bool = False,
) -> Iterator[ItemBlock]:
    """Scores items block by block.

    Args:
        logits: (sum of K * n_choices,) logits in canonical order, item by item and within an item
            view by view, without padding; any float dtype, computed in float64.
        n_choices: (n,) number of answers of each item.
        reference: (n,) canonical index of the right answer.
        views: K.
        ensemble: decode the K views together; else view 0 alone.

    Yields:
        Blocks; every item is in one of them, in no particular order.

    Raises:
        ValueError: The shapes do not fit, a reference is no answer of its item, a logit is NaN or
            +inf, all logits of a view are -inf, or an ensemble leaves no answer possible.

    Examples:
        >>> from pact_eval.metrics import item_blocks
        >>> blocks = item_blocks([0.0, 1.0, 2.0, 0.0, 0.0], [2, 3], [1, 0])
        >>> [(block.rows.tolist(), block.predicted.tolist()) for block in blocks]
        [([0], [1]), ([1], [0])]
    """
    values = np.asarray(logits)
    choices, y = check_whole("n_choices", n_choices), check_whole("reference", reference)
    if values.ndim != 1 or choices.ndim != 1 or views < 1:
        raise ValueError(
            f"expected logits (L,), n_choices (n,) and views >= 1, got {values.shape}, "
            f"{choices.shape} and {views}"
        )
    if y.shape != choices.shape or (choices < 1).any() or views * choices.sum() != values.size:
        raise ValueError(
            f"expected a reference and n_choices >= 1 of each item and {views} x n_choices logits, "
            f"got {y.size}, {choices.size} and {values.size}"
        )
    outside = (y < 0) | (y >= choices)
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"reference: expected an answer of its item, got {y[row]} of {choices[row]} in row "
            f"{row}"
        )
    starts = views * (np.cumsum(choices) - choices)
    for answers in np.flatnonzero(np.bincount(choices)).tolist():
        same = np.flatnonzero(choices == answers)
        for at in range(0, same.size, _BLOCK_ITEMS):
            rows = same[at : at + _BLOCK_ITEMS]
            z = _gathered(values, starts[rows], views * answers).reshape(views, answers, rows.size)
            yield _scored(z, y[rows], rows, ensemble=ensemble)


def _gathered(values: npt.NDArray[np.floating], starts: IntArray, length: int) -> FloatArray:
    """Returns (length, m): the `length` values from each start on."""
    gathered = np.empty((length, starts.size))
    for offset in range(length):
        gathered[offset] = values[starts + offset]
    return gathered


def _normalised(z: FloatArray, rows: IntArray, impossible: str) -> _Distributions:
    """Returns softmax over the last axis but one, as `metrics.log_softmax` computes it."""
    highest = z.max(axis=-2, keepdims=True)
    # NaN compares false, and an infinite maximum means no distribution either way.
    fine = np.isfinite(highest)
    if not fine.all():
        where = int(np.flatnonzero(~fine.all(axis=tuple(range(z.ndim - 1))))[0])
        nothing_left = bool(np.isneginf(highest[..., where]).any())
        problem = impossible if nothing_left else "expected logits below +inf, and no NaN"
        raise ValueError(f"{problem}: row {rows[where]}")
    shifted = z - highest
    probs = np.exp(shifted)
    total = probs.sum(axis=-2, keepdims=True)
    top = -np.log(total)
    probs /= total
    shifted += top
    return _Distributions(shifted, probs, top[..., 0, :])


def _scored(z: FloatArray, y: IntArray, rows: IntArray, *, ensemble: bool) -> ItemBlock:
    by_view = _normalised(z, rows, "every answer is -inf, which leaves none possible")
    picks = by_view.predicted()
    if ensemble:
        decoded = _together(by_view, rows)
        predicted = decoded.predicted()
    else:
        decoded = _Distributions(by_view.log_probs[0], by_view.probs[0], by_view.top[0])
        predicted = picks[0]
    at = y, np.arange(rows.size)
    answers = np.arange(z.shape[1], dtype=np.float64)
    difference = decoded.probs.copy()
    difference[at] -= 1.0
    return ItemBlock(
        rows=rows,
        predicted=predicted,
        correct=predicted == y,
        confidence=np.exp(decoded.top),
        nll=0.0 - decoded.log_probs[at],
        brier=np.square(difference).sum(axis=0),
        expected_level_error=np.abs(answers @ decoded.probs - y),
        predicted_by_view=picks,
        view_tv=_mean_distance(by_view.probs),
        flipped=_disagreement(picks),
        gain=_gain(by_view, picks[0] == y, y, rows),
        smallest_log_prob=_smallest_finite(by_view.log_probs),
    )


def _smallest_finite(log_probs: FloatArray) -> float:
    smallest = float(log_probs.min(initial=0.0))
    # Zeros are rare: a mask is made for blocks that hold one.
    return smallest if smallest > -np.inf else float(log_probs[np.isfinite(log_probs)].min())


def _together(by_view: _Distributions, rows: IntArray) -> _Distributions:
    return _normalised(
        by_view.log_probs.mean(axis=0),
        rows,
        "ensemble undefined: each answer has probability 0 in some view, so none is left",
    )


def _mean_distance(probs: FloatArray) -> FloatArray:
    pairs = list(combinations(range(len(probs)), 2))
    if not pairs:
        return np.full(probs.shape[-1], np.nan)
    distance = sum(np.abs(probs[k] - probs[m]).sum(axis=0) for k, m in pairs)
    return np.asarray(distance / (2 * len(pairs)), dtype=np.float64)


def _disagreement(picks: IntArray) -> FloatArray:
    if len(picks) < 2:
        return np.full(picks.shape[1], np.nan)
    return np.asarray((picks != picks[0]).any(axis=0), dtype=np.float64)


def _gain(by_view: _Distributions, single: BoolArray, y: IntArray, rows: IntArray) -> FloatArray:
    gain = np.full(y.shape, np.nan)
    if len(by_view.log_probs) < 2:
        return gain
    mean = by_view.log_probs.mean(axis=0)
    possible = np.isfinite(mean.max(axis=0))
    together = _normalised(mean[:, possible], rows[possible], "unreachable").predicted()
    gain[possible] = (together == y[possible]).astype(np.float64) - single[possible]
    return gain
