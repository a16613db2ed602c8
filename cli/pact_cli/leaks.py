"""Leaks: which data commands that read runs look at, and how they end if items of a run leak."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pact_cli.commands import from_settings
from pact_eval.errors import GateError, TamperedError

if TYPE_CHECKING:
    from pact_eval.evaluation.conclusions.data import DataConclusion


def named_data(data: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the datasets of `--data` that are audited: those of the command line.

    A dataset that the settings of the project name need not be that of the runs.
    """
    return () if from_settings("data") else data


def exit_on_leak(conclusions: Sequence[DataConclusion]) -> None:
    """Exit with 5 if data are not those of their manifest, with 3 if they leak; all is printed."""
    if any(conclusion.tampered for conclusion in conclusions):
        click.get_current_context().exit(TamperedError.exit_code)
    if any(conclusion.status == "leak" for conclusion in conclusions):
        click.get_current_context().exit(GateError.exit_code)
