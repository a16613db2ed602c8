"""Sums of per-item metrics that add up over parts of the data.

Totals of any parts, merged in any grouping, are the totals of the whole, so that data may be read
piece by piece or by several threads, and nothing is kept of an item but its AURC key (8 bytes)
and, where pairs are asked for, its family key (8 bytes).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from pact_eval.metrics._arrays import BoolArray, FloatArray, IntArray
from pact_eval.metrics.blocks import ItemBlock
from pact_eval.metrics.calibration_error import BINS, bin_index, ece_from_bin_sums
from pact_eval.metrics.likelihood import NllSummary
from pact_eval.metrics.overconfidence import is_confident
from pact_eval.metrics.ranking import aurc_from_keys, confidence_keys

__all__ = ["MetricTotals"]

KeyArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MetricTotals:
    """What the aggregate metrics of some items are made of.

    Attributes:
        items: number of items.
        correct: how many are right.
        confident_errors: how many are wrong with confidence 0.9 or more.
        finite_nll: sum of the finite NLL, nats.
        infinite_items: items whose reference had probability 0.
        brier: sum of the Brier scores.
        confidence: sum of the top probabilities.
        bin_count: (15,) items in each calibration bin.
        bin_confidence: (15,) sum of their confidences.
        bin_correct: (15,) how many of them are right.
        view_tv: sum over items; NaN for one view.
        flips: items whose views disagree; NaN for one view.
        gain: right by K views minus right by view 0; NaN for one view, or where an item's views
            leave no answer possible together.
        score_items: how many are of Score fields.
        expected_level_error: sum over those, levels.
        level_error: sum over those, levels.
        smallest_log_prob: smallest finite log-probability of any view.
        keys: packed confidences and outcomes, in pieces.
    """

    items: int
    correct: int
    confident_errors: int
    finite_nll: float
    infinite_items: int
    brier: float
    confidence: float
    bin_count: FloatArray
    bin_confidence: FloatArray
    bin_correct: FloatArray
    view_tv: float
    flips: float
    gain: float
    score_items: int
    expected_level_error: float
    level_error: float
    smallest_log_prob: float
    keys: tuple[KeyArray, ...]

    @classmethod
    def of(cls, block: ItemBlock, reference: npt.ArrayLike, is_score: BoolArray) -> MetricTotals:
        """Adds up the items of one block.

        Args:
            block: scored items.
            reference: (n,) canonical index of the right answer of all items of the data.
            is_score: (n,) whether an item belongs to a Score field, for all items of the data.
        """
        wrong = ~block.correct
        infinite = np.isinf(block.nll)
        index = bin_index(block.confidence)
        levels = is_score[block.rows]
        distance = np.abs(block.predicted - np.asarray(reference)[block.rows])
        return cls(
            items=block.rows.size,
            correct=int(block.correct.sum()),
            confident_errors=int((is_confident(block.confidence) & wrong).sum()),
            finite_nll=float(block.nll[~infinite].sum() if infinite.any() else block.nll.sum()),
            infinite_items=int(infinite.sum()),
            brier=float(block.brier.sum()),
            confidence=float(block.confidence.sum()),
            bin_count=_bin_sums(index, np.ones(index.size)),
            bin_confidence=_bin_sums(index, block.confidence),
            bin_correct=_bin_sums(index, block.correct),
            view_tv=float(block.view_tv.sum()),
            flips=float(block.flipped.sum()),
            gain=float(block.gain.sum()),
            score_items=int(levels.sum()),
            expected_level_error=float(block.expected_level_error[levels].sum()),
            level_error=float(distance[levels].sum()),
            smallest_log_prob=block.smallest_log_prob,
            keys=(confidence_keys(block.confidence, block.correct),),
        )

    @classmethod
    def merged(cls, parts: Sequence[MetricTotals]) -> MetricTotals:
        """Adds up the totals of parts that share no item.

        Args:
            parts: one or more totals, of any number of items each.

        Returns:
            The totals of all of them; sums are exact to rounding whatever the grouping.

        Raises:
            ValueError: There is no part.
        """
        if not parts:
            raise ValueError("parts: expected one or more, got none")
        names = [field.name for field in fields(cls)]
        columns = {name: [getattr(part, name) for part in parts] for name in names}
        added: dict[str, Any] = {
            name: math.fsum(values) if isinstance(values[0], float) else sum(values[1:], values[0])
            for name, values in columns.items()
        }
        added["smallest_log_prob"] = min(columns["smallest_log_prob"])
        return cls(**added)

    @property
    def accuracy(self) -> float:
        """Share of right items; NaN without items."""
        return _mean(self.correct, self.items)

    @property
    def mean_confidence(self) -> float:
        """Mean top probability; NaN without items."""
        return _mean(self.confidence, self.items)

    @property
    def nll(self) -> NllSummary:
        """Mean NLL in nats, and what an infinite one hides."""
        finite_items = self.items - self.infinite_items
        finite_mean = _mean(self.finite_nll, finite_items)
        mean = math.inf if self.infinite_items else finite_mean
        return NllSummary(mean, self.items, self.infinite_items, finite_mean)

    @property
    def mean_brier(self) -> float:
        """Mean Brier score, not halved; NaN without items."""
        return _mean(self.brier, self.items)

    @property
    def ece(self) -> float:
        """Expected calibration error, 15 bins; NaN without items."""
        return float(ece_from_bin_sums(self.bin_count, self.bin_confidence, self.bin_correct))

    @property
    def mean_tv(self) -> float:
        """Mean total variation distance between views; NaN for one view."""
        return _mean(self.view_tv, self.items)

    @property
    def flip_rate(self) -> float:
        """Share of items whose views disagree; NaN for one view."""
        return _mean(self.flips, self.items)

    @property
    def ensemble_gain(self) -> float:
        """Ensemble accuracy minus single accuracy; NaN for one view."""
        return _mean(self.gain, self.items)

    @property
    def score_mae(self) -> float:
        """Mean error of the expected level over Score items; NaN without such items."""
        return _mean(self.expected_level_error, self.score_items)

    @property
    def score_level_mae(self) -> float:
        """Mean error of the top level over Score items; NaN without such items."""
        return _mean(self.level_error, self.score_items)

    @property
    def share_of_confident_errors(self) -> float:
        """Share of the errors made with confidence 0.9 or more; NaN without errors."""
        return _mean(self.confident_errors, self.items - self.correct)

    def aurc(self) -> float:
        """Computes AURC, which sorts the keys: 8 bytes an item more; NaN without items."""
        return aurc_from_keys(np.concatenate(self.keys))


def _bin_sums(index: IntArray, values: npt.NDArray[Any]) -> FloatArray:
    return np.asarray(np.bincount(index, values, minlength=BINS), dtype=np.float64)


def _mean(total: float, number: int) -> float:
    return total / number if number else math.nan
