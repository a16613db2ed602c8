"""Tables that only a page has: every run, and runs on ablated contexts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.diagnostics import calibrated_items
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.notes import views_notes
from pact_eval.evaluation.registry import (
    MetricDecoding,
    MetricSpec,
    find_metric,
    registered_metrics,
)
from pact_eval.evaluation.report import Group
from pact_eval.numbers import (
    UNDEFINED,
    methods_text,
)
from pact_eval.stats.estimate import Estimate
from pact_reports.table import Cell, Column, Table, table_row
from pact_reports.tables.cells import (
    CALIBRATION_ERROR,
    NOISE,
    count_cell,
    count_column,
    decoding_words,
    few_pairs,
    metric_column,
    text_cell,
    value_cell,
    with_interval,
)
from pact_reports.views.report import has_row

_SHORT: Final = {"view_tv": "TV", "flip_rate": "Flips", "order_accuracy": "Mean over orders"}
_BRACKETS: Final = "In brackets: {}. If there is no interval, the reason is given."


def runs_table(experiment: Experiment, names: ArmNames) -> Table:
    """Lay out the headline numbers with their intervals: one row per run.

    Args:
        experiment: the runs.
        names: display names of arms.

    Raises:
        InputError: a run does not have the decoding.
    """
    common = experiment.comparisons.at_common_views
    decoding = experiment.settings.decoding
    raw, calibrated = MetricDecoding(decoding), MetricDecoding(decoding, calibrated=True)
    columns = [Column("Run", "left"), count_column("Items")]
    specs = [
        spec
        for spec in registered_metrics("full", "every run")
        if has_row(
            spec, [_everything(common, run).estimates[spec.name].value for run in common.runs]
        )
    ]
    for spec in specs:
        columns.append(metric_column(spec, raw, _SHORT.get(spec.name)))
        if find_metric(spec.name).noise_floor:
            columns.append(metric_column(spec, calibrated, f"{spec.title} after T(x)"))
    rows, before = [], None
    for run, shortened in zip(experiment.runs, common.runs, strict=True):
        cells = [text_cell(names.run(run.label)), *_cells(common, shortened, specs)]
        rows.append(table_row(*cells, rule=run.arm != before))
        before = run.arm
    first = experiment.evaluation(experiment.runs[0], calibrated=False)
    return Table(
        name="runs",
        title="Every run",
        caption=(
            f"Decoding: {decoding_words(raw)}, except for ECE after T(x), which is calibrated; "
            "TV and flips are between the K views; answer mass is the mean over them. "
            "Rates in %, AURC in %, NLL in nats."
        ),
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(NOISE, *views_notes(experiment, "always", names)),
        brackets=f"{_brackets(first.groups[0].estimates.values())} {CALIBRATION_ERROR}",
    )


def _everything(experiment: Experiment, run: ExperimentRun) -> Group:
    return experiment.evaluation(run, calibrated=False).groups[0]


def _brackets(estimates: Iterable[Estimate]) -> str:
    return _BRACKETS.format(methods_text(estimates))


def _cells(experiment: Experiment, run: ExperimentRun, specs: Sequence[MetricSpec]) -> list[Cell]:
    everything = _everything(experiment, run)
    estimates = everything.estimates
    cells = [_items_cell(everything.items, everything.families)]
    for spec in specs:
        estimate = estimates[spec.name]
        few = few_pairs(estimate) if "pairs" in find_metric(spec.name).needs else ""
        cells.append(_estimated(estimate, spec, few))
        if find_metric(spec.name).noise_floor:
            cells.append(_calibration_cell(experiment, run, spec))
    return cells


def _calibration_cell(experiment: Experiment, run: ExperimentRun, spec: MetricSpec) -> Cell:
    if calibrated_items(experiment, run) is None:
        return Cell("–", reason="no calibrator in the run folder, or none that can be applied")
    after = experiment.evaluation(run, calibrated=True).groups[0]
    return _estimated(after.estimates[spec.name], spec)


def _items_cell(items: int, families: int) -> Cell:
    """Write the number of items and, below, the number of their families."""
    return replace(count_cell(items), interval=f"of {families:,} families")


def _estimated(estimate: Estimate, spec: MetricSpec, few: str = "") -> Cell:
    return with_interval(value_cell(estimate.value, spec, estimate.reason), estimate, spec, few=few)


def ablated_table(experiment: Experiment, names: ArmNames) -> Table:
    """Lay out the metrics of the runs on ablated contexts.

    Args:
        experiment: an experiment with one or more runs on ablated contexts.
        names: display names of arms.

    Raises:
        InputError: a run does not have the decoding.
    """
    evaluations = [
        (run, experiment.evaluation(run, calibrated=False)) for run in experiment.ablated
    ]
    first = evaluations[0][1]
    decoding = MetricDecoding(first.decoding, first.calibration != "raw")
    columns = [Column("Run", "left"), count_column("Contexts")]
    columns += [metric_column(spec, decoding) for spec in first.metrics]
    rows = []
    for run, evaluation in evaluations:
        group = evaluation.groups[0]
        cells = [text_cell(names.run(run.label)), _items_cell(group.items, group.families)]
        cells += [_estimated(group.estimates[spec.name], spec) for spec in evaluation.metrics]
        rows.append(table_row(*cells))
    return Table(
        name="ablated-runs",
        title="Runs on ablated contexts",
        caption=(
            f"Decoding: {decoding_words(decoding)}. The sentence that decides was deleted, so no "
            "answer is right, and a model that uses the evidence is unsure. Answer gap: "
            "|z_a - z_b| in nats of the two answers that the evidence no longer distinguishes. "
            "Rates in %."
        ),
        columns=tuple(columns),
        rows=tuple(rows),
        brackets=_brackets(first.groups[0].estimates.values()),
    )


def without_empty_columns(table: Table) -> Table:
    """Leave out the columns in which no row has a value, and say which.

    Args:
        table: any table.

    Example:
        >>> columns = (Column("a"), Column("b"))
        >>> table = Table("t", columns=columns, rows=(table_row("x", Cell("–")),))
        >>> without_empty_columns(table).notes, len(without_empty_columns(table).columns)
        (('No row has: b.',), 1)
    """
    kept, empty = [0], []
    for at in range(1, len(table.columns)):
        cells = [row.cells[at] for row in table.rows]
        if cells and all(cell.text in ("", UNDEFINED) for cell in cells):
            why = next((f" ({cell.reason})" for cell in cells if cell.reason), "")
            empty.append(f"{table.columns[at].title}{why}")
        else:
            kept.append(at)
    if not empty:
        return table
    return replace(
        table,
        columns=tuple(table.columns[at] for at in kept),
        rows=tuple(replace(row, cells=tuple(row.cells[at] for at in kept)) for row in table.rows),
        notes=(*table.notes, f"No row has: {', '.join(empty)}."),
    )
