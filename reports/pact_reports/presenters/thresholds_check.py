"""The check of gates on another run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pact_eval.thresholds.checking import ThresholdsCheck
from pact_reports.presenters.presenter import Presenter
from pact_reports.sentences.thresholds import check_answer, check_warnings
from pact_reports.tables.thresholds import check_parts
from pact_reports.writers.json import to_json

if TYPE_CHECKING:
    from pact_reports.ci.report import CiReport


def present(check: ThresholdsCheck) -> Presenter:
    """Present a check of gates."""
    answer, warnings = check_answer(check), [*check_warnings(check)]
    return Presenter(
        tables=partial(check_parts, check),
        to_json=lambda: {
            "thresholds": str(check.file.path),
            "run": check.run.place,
            "verdict": check.verdict,
            "gates": to_json(check.gates),
            "differences": to_json(check.differences),
            "model_known": check.model_known,
            "items_without_gate": check.without_gate,
            "answer": answer,
            "warnings": [*warnings],
        },
        headline=lambda: [answer],
        warnings=warnings,
        ci=partial(_ci, check),
    )


def _ci(check: ThresholdsCheck) -> CiReport:
    from pact_reports.ci.gates import thresholds_report

    return thresholds_report(check)
