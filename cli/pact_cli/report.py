"""`pact-eval report`: the numbers of runs, in the terminal, on one page, and in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pact_cli.options import (
    calibration_option,
    json_option,
    report_files_options,
    report_options,
)
from pact_cli.report_files import ReportFiles, refuse_terminal_options, write_report
from pact_cli.reporting import ReportRequest, print_reports

__all__ = ["report"]

_FILES = ("html", "figures", "palette", "latex", "markdown", "data", "criteria", "method")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@report_options
@calibration_option
@report_files_options
@json_option
@click.pass_context
def report(context: click.Context, /, runs: tuple[Path, ...], **options: Any) -> None:
    """Show every number of RUN, with intervals over families.

    Several RUNs are reported in turn; with --json, as one object {"runs": [...]}. Of a run on
    ablated contexts: confidence, gap of the two answers, TV, flips and answer mass.

    With --html, --figures, --latex or --markdown nothing but the paths is printed: one page that
    opens offline, with verdicts, diagnostics, figures, tables and every item; or the parts of a
    paper. Runs are calibrated there by the calibration.json in their folders. Exits with 5
    where the criteria are not what was registered, or were registered after a run began.
    """
    files = ReportFiles(**{name: options.pop(name) for name in _FILES})
    request = ReportRequest(**options)
    files.check(request)
    if not files.any:
        print_reports(runs, request)
        return
    refuse_terminal_options(context, request)
    context.exit(write_report(runs, files, request))
