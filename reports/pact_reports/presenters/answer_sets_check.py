"""The check of answer sets on another run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pact_eval.thresholds.set_checking import AnswerSetsCheck
from pact_reports.presenters.presenter import Presenter
from pact_reports.sentences.thresholds import sets_check_answer, sets_check_warnings
from pact_reports.tables.answer_sets import sets_check_parts
from pact_reports.writers.json import to_json

if TYPE_CHECKING:
    from pact_reports.ci.report import CiReport


def present(check: AnswerSetsCheck) -> Presenter:
    """Present a check of answer sets."""
    answer, warnings = sets_check_answer(check), [*sets_check_warnings(check)]
    return Presenter(
        tables=partial(sets_check_parts, check),
        to_json=lambda: {
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
        },
        headline=lambda: [answer],
        warnings=warnings,
        ci=partial(_ci, check),
    )


def _ci(check: AnswerSetsCheck) -> CiReport:
    from pact_reports.ci.gates import sets_report

    return sets_report(check)
