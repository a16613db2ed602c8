"""The reports on all runs of a command, as one object."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pact_eval._json import Json
from pact_eval.evaluation.experiment import RunReport
from pact_eval.evaluation.joins import SkippedRun
from pact_reports.presenters.presenter import Presenter


def present(
    reports: Sequence[tuple[RunReport, Presenter]],
    skipped: Sequence[SkippedRun],
    left_out: Sequence[Json],
) -> Presenter:
    """Present reports.

    Args:
        reports: each with its presenter.
        skipped: runs that were skipped.
        left_out: warnings on files that are not runs, as JSON values.
    """
    return Presenter(
        tables=lambda: (part for _, presenter in reports for part in presenter.tables()),
        to_json=partial(_json, reports, skipped, left_out),
        warnings=[sentence for _, presenter in reports for sentence in presenter.warnings],
        blocks=lambda: (block for _, presenter in reports for block in presenter.printed()),
    )


def _json(
    reports: Sequence[tuple[RunReport, Presenter]],
    skipped: Sequence[SkippedRun],
    left_out: Sequence[Json],
) -> dict[str, Json]:
    """Return the JSON of the one report, or of all by folder."""
    from pact_reports.writers.json import warnings_json

    if len(reports) == 1 and not skipped:
        (report, presenter) = reports[0]
        warnings = [*left_out, *warnings_json(report.warnings)]
        return presenter.to_json() | {"warnings": warnings}
    return {
        "runs": [
            {"folder": report.run.place, **presenter.to_json()} for report, presenter in reports
        ],
        "warnings": [*left_out, *warnings_json(skipped)],
    }
