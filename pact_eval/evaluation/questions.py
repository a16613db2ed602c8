"""The questions of a run: which item asks which, and whether each is asked again and again."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from pact_eval._typing import TextArray
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.labels import MISSING
from pact_eval.runs.rows import PREFIX, collected

QUESTION: Final = "question"
"""The column of logs and data sets with the name of the question of every item."""

FEWEST_FAMILIES: Final = 10
"""A question is asked again if so many families have it."""

_SHARE: Final = 0.5


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


def questions_of(metadata: pl.DataFrame | None, rows: int, place: str) -> TextArray:
    """Return (n,) the name of the question of each item.

    Args:
        metadata: further columns of the items; None without any.
        rows: number of items.
        place: the run, for messages.

    Raises:
        InputError: there are items, and no column of questions.
    """
    if rows and (metadata is None or QUESTION not in metadata.columns):
        message = f"{place}: no column {QUESTION} says which item asks what; logs have one"
        raise InputError(message)
    return question_texts(pl.Series([]) if metadata is None or not rows else metadata[QUESTION])


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


def has_several_questions(run: ExperimentRun) -> bool:
    """Return whether the items of a run are of several questions; see `several_questions`."""
    if run.in_memory:
        views = run.predictions
        if views.metadata is None or QUESTION not in views.metadata.columns:
            return False
        return several_questions(question_texts(views.metadata[QUESTION]), views.family)
    path = run.run.predictions_file
    scan, column = pl.scan_parquet(path, glob=False), PREFIX + QUESTION
    if column not in scan.collect_schema():
        return False
    rows = collected(path, scan.filter(pl.col("view") == 0).select(column, "family"))
    return several_questions(question_texts(rows[column]), rows["family"].to_numpy())
