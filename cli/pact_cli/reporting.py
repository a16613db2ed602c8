"""Print the report on a run: shared by `score`, `import` and `report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pact_cli.console import output, print_json, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pact_eval._json import Json
    from pact_eval.evaluation import GroupBy
    from pact_eval.runs import AblatedRun, Decoding, Run, RunFolder
    from pact_reports.table import Part

    _Report = tuple[dict[str, Json], tuple[Part, ...]]

__all__ = ["ReportRequest", "print_report", "print_reports"]


# Runs of more items are read slice by slice, without their texts and logits; same numbers.
_ITEMS_IN_MEMORY = 100_000


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
    from pact_eval.runs import open_run, read_any_run
    from pact_reports.tables.report import run_heading
    from pact_reports.writers.terminal import show

    about = open_run(folder)
    large = _evaluated_in_slices(about, request)
    value, parts = large or _evaluated(read_any_run(folder), request)
    if request.as_json:
        print_json(value)
        return
    show(output(), (*run_heading(str(folder), about.provenance), *parts))


def print_reports(folders: Sequence[Path], request: ReportRequest) -> None:
    """Print the report on each run in turn; with JSON, one object that holds all of them.

    Raises:
        click.UsageError: one calibrator was named for several runs.
    """
    if len(folders) == 1:
        print_report(folders[0], request)
        return
    if request.calibration is not None:
        message = (
            f"--calibration belongs to one RUN, got {len(folders):,}: a calibrator is fitted on "
            "one adapter; give each run its own"
        )
        raise click.UsageError(message)
    if not request.as_json:
        for folder in folders:
            print_report(folder, request)
        return
    from pact_eval.runs import read_any_run

    # All are read before anything is computed: a wrong folder is known at once.
    runs = [read_any_run(folder) for folder in folders]
    reports: list[Json] = [
        {"folder": str(folder), **_evaluated(run, request)[0]}
        for folder, run in zip(folders, runs, strict=True)
    ]
    print_json({"runs": reports})


def _evaluated_in_slices(about: RunFolder, request: ReportRequest) -> _Report | None:
    """Evaluate a run of very many items without holding its rows; None for all other runs."""
    import numpy as np

    from pact_eval.evaluation import evaluate_items, numeric_noise, read_items, streamable_items
    from pact_reports.tables.report import evaluation_parts
    from pact_reports.writers.json import evaluation_json

    path = about.predictions_file
    if request.calibration is not None or streamable_items(path) <= _ITEMS_IN_MEMORY:
        return None
    with output(to_stderr=True).status("Reading the run slice by slice"):
        evaluation = evaluate_items(
            read_items(path, request.decoding, by=request.by),
            by=request.by,
            rng=np.random.default_rng(request.bootstrap_seed),
            resamples=request.resamples,
            noise=numeric_noise(about.provenance),
        )
    return evaluation_json(evaluation, about.provenance), evaluation_parts(evaluation)


def _evaluated(run: Run | AblatedRun, request: ReportRequest) -> _Report:
    """Return the report as JSON, and as what a terminal shows."""
    import numpy as np

    from pact_eval.evaluation import evaluate
    from pact_reports.tables.report import ablated_parts, evaluation_parts
    from pact_reports.writers.json import evaluation_json

    calibrator = None
    if request.calibration is not None:
        from pact_eval.calibration import calibrator_for

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
    with output(to_stderr=True).status("Computing intervals"):
        evaluation = evaluate(run, **how)
    value = evaluation_json(evaluation, run.provenance)
    if evaluation.contexts == "ablated":
        return value, ablated_parts(evaluation)
    return value, evaluation_parts(evaluation)
