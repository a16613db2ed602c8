"""A fitted remedy: its letter prior and its temperature."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pact_eval.remedies.fitted import FittedRemedy, remedy_json
from pact_reports.presenters.presenter import Presenter
from pact_reports.tables.fitted_remedy import fitted_remedy_parts


def present(fitted: FittedRemedy, path: Path | None = None) -> Presenter:
    """Present a fitted remedy.

    Args:
        fitted: the remedy.
        path: its file, if it was written.
    """
    return Presenter(
        tables=partial(fitted_remedy_parts, fitted),
        to_json=lambda: {
            "file": None if path is None else str(path),
            "remedy": remedy_json(fitted),
        },
        warnings=[*map(str, fitted.warnings)],
    )
