"""`pact-eval report`: the numbers of one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pact_cli.options import calibration_option, json_option, path_argument, report_options
from pact_cli.reporting import ReportRequest, print_report

__all__ = ["report"]


@click.command()
@path_argument("run", "RUN")
@report_options
@calibration_option
@json_option
def report(run: Path, **options: Any) -> None:
    """Show every number of RUN, with intervals over families.

    Of a run on ablated contexts: confidence, gap of the two answers, TV, flips and code mass.
    """
    print_report(run, ReportRequest(**options))
