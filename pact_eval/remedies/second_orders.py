"""Second orders of items: the reverse of the first, and another one.

A reverse second order is an antithetic pair: a preference for early letters, or for late ones, then
works against itself. Items of two answers have one second order, which is the reverse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pact_eval._typing import IntArray
from pact_eval.runs.predictions import Predictions

_NONE = -1


@dataclass(frozen=True)
class SecondOrderCounts:
    """Numbers of items with second orders among their views.

    Attributes:
        items: number of items.
        several: those of three answers or more.
        with_reverse: items that have the reverse of their first order.
        with_other: items that have another order than these two; of two answers, the reverse.
    """

    items: int
    several: int
    with_reverse: int
    with_other: int


@dataclass(frozen=True, eq=False)
class SecondOrders:
    """Views of second orders of every item.

    Attributes:
        reverse: (n,) view whose order is the reverse of that of view 0; -1 if there is none.
        other: (n,) first view with another order than these two; of two answers, the reverse; -1 if
            there is none.
        several: (n,) whether an item has three answers or more, so that these two can differ.
    """

    reverse: IntArray
    other: IntArray
    several: IntArray

    @property
    def complete(self) -> bool:
        """Whether every item has both, and some item has both of them different."""
        return bool((self.reverse >= 0).all() and (self.other >= 0).all() and self.several.any())

    @property
    def counts(self) -> SecondOrderCounts:
        """Numbers of items that have these orders."""
        return SecondOrderCounts(
            items=len(self.reverse),
            several=int(self.several.sum()),
            with_reverse=int((self.reverse >= 0).sum()),
            with_other=int((self.other >= 0).sum()),
        )


def second_orders(predictions: Predictions) -> SecondOrders:
    """Find second orders among the views of every item.

    Args:
        predictions: views whose letter orders are known.

    Examples:
        >>> import polars as pl
        >>> views = Predictions.from_frame(pl.DataFrame({
        ...     "id": ["a"] * 3, "family": "f", "source_family": "s", "domain": "d",
        ...     "kind": "choice", "variant": "base", "reference": 1, "n_choices": 3,
        ...     "view": [0, 1, 2], "code_order": [[0, 1, 2], [2, 0, 1], [2, 1, 0]],
        ...     "logits": [[0.0, 0.0, 0.0]] * 3, "prompt_tokens": 9, "answer_mass": 1.0}))
        >>> orders = second_orders(views)
        >>> orders.reverse.tolist(), orders.other.tolist(), orders.complete
        ([2], [1], True)
    """
    order, n_choices = predictions.code_order, predictions.n_choices[:, np.newaxis]
    places = np.arange(order.shape[2])
    used = places < n_choices
    mirrored = np.where(used, n_choices - 1 - places, places)
    first = order[:, :1]
    reverse_of_first = np.take_along_axis(first, mirrored[:, np.newaxis], axis=2)
    is_first, is_reverse = (
        ((order == compared) | ~used[:, np.newaxis]).all(axis=2)
        for compared in (first, reverse_of_first)
    )
    several = predictions.n_choices > 2
    is_other = ~is_first & (~is_reverse | ~several[:, np.newaxis])
    return SecondOrders(_first_view(is_reverse), _first_view(is_other), several.astype(np.int64))


def _first_view(shown: np.ndarray) -> IntArray:
    """Return (n,) the first view after view 0 that is marked; -1 without one."""
    later = shown[:, 1:]
    if not later.shape[1]:
        return np.full(len(shown), _NONE)
    return np.where(later.any(axis=1), later.argmax(axis=1) + 1, _NONE)
