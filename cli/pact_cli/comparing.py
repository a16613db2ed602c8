"""What `compare` prints: pairs of runs, or arms over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.status import Status

from pact_cli.console import output, print_json, warn
from pact_eval._json import Json
from pact_eval.evaluation import Experiment, GroupBy, Settings
from pact_eval.runs import Decoding, read_run
from pact_reports.table import Line
from pact_reports.tables.comparison import arms_parts, comparison_parts, item_lists
from pact_reports.writers.json import to_json
from pact_reports.writers.terminal import show

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
        bootstrap_seed: seed of the resamples.
        holm: show adjusted p-values.
        mcnemar: list the items that only one run gets right.
        as_json: one JSON object instead of tables.
    """

    decoding: Decoding
    by: GroupBy
    calibrated: bool
    margin: float | None
    resamples: int | None
    bootstrap_seed: int
    holm: bool
    mcnemar: bool
    as_json: bool

    @property
    def settings(self) -> Settings:
        """The settings of the comparison."""
        return Settings(
            decoding=self.decoding,
            calibrated=self.calibrated,
            by=self.by,
            resamples=self.resamples,
            seed=self.bootstrap_seed,
            margin=self.margin,
        )

    @property
    def label(self) -> dict[str, Json]:
        """How the distributions were made."""
        return {"views": self.decoding, "calibration": "calibrated" if self.calibrated else "raw"}


def compare_runs_command(folders: Sequence[str], request: ComparisonRequest) -> None:
    """Compare the first run with each of the others."""
    if len(folders) < 2:
        message = f"expected two runs or more, got {len(folders)}"
        raise click.UsageError(message)
    experiment = Experiment.read(
        [Path(name) for name in folders], request.settings, unique_labels=False
    )
    if experiment.ablated:
        read_run(experiment.ablated[0].folder)  # refuses: ablated contexts have no references
    if request.calibrated:
        warn(experiment.warnings)
    experiment.require_same_items()
    first, *others = experiment.runs
    with _computing():
        compared = [
            (name, experiment.comparison(first, run))
            for name, run in zip(folders[1:], others, strict=True)
        ]
    if request.as_json:
        values: list[Json] = [
            {"a": folders[0], "b": name, "comparison": to_json(each)} for name, each in compared
        ]
        print_json({"decoding": request.label, "comparisons": values})
        return
    for name, each in compared:
        parts = comparison_parts(each, names=(folders[0], name), show_holm=request.holm)
        items = item_lists(each) if request.mcnemar else ()
        show(output(), (_decoding_line(request), *parts, *items))


def compare_arms_command(arguments: Sequence[str], request: ComparisonRequest) -> None:
    """Compare the first arm with each of the others, seed by seed."""
    experiment = Experiment.read_arms(arguments, request.settings)
    if request.calibrated:
        warn(experiment.warnings)
    with _computing():
        compared = experiment.arms_comparison
    if request.as_json:
        print_json({"decoding": request.label, "arms": to_json(compared)})
        return
    parts = arms_parts(compared, show_holm=request.holm, show_items=request.mcnemar)
    show(output(), (_decoding_line(request), *parts))


def _computing() -> Status:
    return output(to_stderr=True).status("Computing intervals")


def _decoding_line(request: ComparisonRequest) -> Line:
    return Line(f"Decoding: {request.decoding}, {request.label['calibration']}.")
