"""The questions of a run: which item asks which, and whether each is asked again and again."""

from __future__ import annotations

from typing import Final

import polars as pl

from pact_eval._typing import TextArray
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.runs.questions import QUESTION, question_texts, several_questions
from pact_eval.runs.rows import PREFIX, collected

_OWN: Final = ("id", "family", "source_family")


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
