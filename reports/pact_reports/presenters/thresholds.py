"""The gates of a run."""

from __future__ import annotations

from functools import partial

from pact_eval.thresholds.choice import Thresholds
from pact_eval.thresholds.conclusion import acting
from pact_eval.thresholds.files import thresholds_json
from pact_reports.presenters.presenter import Presenter
from pact_reports.tables.thresholds import thresholds_parts
from pact_reports.writers.json import conclusion_json, to_json, warnings_json


def present(thresholds: Thresholds) -> Presenter:
    """Present the gates of a run."""
    return Presenter(
        tables=partial(thresholds_parts, thresholds),
        to_json=lambda: {
            "answer": conclusion_json(acting(thresholds)),
            "thresholds": thresholds_json(thresholds),
            "gates": to_json(thresholds.gates),
            "alternatives": to_json(thresholds.alternatives),
            "warnings": warnings_json(thresholds.warnings),
        },
        headline=lambda: [str(acting(thresholds).words)],
        warnings=[*map(str, thresholds.warnings)],
    )
