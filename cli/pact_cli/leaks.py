"""Leaks: which data commands that read runs look at, and how they end if items of a run leak."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pact_cli.commands import from_settings
from pact_cli.console import output
from pact_eval.errors import GateError, TamperedError

if TYPE_CHECKING:
    from pact_eval.evaluation.conclusions.data import DataConclusion


def named_data(data: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the datasets of `--data` that are audited: those of the command line.

    A dataset that the settings of the project name need not be that of the runs.
    """
    return () if from_settings("data") else data


def print_leak(conclusion: DataConclusion, *, to_stderr: bool = False) -> None:
    """Print what leaks, or leaked and is left out; nothing if nothing does."""
    from pact_reports.sentences.data import leak_lines
    from pact_reports.writers.terminal import show

    show(output(to_stderr=to_stderr), leak_lines(conclusion.leak))


def exit_on_leak(conclusions: Sequence[DataConclusion]) -> None:
    """Exit with 5 if data are not those of their manifest, with 3 if they leak; all is printed."""
    if any(conclusion.tampered for conclusion in conclusions):
        click.get_current_context().exit(TamperedError.exit_code)
    if any(conclusion.status == "leak" for conclusion in conclusions):
        click.get_current_context().exit(GateError.exit_code)
