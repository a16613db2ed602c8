"""The answer sets of a run."""

from __future__ import annotations

from functools import partial

from pact_eval.thresholds.answer_sets import AnswerSets
from pact_eval.thresholds.set_files import answer_sets_json
from pact_reports.presenters.presenter import Presenter
from pact_reports.sentences.thresholds import sets_answer
from pact_reports.tables.answer_sets import sets_parts
from pact_reports.writers.json import to_json, warnings_json


def present(sets: AnswerSets) -> Presenter:
    """Present the answer sets of a run."""
    answer = sets_answer(sets)
    return Presenter(
        tables=partial(sets_parts, sets),
        to_json=lambda: {
            "answer": answer,
            "sets": answer_sets_json(sets),
            "kinds": to_json(sets.kinds),
            "groups": to_json(sets.groups),
            "alternatives": to_json(sets.alternatives),
            "warnings": warnings_json(sets.warnings),
        },
        headline=lambda: [answer],
        warnings=[*map(str, sets.warnings)],
    )
