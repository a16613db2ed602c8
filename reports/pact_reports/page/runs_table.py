"""The headline numbers of every run by itself, runs on other items too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pact_eval.evaluation import ABLATED_METRICS, AblatedEvaluation, MetricSpec
from pact_eval.preregistration import METRIC_SPECS, decoding_name
from pact_eval.runs import Decoding
from pact_eval.stats import Estimate
from pact_reports.page.diagnostics.of_runs import letter_worries
from pact_reports.page.item_columns import DecodedRun
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import (
    count_cell,
    count_column,
    few_pairs,
    metric_column,
    text_cell,
    value_cell,
    with_interval,
)
from pact_reports.tables.metric_values import DECODING_WORDS
from pact_reports.tables.report import letter_verdict
from pact_reports.tables.run_reports import RunReport

__all__ = ["ablated_table", "runs_table"]

_METRICS: Final = ("accuracy", "pair_accuracy", "nll_nats", "ece", "aurc", "view_tv", "flip_rate")
_SHORT: Final = {"view_tv": "TV", "flip_rate": "Flips"}
_CODE_MASS: Final = MetricSpec("answer_mass", "Answer mass", "percent", 1)
_BRACKETS: Final = "In brackets: {}. An interval of no width is left out, with the reason."
_OF_ECE: Final = (
    "That of ECE leans upwards, since resampled bins are noisier: ECE can stand at its low end or "
    "below it, and that is no error."
)


def runs_table(
    runs: Sequence[DecodedRun], reports: Sequence[RunReport], decoding: Decoding
) -> Table:
    """Lay out the headline numbers with their intervals: a row a run.

    Args:
        runs: under the decoding.
        reports: theirs.
        decoding: single or ensemble.
    """
    raw, calibrated = decoding_name(decoding, "raw"), decoding_name(decoding, "calibrated")
    columns = [Column("Run", "left"), count_column("Items")]
    for name in _METRICS:
        columns.append(metric_column(METRIC_SPECS[name], raw, _SHORT.get(name)))
        if name == "ece":
            columns.append(metric_column(METRIC_SPECS[name], calibrated, "ECE after T(x)"))
    columns.append(metric_column(_CODE_MASS, raw))
    rows, before = [], None
    for run, report in zip(runs, reports, strict=True):
        rows.append(Row(tuple(_cells(run, report)), rule=run.run.arm != before))
        before = run.run.arm
    return Table(
        name="runs",
        title="Every run",
        caption=(
            f"Decoding: {DECODING_WORDS[raw]}, but for ECE after T(x), which is calibrated; "
            "TV and flips are between the K views; answer mass is the mean over all views. "
            "Rates in %, AURC in %, NLL in nats."
        ),
        columns=tuple(columns),
        rows=tuple(rows),
        # Letters that are not picked as they are right are a worry, and stand there.
        notes=tuple(
            f"Letters, {run.run.label}: {letter_verdict(report.evaluation)}"
            for run, report in zip(runs, reports, strict=True)
            if not letter_worries(run.run.label, report.evaluation)
        ),
        brackets=f"{_brackets(reports[0].estimates['accuracy'])} {_OF_ECE}",
    )


def _brackets(estimate: Estimate) -> str:
    return _BRACKETS.format(estimate.method.replace("clusters", "families"))


def _cells(run: DecodedRun, report: RunReport) -> list[Cell]:
    everything = report.evaluation.groups[0]
    cells = [text_cell(run.run.label), _counted(everything.items, everything.families)]
    for name in _METRICS:
        few = few_pairs(report.estimates[name]) if name == "pair_accuracy" else ""
        cells.append(_estimated(report.estimates[name], METRIC_SPECS[name], few))
        if name == "ece":
            cells.append(
                _estimated(report.ece["all"].after, METRIC_SPECS[name])
                if report.ece
                else Cell("–", reason="no calibrator in the run's folder, or none that applies")
            )
    answer_mass = report.evaluation.mean_answer_mass
    cells.append(value_cell(answer_mass, _CODE_MASS, "the run does not know its answer mass"))
    return cells


def _counted(items: int, families: int) -> Cell:
    """Write a number of items, and below it the families that they form."""
    return replace(count_cell(items), interval=f"of {families:,} families")


def _estimated(estimate: Estimate, spec: MetricSpec, few: str = "") -> Cell:
    return with_interval(value_cell(estimate.value, spec, estimate.reason), estimate, spec, few=few)


def ablated_table(runs: Sequence[tuple[str, AblatedEvaluation]]) -> Table:
    """Lay out runs on ablated contexts: how sure they are where the evidence was deleted.

    Args:
        runs: label and report of each, one or more.
    """
    first = runs[0][1]
    decoding = decoding_name(first.decoding, first.calibration)
    columns = [Column("Run", "left"), count_column("Contexts")]
    columns += [metric_column(spec, decoding) for spec in ABLATED_METRICS]
    rows = []
    for label, evaluation in runs:
        group = evaluation.groups[0]
        cells = [text_cell(label), _counted(group.items, group.families)]
        cells += [_estimated(group.estimates[spec.name], spec) for spec in ABLATED_METRICS]
        rows.append(Row(tuple(cells)))
    return Table(
        name="ablated-runs",
        title="Runs on ablated contexts",
        caption=(
            f"Decoding: {DECODING_WORDS[decoding]}. The sentence that decides was deleted: no "
            "answer is right, and a model that goes by it is unsure. Answer gap: |z_a - z_b| in "
            "nats of the two answers that nothing tells apart any more. Rates in %."
        ),
        columns=tuple(columns),
        rows=tuple(rows),
        brackets=_brackets(first.groups[0].estimates[ABLATED_METRICS[0].name]),
    )
