"""Print the report on a run: shared by `score`, `import` and `report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pact_cli.console import output, print_json, warn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from pact_eval.evaluation import GroupBy
    from pact_eval.predictions import Decoding
    from pact_eval.runs import AblatedRun, Run
    from pact_eval.strict_json import Json

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
    """Read a run, on whole or on ablated contexts, evaluate it and print the report to stdout."""
    # Imported here so that `pact-eval --help` does not wait for polars and scipy.
    from pact_eval.runs import read_any_run
    from pact_reports.evaluation_tables import heading

    run = read_any_run(folder)
    value, parts = _evaluated(run, request)
    if request.as_json:
        print_json(value)
        return
    console = output()
    console.print(heading(str(folder), run.provenance))
    for part in parts:
        console.print(part)


def _evaluated(
    run: Run | AblatedRun, request: ReportRequest
) -> tuple[dict[str, Json], Iterable[RenderableType]]:
    """Return the report as JSON, and as what a terminal shows."""
    import numpy as np

    from pact_eval.evaluation import evaluate, evaluate_ablated
    from pact_eval.run_calibration import calibrator_for
    from pact_eval.runs import AblatedRun
    from pact_reports.ablated_report import ablated_json, ablated_report
    from pact_reports.evaluation_json import evaluation_json
    from pact_reports.evaluation_tables import evaluation_report

    calibrator = None
    if request.calibration is not None:
        calibrator, warnings = calibrator_for(
            request.calibration, run.predictions, request.decoding
        )
        warn(warnings)
    how: dict[str, Any] = {
        "decoding": request.decoding,
        "by": request.by,
        "rng": np.random.default_rng(request.bootstrap_seed),
        "resamples": request.resamples,
        "calibrator": calibrator,
    }
    console = output()
    layout: dict[str, Any] = {"width": console.width, "plain": not console.is_terminal}
    with output(to_stderr=True).status("Computing intervals"):
        if isinstance(run, AblatedRun):
            ablated = evaluate_ablated(run.predictions, **how)
            return ablated_json(ablated, run.provenance), ablated_report(ablated, **layout)
        evaluation = evaluate(run.predictions, **how)
    return evaluation_json(evaluation, run.provenance), evaluation_report(evaluation, **layout)
