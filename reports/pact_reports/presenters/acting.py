"""Conclusion on acting alone for a run that no gate can be tested on."""

from __future__ import annotations

from pact_eval.thresholds.conclusion import Acting
from pact_reports.presenters.presenter import Presenter
from pact_reports.writers.json import conclusion_json


def present(conclusion: Acting) -> Presenter:
    """Present a conclusion without gates."""
    return Presenter(
        tables=tuple,
        to_json=lambda: {"answer": conclusion_json(conclusion)},
        headline=lambda: [str(conclusion.words)],
    )
