"""A report on disk, compared with the runs that it says it was made from."""

from __future__ import annotations

from functools import partial

from pact_eval.verification.report_file import CheckedReport
from pact_reports.presenters.presenter import Presenter
from pact_reports.tables.verification import report_lines
from pact_reports.writers.json import to_json


def present(report: CheckedReport) -> Presenter:
    """Present a report that was compared with runs."""
    return Presenter(
        tables=partial(report_lines, report), to_json=lambda: {"report": to_json(report)}
    )
