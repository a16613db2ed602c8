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
_OWN: Final = ("id", "family", "source_family")


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
        raise InputError(f"{place}: no column {QUESTION} says which item asks what; logs have one")
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
    facts = item_facts(run, QUESTION)
    if QUESTION not in facts.columns:
        return False
    return several_questions(question_texts(facts[QUESTION]), facts["family"].to_numpy())


def item_facts(run: ExperimentRun, *columns: str) -> pl.DataFrame:
    """Return id and families of the answered items of a run, and the further columns that it has.

    Args:
        run: a run; the rows of a large one are not read.
        columns: names of further columns.
    """
    if run.in_memory:
        views = run.predictions
        own = {"id": views.ids, "family": views.family, "source_family": views.source_family}
        facts = pl.DataFrame({name: values.tolist() for name, values in own.items()})
        known = () if views.metadata is None else views.metadata.columns
        kept = [name for name in columns if name in known]
        return facts if views.metadata is None else facts.hstack(views.metadata.select(kept))
    path = run.run.predictions_file
    scan = pl.scan_parquet(path, glob=False)
    names = scan.collect_schema().names()
    kept = [PREFIX + name for name in columns if PREFIX + name in names]
    rows = collected(path, scan.filter(pl.col("view") == 0).select(*_OWN, *kept))
    return without_prefix(rows)


def without_prefix(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows of a file with the own names of further columns."""
    return rows.rename({name: name.removeprefix(PREFIX) for name in rows.columns})
