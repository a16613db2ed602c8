"""Presenters of gates and answer sets, of their checks, and of "May it act alone?"."""

from __future__ import annotations

from functools import partial

from pact_eval._json import Json
from pact_eval.thresholds.answer_sets import AnswerSets
from pact_eval.thresholds.checking import ThresholdsCheck
from pact_eval.thresholds.choice import Thresholds
from pact_eval.thresholds.conclusion import Acting, acting
from pact_eval.thresholds.files import thresholds_json
from pact_eval.thresholds.set_checking import AnswerSetsCheck
from pact_eval.thresholds.set_files import answer_sets_json
from pact_reports.presenters.presenter import Presenter
from pact_reports.sentences.notes import warning_sentence
from pact_reports.sentences.thresholds import (
    acting_answer,
    check_answer,
    check_warnings,
    sets_answer,
    sets_check_answer,
    sets_check_warnings,
    thresholds_answer,
)
from pact_reports.tables.answer_sets import sets_check_parts, sets_parts
from pact_reports.tables.thresholds import check_parts, thresholds_parts
from pact_reports.writers.json import conclusion_json, to_json, warnings_json


def present_acting(conclusion: Acting) -> Presenter:
    """Present the conclusion to "May it act alone?" of a run that no gate can be tested on."""
    return Presenter(
        acting_answer(conclusion), tuple, lambda: {"answer": conclusion_json(conclusion)}
    )


def present_thresholds(thresholds: Thresholds) -> Presenter:
    """Present the gates of a run."""
    return Presenter(
        thresholds_answer(thresholds),
        partial(thresholds_parts, thresholds),
        lambda: {
            "answer": conclusion_json(acting(thresholds)),
            "thresholds": thresholds_json(thresholds),
            "gates": to_json(thresholds.gates),
            "alternatives": to_json(thresholds.alternatives),
            "warnings": warnings_json(thresholds.warnings),
        },
        tuple(map(warning_sentence, thresholds.warnings)),
    )


def present_answer_sets(sets: AnswerSets) -> Presenter:
    """Present the answer sets of a run."""
    answer = sets_answer(sets)
    return Presenter(
        answer,
        partial(sets_parts, sets),
        lambda: {
            "answer": answer,
            "sets": answer_sets_json(sets),
            "kinds": to_json(sets.kinds),
            "groups": to_json(sets.groups),
            "alternatives": to_json(sets.alternatives),
            "warnings": warnings_json(sets.warnings),
        },
        tuple(map(warning_sentence, sets.warnings)),
    )


def present_thresholds_check(check: ThresholdsCheck) -> Presenter:
    """Present a check of gates on another run."""
    answer, warnings = check_answer(check), tuple(check_warnings(check))

    def as_json() -> dict[str, Json]:
        return {
            "thresholds": str(check.file.path),
            "run": check.run.place,
            "verdict": check.verdict,
            "gates": to_json(check.gates),
            "differences": to_json(check.differences),
            "model_known": check.model_known,
            "items_without_gate": check.without_gate,
            "answer": answer,
            "warnings": [*warnings],
        }

    return Presenter(answer, partial(check_parts, check), as_json, warnings)


def present_answer_sets_check(check: AnswerSetsCheck) -> Presenter:
    """Present a check of answer sets on another run."""
    answer, warnings = sets_check_answer(check), tuple(sets_check_warnings(check))

    def as_json() -> dict[str, Json]:
        return {
            "sets": str(check.file.path),
            "run": check.run.place,
            "verdict": check.verdict,
            "kinds": to_json(check.kinds),
            "groups": to_json(check.groups),
            "differences": to_json(check.differences),
            "model_known": check.model_known,
            "items_without_sets": check.without_sets,
            "unanswered": check.unanswered,
            "answer": answer,
            "warnings": [*warnings],
        }

    return Presenter(answer, partial(sets_check_parts, check), as_json, warnings)
