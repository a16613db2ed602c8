r"""Letter balance of references, which batch calibration assumes.

Items of C answers are balanced if each of their C letters is right in 1/C of them. Letters are
compared by number of answers, because batch calibration is fitted by number of answers. Shares
pooled over numbers of answers are not comparable with any single value: an item of two answers has
no letter C.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from pact_eval._choices import ClusterUnit
from pact_eval._typing import IntArray
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_eval.stats.proportions import rate_estimate

BalanceStatus: TypeAlias = Literal["balanced", "unbalanced", "cannot tell"]
"""balanced: no imbalance is shown; unbalanced: it is, at one letter or more; cannot tell: there is
no interval."""


@dataclass(frozen=True)
class LetterBalance:
    """Letters of the references of items with one number of answers.

    Attributes:
        n_choices: C, the number of answers.
        shares: (C,) share of items whose reference is at letter A, B, ... in view 0. Intervals are
            over families, and simultaneous over all letters of a run (Bonferroni).
    """

    n_choices: int
    shares: tuple[Estimate, ...]

    @property
    def balanced_share(self) -> float:
        """The share of each letter in balanced references, 1 / C."""
        return 1 / self.n_choices

    @property
    def unbalanced(self) -> tuple[int, ...]:
        """Letters whose share is shown (significant) to differ from the balanced one, from 0."""
        return tuple(
            letter
            for letter, share in enumerate(self.shares)
            if not math.isnan(share.low) and not share.low <= self.balanced_share <= share.high
        )


def letter_balance(
    predictions: Predictions, unit: ClusterUnit = "family"
) -> tuple[LetterBalance, ...]:
    """Count the letters of references in view 0, by number of answers.

    Args:
        predictions: items with references and known letter orders.
        unit: units of intervals: families, or source families.

    Returns:
        One value per number of answers, the smallest first.

    Examples:
        >>> import polars as pl
        >>> items = Predictions.from_frame(pl.DataFrame({
        ...     "id": [*"abcd"], "family": [*"abcd"], "source_family": [*"abcd"], "domain": "d",
        ...     "kind": "boolean", "variant": "base", "reference": [0, 1, 0, 0], "n_choices": 2,
        ...     "view": 0, "code_order": [[0, 1]] * 4, "logits": [[0.0, 0.0]] * 4,
        ...     "prompt_tokens": 9, "answer_mass": 1.0}))
        >>> (balance,) = letter_balance(items)
        >>> [share.value for share in balance.shares], balance.unbalanced
        ([0.75, 0.25], ())
    """
    counts = np.unique(predictions.n_choices).tolist()
    confidence = 1 - LEVEL / sum(counts)
    at_letter = predictions.code_order[:, 0] == predictions.reference[:, np.newaxis]
    names = predictions.family if unit == "family" else predictions.source_family
    _, clusters = np.unique(names, return_inverse=True)
    balances: list[LetterBalance] = []
    for n_choices in counts:
        rows = predictions.n_choices == n_choices
        counted = np.bincount(clusters[rows])
        shares = [
            rate_estimate(_counts(clusters[rows], right), counted, confidence=confidence)
            for right in at_letter[rows, :n_choices].T
        ]
        balances.append(LetterBalance(n_choices, tuple(shares)))
    return tuple(balances)


def _counts(clusters: IntArray, right: np.ndarray) -> IntArray:
    counted: IntArray = np.bincount(clusters, weights=right).astype(np.int64)
    return counted


def balance_status(balances: Sequence[LetterBalance]) -> BalanceStatus:
    """Return whether an imbalance is shown for any number of answers."""
    if any(balance.unbalanced for balance in balances):
        return "unbalanced"
    has_interval = any(
        not math.isnan(share.low) for balance in balances for share in balance.shares
    )
    return "balanced" if has_interval else "cannot tell"
