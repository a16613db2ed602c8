"""The names of the questions of items, and whether each is asked again and again."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from pact_eval._typing import TextArray

QUESTION: Final = "question"
"""The column of logs and data sets with the name of the question of every item."""

FEWEST_FAMILIES: Final = 10
"""A question is asked again if so many families have it."""

_SHARE: Final = 0.5

MISSING: Final = "(missing)"
"""Name of the group of items without a value."""


def question_texts(column: pl.Series) -> TextArray:
    """Return the names of questions as texts; numbers without needless digits.

    Examples:
        >>> question_texts(pl.Series([1.0, None])).tolist()
        ['1', '(missing)']
    """
    if column.dtype.is_numeric():
        texts = [None if x is None else f"{x:.15g}" for x in column.to_list()]
        column = pl.Series(texts, dtype=pl.String)
    return column.cast(pl.String).fill_null(MISSING).to_numpy().astype(np.object_)


def several_questions(names: TextArray, families: TextArray) -> bool:
    """Return whether items are of several questions, not each of its own.

    Args:
        names: (n,) the question of each item.
        families: (n,) their families.

    Returns:
        Whether two questions or more have `FEWEST_FAMILIES` families each, and half of the items.

    Examples:
        >>> ids = np.arange(40).astype(str)
        >>> several_questions(np.array(["spam", "refund"] * 20), ids)
        True
        >>> several_questions(np.array([f"Who was {name}?" for name in ids]), ids)
        False
    """
    frame = pl.DataFrame({"name": names.astype(str), "family": families.astype(str)})
    counts = frame.group_by("name").agg(pl.len(), pl.col("family").n_unique())
    asked_again = counts.filter(pl.col("family") >= FEWEST_FAMILIES)
    return len(asked_again) > 1 and asked_again["len"].sum() >= _SHARE * len(frame)
