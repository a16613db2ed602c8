"""The parts of a training file that was split."""

from __future__ import annotations

from collections.abc import Sequence

from pact_eval.data.splits import SplitPart
from pact_reports.presenters.presenter import Presenter
from pact_reports.tables.dataset import split_table
from pact_reports.writers.json import to_json


def present(parts: Sequence[SplitPart]) -> Presenter:
    """Present the parts."""
    return Presenter(tables=lambda: [split_table(parts)], to_json=lambda: {"parts": to_json(parts)})
