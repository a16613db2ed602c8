"""Remedies of the order effects of a run."""

from __future__ import annotations

from functools import partial

from pact_eval.evaluation.conclusions.data import DataLeak
from pact_eval.remedies.comparison import RemedyComparison
from pact_reports.presenters.presenter import Presenter
from pact_reports.sentences.notes import note_sentence
from pact_reports.sentences.remedies import fit_sentences, remedies_answer, sequential_answer
from pact_reports.tables.remedies import remedies_parts
from pact_reports.writers.json import to_json


def present(comparison: RemedyComparison, *, leak: DataLeak | None = None) -> Presenter:
    """Present the remedies of a run.

    Args:
        comparison: the remedies.
        leak: that of the data behind the run.
    """
    sequential = comparison.sequential
    return Presenter(
        tables=partial(remedies_parts, comparison),
        to_json=lambda: {
            "answer": {
                "status": comparison.status,
                "helping": list(comparison.helping),
                "enough": comparison.enough,
                "sequential": None if sequential is None else sequential.status,
            },
            "remedies": to_json(comparison),
        },
        answers=lambda: _answers(comparison),
        warnings=[*map(note_sentence, comparison.notes), *fit_sentences(comparison.fit_notes)],
        leak=lambda: leak,
    )


def _answers(comparison: RemedyComparison) -> list[str]:
    sequential = comparison.sequential
    return [
        *([] if sequential is None else [sequential_answer(sequential)]),
        remedies_answer(comparison),
    ]
