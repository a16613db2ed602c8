"""`pact-eval sweep`: a run at every number of views."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pact_cli.console import output, print_json, warn
from pact_cli.options import bootstrap_options, calibration_option, json_option, path_argument

if TYPE_CHECKING:
    from pact_eval._json import Json
    from pact_eval.evaluation import Calibration

__all__ = ["sweep"]


@click.command()
@path_argument("run", "RUN")
@click.option(
    "--k",
    "views",
    metavar="FROM..TO",
    help="Numbers of views, such as 1..4, or one number. Default: 1 to all of the run's.",
)
@bootstrap_options
@calibration_option
@json_option
def sweep(
    run: Path,
    views: str | None,
    resamples: int | None,
    bootstrap_seed: int,
    calibration: Path | None,
    as_json: bool,
) -> None:
    """Show accuracy, NLL, ECE, TV and flips of RUN at every number of views.

    Views are taken in their order; K = 1 is the canonical one alone. TV and flips are of the raw
    views.
    """
    import numpy as np

    from pact_eval.calibration import calibrator_for
    from pact_eval.evaluation import sweep as sweep_run
    from pact_eval.runs import read_run
    from pact_reports.plain_text import one_line
    from pact_reports.table import Line
    from pact_reports.tables.sweep import sweep_table
    from pact_reports.writers.json import to_json
    from pact_reports.writers.terminal import show

    predictions = read_run(run).predictions
    calibrator = None
    if calibration is not None:
        calibrator, warnings = calibrator_for(calibration, predictions, "ensemble")
        warn(warnings)
    with output(to_stderr=True).status("Computing intervals"):
        points = sweep_run(
            predictions,
            _range(views, predictions.k),
            rng=np.random.default_rng(bootstrap_seed),
            resamples=resamples,
            calibrator=calibrator,
        )
    made: Calibration = "raw" if calibrator is None else "calibrated"
    if as_json:
        decoding: dict[str, Json] = {"views": "ensemble", "calibration": made}
        print_json({"run": str(run), "decoding": decoding, "points": to_json(points)})
        return
    show(output(), [Line(one_line(str(run)), "strong"), sweep_table(points, made)])


def _range(text: str | None, most: int) -> range:
    if text is None:
        return range(1, most + 1)
    match = re.fullmatch(r"(\d{1,9})(?:\.\.(\d{1,9}))?", text)
    if match is None:
        message = f"--k: expected a number or FROM..TO, got {text!r}"
        raise click.UsageError(message)
    first = int(match[1])
    return range(first, int(match[2] or first) + 1)
