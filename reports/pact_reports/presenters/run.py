"""A run: its card, and its values in `report --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pact_reports.presenters.presenter import Presenter

if TYPE_CHECKING:
    from pact_eval.runs.folder import Run


def present(run: Run) -> Presenter:
    """Present a run as a card; its JSON is the key `run` of a report."""
    from pact_reports.tables.run_card import run_card

    return Presenter(
        tables=lambda: (run_card(run),),
        to_json=lambda: {"run": dict(run.provenance.recorded)},
    )
