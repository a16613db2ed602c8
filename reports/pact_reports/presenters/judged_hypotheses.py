"""Hypotheses with their verdicts: the scorecard."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pact_eval._choices import Demand
from pact_eval._json import Json
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.preregistration.criteria import describe_check
from pact_eval.preregistration.run_scorecard import JudgedHypotheses
from pact_eval.preregistration.scorecard import JudgedCheck
from pact_reports.presenters.presenter import Presenter
from pact_reports.sentences.answers import scorecard_answer
from pact_reports.tables.scorecard import scorecard_parts
from pact_reports.writers.json import to_json, warnings_json

if TYPE_CHECKING:
    from pact_reports.ci.report import CiReport


def present(
    judged: JudgedHypotheses,
    names: ArmNames = KEYS,
    criteria: Path | None = None,
    demand: Demand | None = None,
) -> Presenter:
    """Present a scorecard: verdicts, evidence, registration.

    Args:
        judged: the hypotheses.
        names: display names of arms.
        criteria: the file of the hypotheses.
        demand: what a verdict must be clear by, if that is demanded in CI.
    """
    return Presenter(
        tables=partial(scorecard_parts, judged, names),
        to_json=partial(_json, judged),
        answers=lambda: [scorecard_answer(judged)],
        warnings=[*map(str, judged.warnings)],
        ci=None if criteria is None or demand is None else partial(_ci, judged, criteria, demand),
    )


def _ci(judged: JudgedHypotheses, criteria: Path, demand: Demand) -> CiReport:
    from pact_reports.ci.gates import scorecard_report

    return scorecard_report(judged, criteria, demand)


def _json(judged: JudgedHypotheses) -> dict[str, Json]:
    registration = judged.registration
    registered_at = registration.registered_at
    return {
        "hypotheses": [
            {
                "id": result.hypothesis.id,
                "title": result.hypothesis.title,
                "claim": result.hypothesis.claim,
                "verdict": result.verdict,
                "shown": result.shown,
                "conclusion": result.conclusion,
                "refuted_by": [*map(str, result.refuted_by)],
                "because": result.because,
                "checks": [*map(_check, result.checks)],
                "beside": [*map(_check, result.beside)],
            }
            for result in judged.scorecard.results
        ],
        "registration": {
            "status": registration.status,
            "reasons": list(registration.reasons),
            "registered_at": None if registered_at is None else registered_at.isoformat(),
        },
        "warnings": warnings_json(judged.warnings),
    }


def _check(result: JudgedCheck) -> Json:
    return {
        "says": result.check.says,
        "decides": describe_check(result.check),
        "summary": result.summary,
        "shown": result.shown,
        "needs": result.check.needs,
        "comparisons": [*map(to_json, result.comparisons)],
    }
