"""The drift between two runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pact_eval._json import Json
from pact_eval.drift.drift import Drift
from pact_eval.numbers import GENERALISATION
from pact_reports.presenters.presenter import Presenter
from pact_reports.sentences.drift import drift_answer
from pact_reports.tables.drift import drift_parts
from pact_reports.writers.json import answer_json, to_json, warnings_json

if TYPE_CHECKING:
    from pact_eval.drift.tempering import ServedTempering
    from pact_reports.ci.report import CiReport


def present(drift: Drift) -> Presenter:
    """Present the drift between two runs."""
    return Presenter(
        tables=partial(drift_parts, drift),
        to_json=partial(_json, drift),
        headline=lambda: [drift_answer(drift)],
        warnings=[*map(str, drift.warnings)],
        leak=lambda: drift.data.leak,
        ci=partial(_ci, drift),
    )


def tempering_json(tempering: ServedTempering) -> dict[str, Json]:
    """Return the temperatures of a served run and a local run as JSON."""
    sides: dict[str, Json] = {
        "local": to_json(tempering.local),
        "served": to_json(tempering.served),
    }
    return {**sides, "found": to_json(tempering.temperings)}


def _ci(drift: Drift) -> CiReport:
    from pact_reports.ci.gates import drift_report

    return drift_report(drift)


def _json(drift: Drift) -> dict[str, Json]:
    """Return the parts of a drift; those without a counterpart are null or empty."""
    first, second = (run.place for run in drift.runs)
    parts = ("pairing", "differences", "accuracy", "metrics", "answers", "distance")
    return {
        "answer": answer_json([drift.data]) | {"drift": drift_answer(drift)},
        "a": first,
        "b": second,
        "finding": drift.finding,
        "decoding": {**drift.settings.label},
        "views": drift.views,
        "intervals": GENERALISATION[drift.settings.unit],
        **{name: to_json(getattr(drift, name)) for name in parts},
        "temperatures": to_json(drift.temperings),
        "gates": to_json(drift.gates),
        "mix": to_json(drift.mix),
        "warnings": warnings_json(drift.warnings),
    }
