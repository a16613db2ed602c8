"""Ablated contexts that were written."""

from __future__ import annotations

from collections.abc import Iterable

from pact_eval.data.ablated_records import AblatedFile
from pact_eval.errors import RecordError
from pact_eval.plain_text import error_text
from pact_reports.presenters.presenter import Presenter
from pact_reports.table import Line
from pact_reports.writers.json import to_json


def present(written: AblatedFile) -> Presenter:
    """Present a file of ablated contexts, and the pairs that have none."""
    counts = f"{written.records:,} ablated contexts of {written.families:,} families"

    def remarks() -> Iterable[Line]:
        error = RecordError(str(written.source), written.problems)
        return (Line(line, unbroken=True) for line in error_text(error).splitlines())

    return Presenter(
        tables=lambda: [Line(f"{counts} in {written.path}", unbroken=True)],
        to_json=lambda: {"ablated": to_json(written)},
        remarks=remarks,
    )
