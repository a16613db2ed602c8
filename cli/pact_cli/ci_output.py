"""Results for CI on stdout, and the step summary of GitHub Actions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pact_cli.console import output, print_json, warn

if TYPE_CHECKING:
    from pact_eval._choices import CiFormat
    from pact_reports.cases import CiReport

__all__ = ["print_ci"]

_SUMMARY = "GITHUB_STEP_SUMMARY"


def print_ci(report: CiReport, ci_format: CiFormat) -> None:
    """Print the cases and annotations of a result.

    Args:
        report: the result.
        ci_format: sarif, junit or github. github also appends Markdown to the file that the
            variable `GITHUB_STEP_SUMMARY` names.
    """
    if ci_format == "sarif":
        from pact_reports.writers.ci import to_sarif

        print_json(to_sarif(report))
    elif ci_format == "junit":
        from pact_reports.writers.ci import to_junit

        click.echo(to_junit(report))
    else:
        from pact_reports.writers.ci import to_github, to_step_summary

        console_file = output().file  # characters that the encoding lacks are replaced
        for line in to_github(report):
            click.echo(line, file=console_file)
        if path := os.environ.get(_SUMMARY):
            _append(Path(path), to_step_summary(report))


def _append(path: Path, text: str) -> None:
    """Append to a file that the other commands of the step write to as well.

    The exit code is that of the gate, so a file that cannot be written is a warning.
    """
    try:
        with path.open("ab") as file:
            file.write(text.encode())
    except OSError as error:
        warn([f"{path}: the step summary was not written: {error.strerror or error}"])
