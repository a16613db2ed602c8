"""Items decoded in blocks of equal numbers of answers, for runs of millions of items.

Ragged logits, as they lie in a Parquet file, are cut into blocks of items with the same number of
answers, small enough for the processor's cache, with the answers along the first axis: no slot is
padding, and every sum over answers runs over full rows. The metrics of a block are those of the
other modules, which take either memory layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.metrics import decoding
from pact_eval.metrics._arrays import check_log_probs, check_whole
from pact_eval.metrics.decoding import ALL_IMPOSSIBLE, NONE_LEFT, flipped, normalise, pairwise_tv
from pact_eval.metrics.likelihood import (
    answer_gap_nats,
    brier_of_checked,
    expected_level_error,
    nll_of_checked,
    rps,
)
from pact_eval.metrics.pairs import lead_nats

# Items of a block: six answers of them, in float64, fit a processor's second-level cache.
_BLOCK_ITEMS = 2**13
# Items that are sorted into blocks together: their logits, in float32, fit that cache too.
_CHUNK_ITEMS = 2**15

Decode = Callable[[FloatArray, IntArray], FloatArray]
"""Takes log-probabilities (m, C) of the items at some rows to calibrated ones."""


@dataclass(frozen=True, eq=False)
class ItemBlock:
    """Decoded items of one block: m items of C answers and K views. Properties are computed once.

    Attributes:
        rows: (m,) where the items are among all of them.
        logits: (K, C, m) as the run has them.
        log_probs: (C, m) canonical log-probabilities under the decoding.
        log_probs_by_view: (K, C, m) those of every view, uncalibrated.
        reference: (m,) canonical index of the right answer; None for ablated contexts.
        answers: (m, 2) the two answers that an ablated context cannot distinguish, or None.
        answer_mass: (m, K) share of the next-token distribution on the answer letters; NaN if
            unknown.
        counted: (m, K) the views that count for view TV; None for all of them.
        other_reference: (m,) reference of the other member of the pair, -1 without one; or None.
    """

    rows: IntArray
    logits: FloatArray
    log_probs: FloatArray
    log_probs_by_view: FloatArray
    reference: IntArray | None
    answers: IntArray | None
    answer_mass: FloatArray
    counted: BoolArray | None = None
    other_reference: IntArray | None = None

    @property
    def k(self) -> int:
        """Number of views, K."""
        return len(self.log_probs_by_view)

    @cached_property
    def probs(self) -> FloatArray:
        """(C, m) probabilities under the decoding."""
        return np.exp(self.log_probs)

    @cached_property
    def predicted(self) -> IntArray:
        """(m,) see `metrics.predicted`."""
        return decoding.predicted_of_checked(self.log_probs.T, self._largest)

    @cached_property
    def confidence(self) -> FloatArray:
        """(m,) see `metrics.confidence`."""
        return np.exp(self._largest)

    @cached_property
    def correct(self) -> BoolArray:
        """(m,) whether the reference is predicted."""
        return np.asarray(self.predicted == self._reference, dtype=np.bool_)

    @cached_property
    def nll_nats(self) -> FloatArray:
        """(m,) see `metrics.nll_nats`."""
        return nll_of_checked(self.log_probs.T, self._reference)

    @cached_property
    def brier(self) -> FloatArray:
        """(m,) see `metrics.brier`."""
        return brier_of_checked(self.log_probs.T, self._reference)

    @cached_property
    def expected_level_error(self) -> FloatArray:
        """(m,) see `metrics.expected_level_error`; for Score fields only."""
        return expected_level_error(self.log_probs.T, self._reference)

    @cached_property
    def rps(self) -> FloatArray:
        """(m,) see `metrics.rps`; for Score fields only."""
        return rps(self.log_probs.T, self._reference)

    @cached_property
    def level_error(self) -> FloatArray:
        """(m,) see `metrics.level_error`; for Score fields only."""
        return np.asarray(np.abs(self.predicted - self._reference), dtype=np.float64)

    @cached_property
    def predicted_by_view(self) -> IntArray:
        """(m, K) canonical index that each view predicts."""
        return self.tied_by_view[:, :, 0]

    @cached_property
    def tied_by_view(self) -> IntArray:
        """(m, K, T) the answers that tie in each view; see `metrics.decoding.tied_answers`."""
        return decoding.tied_answers(self._by_item)

    @cached_property
    def view_tv(self) -> FloatArray:
        """(m,) see `metrics.pairwise_tv`."""
        return pairwise_tv(self._by_item, self.counted)

    @cached_property
    def flipped(self) -> FloatArray:
        """(m,) see `metrics.flipped`."""
        return flipped(self._by_item)

    @cached_property
    def order_accuracy(self) -> FloatArray:
        """(m,) share of the views that predict the reference; NaN for one view."""
        right = self.predicted_by_view == self._reference[:, None]
        return right.mean(axis=1) if self.k > 1 else np.full(self.rows.size, np.nan)

    @cached_property
    def ensemble_gain(self) -> FloatArray:
        """(m,) right by K views minus right by view 0.

        NaN for one view, and if the views together rule out every answer.
        """
        gain = np.full(self.rows.size, np.nan)
        if self.k < 2:
            return gain
        mean = self._by_item.mean(axis=1)
        possible = np.isfinite(mean.max(axis=1))
        y = self._reference[possible]
        together = decoding.predicted(normalise(mean[possible], NONE_LEFT, self.rows[possible]))
        single = self.predicted_by_view[possible, 0]
        gain[possible] = (together == y).astype(np.float64) - (single == y)
        return gain

    @cached_property
    def answer_gap_nats(self) -> FloatArray:
        """(m,) see `metrics.answer_gap_nats`."""
        if self.answers is None:
            raise ValueError("the answer gap needs the two answers of ablated contexts")
        return answer_gap_nats(self.log_probs.T, self.answers)

    @cached_property
    def lead_nats(self) -> FloatArray:
        """(m,) see `metrics.lead_nats`; NaN if pairs are unknown."""
        if self.other_reference is None:
            return np.full(self.rows.size, np.nan)
        return lead_nats(self.log_probs.T, self._reference, self.other_reference)

    @cached_property
    def logit_gap(self) -> FloatArray:
        """(m,) distance of the two best logits of view 0: inf for one answer, NaN if both -inf."""
        if self.logits.shape[1] < 2:
            return np.full(self.rows.size, np.inf)
        best = np.sort(self.logits[0], axis=0)[-2:]
        with np.errstate(invalid="ignore"):
            return np.asarray(best[1] - best[0])

    @cached_property
    def smallest_log_prob(self) -> float:
        """Smallest finite log-probability of any view, 0.0 if there is none."""
        smallest = float(self.log_probs_by_view.min(initial=0.0))
        # Zeros are rare: a mask is made for blocks that hold one.
        if smallest > -np.inf:
            return smallest
        finite = self.log_probs_by_view[np.isfinite(self.log_probs_by_view)]
        return float(finite.min(initial=0.0))

    @cached_property
    def _largest(self) -> FloatArray:
        """(m,) log-probability of the most probable answer, for which all of them are checked."""
        return np.asarray(check_log_probs(self.log_probs.T).max(axis=-1), dtype=np.float64)

    @property
    def _by_item(self) -> FloatArray:
        """(m, K, C) log-probabilities of every view, as the functions of one metric take them."""
        return self.log_probs_by_view.transpose(2, 0, 1)

    @property
    def _reference(self) -> IntArray:
        if self.reference is None:
            raise ValueError("ablated contexts have no reference")
        return self.reference


def item_blocks(
    logits: npt.ArrayLike,
    n_choices: npt.ArrayLike,
    reference: npt.ArrayLike | None = None,
    *,
    answers: IntArray | None = None,
    answer_mass: FloatArray | None = None,
    views: int = 1,
    counted: BoolArray | None = None,
    other_reference: IntArray | None = None,
    ensemble: bool = False,
    decode: Decode | None = None,
) -> Iterator[ItemBlock]:
    """Score items block by block.

    Args:
        logits: (sum of K * n_choices,) logits in canonical order, item by item and within an item
            view by view, without padding; any float dtype, computed in float64.
        n_choices: (n,) number of answers of each item.
        reference: (n,) canonical index of the right answer; None for ablated contexts.
        answers: (n, 2) the two answers of each ablated context, or None.
        answer_mass: (n, K) share of the next-token distribution on the letters; None if unknown.
        views: K.
        counted: (n, K) the views that count for view TV; None for all of them.
        other_reference: (n,) reference of the other member of each pair, -1 without one; or None.
        ensemble: decode the K views together; else view 0 alone.
        decode: calibrates the decoded log-probabilities; None leaves them raw.

    Yields:
        Blocks; every item is in one of them, in no particular order.

    Raises:
        ValueError: The shapes do not fit, a reference is not an answer of its item, a logit is NaN
            or +inf, all logits of a view are -inf, or an ensemble leaves no answer possible.

    Examples:
        >>> from pact_eval.metrics import item_blocks
        >>> blocks = item_blocks([0.0, 1.0, 2.0, 0.0, 0.0], [2, 3], [1, 0])
        >>> [(block.rows.tolist(), block.predicted.tolist()) for block in blocks]
        [([0], [1]), ([1], [0])]
    """
    values, choices = np.asarray(logits), check_whole("n_choices", n_choices)
    if values.ndim != 1 or choices.ndim != 1 or views < 1:
        raise ValueError(
            f"expected logits (L,), n_choices (n,) and views >= 1, got {values.shape}, "
            f"{choices.shape} and {views}"
        )
    if (choices < 1).any() or views * choices.sum() != values.size:
        raise ValueError(
            f"expected n_choices >= 1 of each item and {views} x n_choices logits, got "
            f"{choices.size} and {values.size}"
        )
    y = None if reference is None else _check_reference(reference, choices)
    for rows, starts in _rows_of_blocks(choices, views):
        width = int(choices[rows[0]])
        z = _gather(values, starts, views * width).reshape(views, width, rows.size)
        by_view = normalise(z.transpose(2, 0, 1), ALL_IMPOSSIBLE, rows)
        decoded = normalise(by_view.mean(axis=1), NONE_LEFT, rows) if ensemble else by_view[:, 0]
        yield ItemBlock(
            rows=rows,
            logits=z,
            log_probs=(decoded if decode is None else decode(decoded, rows)).T,
            log_probs_by_view=by_view.transpose(1, 2, 0),
            reference=None if y is None else y.take(rows),
            answers=None if answers is None else answers[rows],
            answer_mass=(
                np.full((rows.size, views), np.nan) if answer_mass is None else answer_mass[rows]
            ),
            counted=None if counted is None else counted[rows],
            other_reference=None if other_reference is None else other_reference.take(rows),
        )


def _rows_of_blocks(choices: IntArray, views: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the items of each block, and where the logits of each item start."""
    first = 0
    for start in range(0, choices.size, _CHUNK_ITEMS):
        chunk = choices[start : start + _CHUNK_ITEMS]
        ends = first + views * np.cumsum(chunk)
        starts = ends - views * chunk
        first = int(ends[-1])
        for width in np.flatnonzero(np.bincount(chunk)).tolist():
            same = np.flatnonzero(chunk == width)
            for at in range(0, same.size, _BLOCK_ITEMS):
                rows = same[at : at + _BLOCK_ITEMS]
                yield start + rows, starts.take(rows)


def _check_reference(reference: npt.ArrayLike, choices: IntArray) -> IntArray:
    y = check_whole("reference", reference)
    if y.shape != choices.shape:
        raise ValueError(f"reference: expected shape {choices.shape}, got {y.shape}")
    outside = (y < 0) | (y >= choices)
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"reference: expected an answer of its item, got {y[row]} of {choices[row]} in row "
            f"{row}"
        )
    return y


def _gather(values: npt.NDArray[np.floating], starts: IntArray, length: int) -> FloatArray:
    """Return (length, m): the `length` values from each start on."""
    gathered = np.empty((length, starts.size))
    for offset in range(length):
        gathered[offset] = values.take(starts + offset)
    return gathered
