"""How a command ends after all is printed: exit codes of leaks, of tampered data, of findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import click

from pact_eval.errors import GateError, TamperedError
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_reports.cases import EXIT_CODES, STATUS_OF


def exit_on_leak(conclusions: Sequence[DataConclusion]) -> None:
    """Exit with 5 if data are not those of their manifest, with 3 if they leak; all is printed."""
    if any(conclusion.tampered for conclusion in conclusions):
        click.get_current_context().exit(TamperedError.exit_code)
    if any(conclusion.status == "leak" for conclusion in conclusions):
        click.get_current_context().exit(GateError.exit_code)


def exit_as(finding: str) -> NoReturn:
    """Exit as a finding demands, such as 4 if it is that nobody can tell; all is printed."""
    click.get_current_context().exit(EXIT_CODES[STATUS_OF[finding]])
