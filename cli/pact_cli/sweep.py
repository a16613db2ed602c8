"""`pact-eval sweep`: a run at every number of views."""

from __future__ import annotations

import re
from pathlib import Path

import click

from pact_cli.console import output, print_json, warn
from pact_cli.options import bootstrap_options, calibration_option, json_option, path_argument

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

    from pact_eval.run_calibration import calibrator_for
    from pact_eval.runs import read_run
    from pact_eval.sweep import sweep as sweep_run
    from pact_reports.json_values import to_json
    from pact_reports.sweep_table import sweep_table

    predictions = read_run(run).predictions
    calibrator = None
    if calibration is not None:
        calibrator, warnings = calibrator_for(calibration, predictions)
        warn(warnings)
    points = sweep_run(
        predictions,
        _range(views, predictions.k),
        rng=np.random.default_rng(bootstrap_seed),
        resamples=resamples,
        calibrator=calibrator,
    )
    if as_json:
        print_json({"run": str(run), "points": to_json(points)})
        return
    console = output()
    console.print(sweep_table(points, plain=not console.is_terminal))


def _range(text: str | None, most: int) -> range:
    if text is None:
        return range(1, most + 1)
    match = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", text)
    if match is None:
        message = f"--k: expected a number or FROM..TO, got {text!r}"
        raise click.UsageError(message)
    first = int(match[1])
    return range(first, int(match[2] or first) + 1)
