"""Print the report on a run: shared by `score`, `import` and `report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pact_cli.console import output, print_json, warn

if TYPE_CHECKING:
    from pact_eval.evaluation import GroupBy
    from pact_eval.predictions import Decoding

__all__ = ["ReportRequest", "print_report"]


@dataclass(frozen=True)
class ReportRequest:
    """What the report shows.

    Attributes:
        by: what items are grouped by.
        decoding: single or ensemble.
        resamples: bootstrap resamples; None leaves it to the number of items.
        bootstrap_seed: seed of the bootstrap.
        as_json: one JSON object instead of tables.
        calibration: file of the calibrator to apply; None leaves the distributions raw.
    """

    by: GroupBy = "kind"
    decoding: Decoding = "single"
    resamples: int | None = None
    bootstrap_seed: int = 0
    as_json: bool = False
    calibration: Path | None = None


def print_report(folder: Path, request: ReportRequest) -> None:
    """Read a run, evaluate it and print the report to stdout."""
    # Imported here so that `pact-eval --help` does not wait for polars and scipy.
    import numpy as np

    from pact_eval.evaluation import evaluate
    from pact_eval.run_calibration import calibrator_for
    from pact_eval.runs import read_run
    from pact_reports.evaluation_json import evaluation_json
    from pact_reports.evaluation_tables import evaluation_report, heading

    run = read_run(folder)
    calibrator = None
    if request.calibration is not None:
        calibrator, warnings = calibrator_for(request.calibration, run.predictions)
        warn(warnings)
    with output(to_stderr=True).status("Computing intervals"):
        evaluation = evaluate(
            run.predictions,
            decoding=request.decoding,
            by=request.by,
            rng=np.random.default_rng(request.bootstrap_seed),
            resamples=request.resamples,
            calibrator=calibrator,
        )
    if request.as_json:
        print_json(evaluation_json(evaluation, run.provenance))
        return
    console = output()
    console.print(heading(str(folder), run.provenance))
    plain = not console.is_terminal
    for part in evaluation_report(evaluation, width=console.width, plain=plain):
        console.print(part)
