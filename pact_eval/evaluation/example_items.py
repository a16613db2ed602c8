"""Items to look at first: the surest errors of a run, or what only one of two runs answers right.

They are rows of `ItemOutcomes`.
"""

from __future__ import annotations

import numpy as np

from pact_eval._typing import BoolArray, FloatArray
from pact_eval.evaluation.item_outcomes import ItemOutcomes


def surest_errors(outcomes: ItemOutcomes, most: int) -> list[int]:
    """Return the rows of wrong answers with the highest confidence, ties in their order.

    Args:
        outcomes: of a run.
        most: number of rows.
    """
    return _surest(~outcomes.correct, outcomes.raw.confidence, most)


def only_one_right(a: ItemOutcomes, b: ItemOutcomes, most: int) -> list[int]:
    """Return the rows that one of two runs alone answers right, by the confidence of the other.

    Args:
        a: outcomes of a run.
        b: outcomes of another run on the same items.
        most: number of rows.
    """
    confidence = np.where(a.correct, b.raw.confidence, a.raw.confidence)
    return _surest(a.correct != b.correct, confidence, most)


def count_only_right(a: ItemOutcomes, b: ItemOutcomes) -> int:
    """Count the items that the first of two runs on the same items alone answers right."""
    return int((a.correct & ~b.correct).sum())


def _surest(chosen: BoolArray, confidence: FloatArray, most: int) -> list[int]:
    """Return the first chosen rows by confidence; those of unknown confidence are last."""
    rows = np.flatnonzero(chosen)
    order = np.argsort(-np.nan_to_num(confidence[rows], nan=-1.0), kind="stable")
    return [int(row) for row in rows[order[:most]]]
