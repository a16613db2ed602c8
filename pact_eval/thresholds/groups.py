"""The groups of items that share a gate.

The group of an item is what is known without its right answer: its kind, domain or question, or the
answer that the model gives. A gate of an answer therefore limits the share of wrong ones among the
accepted items with this answer, which is 1 minus the precision of the answer there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import polars as pl

from pact_eval._choices import GateGroups
from pact_eval._typing import BoolArray, TextArray
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.labels import MOST_TEXTS, ordered_groups
from pact_eval.evaluation.questions import QUESTION, questions_of, several_questions
from pact_eval.evaluation.run_records import item_texts
from pact_eval.runs.provenance import UNNAMED
from pact_eval.runs.rows import metadata_of_rows


def named_groups(
    run: ExperimentRun,
    scored: ScoredItems,
    without: pl.DataFrame,
    by: Literal["question", "answer"],
) -> TextArray:
    """Return the group of each item of a run, those without an answer last.

    Args:
        run: the run.
        scored: its items with an answer.
        without: its items without one; they are of no answer, "".
        by: the name of the question, or of the given answer, after the question if that is named.

    Raises:
        InputError: questions or answers have no names.
    """
    further, n = scored.predictions.metadata, len(scored.predictions)
    if by == "answer":
        return np.array([*_answers(run, scored), *[""] * len(without)], dtype=np.object_)
    answered = questions_of(further, n, run.place)
    others = questions_of(metadata_of_rows(without), len(without), run.place)
    return np.asarray(np.concatenate([answered, others]), dtype=np.object_)


def _answers(run: ExperimentRun, scored: ScoredItems) -> list[str]:
    """Return the answer that the model gives to each item, after the question if it is named."""
    views, texts = scored.predictions, item_texts(run)
    facts = zip(views.ids.tolist(), views.kind.tolist(), views.n_choices.tolist(), strict=True)
    names: list[str] = []
    for (item, kind, n), given in zip(facts, scored.predicted.tolist(), strict=True):
        if views.known in UNNAMED or not texts.knows(item, kind):
            raise InputError(
                f"{run.place}: the answers of {item} have no names, so they cannot be told apart; "
                "score it with its data file in place, or import it with --options"
            )
        names.append(texts.answers(item, kind, n)[given])
    further, log = views.metadata, run.provenance.recorded.get("log")
    if further is not None and QUESTION in further.columns:
        asked = questions_of(further, len(names), run.place)
        named = isinstance(log, dict) and "questions" in log
        if not (named or several_questions(asked, views.family)):
            return names
        names = [f"{question}/{name}" for question, name in zip(asked.tolist(), names, strict=True)]
    return names


def group_rows(columns: Mapping[str, TextArray], by: GateGroups) -> dict[str, BoolArray]:
    """Return which items belong to each group, kinds in their own order.

    Items without an answer belong to no group of an answer.

    Raises:
        InputError: there are more than `MOST_TEXTS` groups.
    """
    if by == "all":
        return {"all": np.ones(len(columns["family"]), dtype=np.bool_)}
    names = ordered_groups(sorted(set(columns[by].tolist()) - ({""} if by == "answer" else set())))
    if len(names) > MOST_TEXTS and by in ("question", "answer"):
        message = f"expected at most {MOST_TEXTS} {by}s with a gate each, got {len(names):,}"
        raise InputError(message)
    return {name: np.asarray(columns[by] == name, dtype=np.bool_) for name in names}
