"""A registration of criteria."""

from __future__ import annotations

from pathlib import Path

from pact_eval.preregistration.registration import Lock
from pact_reports.presenters.presenter import Presenter
from pact_reports.table import Line


def present(lock: Lock, path: Path | None = None) -> Presenter:
    """Present a registration; JSON is the content of its file.

    Args:
        lock: the registration.
        path: its file.
    """
    place = "" if path is None else f"{path}: "
    return Presenter(
        tables=lambda: [
            Line(f"{place}registered at {lock.registered_at.isoformat()}", unbroken=True)
        ],
        to_json=lambda: lock.recorded,
    )
