"""What `compare` prints: pairs of runs, or arms over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from rich.status import Status

from pact_cli.console import output, print_json, warn
from pact_eval._json import Json
from pact_eval.evaluation import GroupBy, RunReader, arm_folders, compare, compare_arms
from pact_eval.runs import Decoding
from pact_reports.tables.arms_tables import arms_report
from pact_reports.tables.comparison_tables import comparison_report, item_lists
from pact_reports.writers.json_values import to_json

__all__ = ["ComparisonRequest", "compare_arms_command", "compare_runs_command"]


@dataclass(frozen=True)
class ComparisonRequest:
    """What is compared, and what is shown of it.

    Attributes:
        decoding: single or ensemble.
        by: what items are grouped by.
        calibrated: apply the calibrator in each run's folder.
        margin: equivalence margin as a fraction, or None.
        resamples: bootstrap resamples; None leaves it to the number of items.
        rng: source of the resamples.
        holm: show adjusted p-values.
        mcnemar: list the items that only one run gets right.
        as_json: one JSON object instead of tables.
    """

    decoding: Decoding
    by: GroupBy
    calibrated: bool
    margin: float | None
    resamples: int | None
    rng: np.random.Generator
    holm: bool
    mcnemar: bool
    as_json: bool

    @property
    def label(self) -> dict[str, Json]:
        """How the distributions were made."""
        return {"views": self.decoding, "calibration": "calibrated" if self.calibrated else "raw"}


def compare_runs_command(folders: Sequence[str], request: ComparisonRequest) -> None:
    """Compare the first run with each of the others."""
    if len(folders) < 2:
        message = f"expected two runs or more, got {len(folders)}"
        raise click.UsageError(message)
    reader = RunReader(request.decoding, calibrated=request.calibrated)
    first, *others = [(name, reader.read(Path(name))) for name in folders]
    warn(reader.warnings)
    with _computing():
        compared = [
            (
                name,
                compare(
                    first[1],
                    items,
                    by=request.by,
                    rng=deepcopy(request.rng),
                    resamples=request.resamples,
                    margin=request.margin,
                ),
            )
            for name, items in others
        ]
    if request.as_json:
        values: list[Json] = [
            {"a": first[0], "b": name, "comparison": to_json(each)} for name, each in compared
        ]
        print_json({"decoding": request.label, "comparisons": values})
        return
    console = output()
    plain = not console.is_terminal
    for name, each in compared:
        console.print(_decoding_line(request))
        names = (first[0], name)
        for part in comparison_report(each, names=names, show_holm=request.holm, plain=plain):
            console.print(part)
        for part in item_lists(each) if request.mcnemar else ():
            console.print(part)


def compare_arms_command(arguments: Sequence[str], request: ComparisonRequest) -> None:
    """Compare the first arm with each of the others, seed by seed."""
    reader = RunReader(request.decoding, calibrated=request.calibrated)
    arms = {
        name: {seed: reader.read(folder) for seed, folder in folders.items()}
        for name, folders in arm_folders(arguments).items()
    }
    warn(reader.warnings)
    with _computing():
        compared = compare_arms(
            arms, by=request.by, rng=request.rng, resamples=request.resamples, margin=request.margin
        )
    if request.as_json:
        print_json({"decoding": request.label, "arms": to_json(compared)})
        return
    console = output()
    console.print(_decoding_line(request))
    plain = not console.is_terminal
    parts = arms_report(compared, show_holm=request.holm, show_items=request.mcnemar, plain=plain)
    for part in parts:
        console.print(part)


def _computing() -> Status:
    return output(to_stderr=True).status("Computing intervals")


def _decoding_line(request: ComparisonRequest) -> str:
    return f"Decoding: {request.decoding}, {request.label['calibration']}."
