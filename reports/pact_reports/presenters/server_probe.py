"""The probe of a server."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pact_reports.presenters.presenter import Presenter
from pact_reports.sentences.requests import probe_lines

if TYPE_CHECKING:
    from pact_eval.scoring.servers.probe import ServerProbe


def present(probe: ServerProbe) -> Presenter:
    """Present what a probe found."""
    return Presenter(
        tables=partial(probe_lines, probe),
        to_json=lambda: {"probe": probe.to_json(), "faults": [*probe.faults]},
    )
