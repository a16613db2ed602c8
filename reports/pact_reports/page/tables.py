"""Tables that only a page has: every run, runs on ablated contexts, and what buttons copy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.conclusions.better import BetterConclusion, Claim
from pact_eval.evaluation.conclusions.experiment_conclusions import RunConclusions
from pact_eval.evaluation.diagnostics import calibrated_items
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.notes import views_notes
from pact_eval.evaluation.registry import (
    MetricDecoding,
    MetricSpec,
    find_metric,
    metric_spec,
    registered_metrics,
)
from pact_eval.evaluation.report import COMPARED, Group
from pact_eval.numbers import (
    UNDEFINED,
    Unit,
    estimate_parts,
    methods_text,
    p_value_number,
    value_text,
    views_words,
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

_ENDS: Final = ("value", "low", "high")
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


def answer_table(conclusions: Sequence[BetterConclusion], names: ArmNames) -> Table:
    """Lay out the differences behind an answer: a row per arm, metric and decoding.

    Args:
        conclusions: on an arm and each of the others.
        names: display names of arms.
    """
    rows = [
        table_row(
            Cell(names.arm(conclusion.left), data=conclusion.left),
            Cell(names.arm(conclusion.right), data=conclusion.right),
            metric_spec(claim.metric).title,
            views_words(claim.k, claim.repeats),
            _estimate_cell(claim.difference, "points"),
            _p_value_cell(claim.evidence.deciding),
            claim.status,
        )
        for conclusion in conclusions
        for name in COMPARED
        for claim in conclusion.of(name)
    ]
    return Table(
        name="answer",
        title="Is it better?",
        caption=" ".join(str(conclusion.named(names).words) for conclusion in conclusions),
        columns=(
            *(Column(title, "left") for title in ("Arm", "Other arm", "Metric", "Views")),
            _estimate_column("Difference (points)", "difference"),
            Column("p", numbers=("p",)),
            Column("Status", "left"),
        ),
        rows=tuple(rows),
    )


def matrix_table(
    conclusions: Sequence[RunConclusions],
    differences: Sequence[Claim | None],
    reference: str,
    names: ArmNames,
) -> Table:
    """Lay out runs by questions, with the differences from one reference.

    Args:
        conclusions: on every run, in their order.
        differences: by run, its accuracy minus that of the reference.
        reference: label of the reference.
        names: display names of arms.
    """
    rows = [
        table_row(
            Cell(names.run(run.run), data=run.run),
            _estimate_cell(run.accuracy, "percent"),
            *_difference_cells(difference),
            run.data.status.capitalize(),
            run.order.words.finding,
            _estimate_cell(run.order.flip_rate, "percent"),
            run.probabilities.words.finding,
            Cell(
                value_text(run.probabilities.ece.value, "percent"),
                (run.probabilities.ece.value,),
            ),
        )
        for run, difference in zip(conclusions, differences, strict=True)
    ]
    return Table(
        name="runs-by-questions",
        title="Runs by questions",
        caption=f"Differences are points of accuracy, run minus {names.run(reference)}.",
        columns=(
            Column("Run", "left"),
            _estimate_column("Accuracy %", "accuracy"),
            _estimate_column("Difference", "difference"),
            Column("p", numbers=("p",)),
            *(Column(title, "left") for title in ("Status", "Data", "Order")),
            _estimate_column("Flips %", "flip_rate"),
            Column("Probabilities", "left"),
            Column("ECE %", numbers=("ece (fraction)",)),
        ),
        rows=tuple(rows),
    )


def _estimate_column(title: str, name: str) -> Column:
    return Column(title, numbers=tuple(f"{name} {end} (fraction)" for end in _ENDS))


def _estimate_cell(estimate: Estimate, unit: Unit) -> Cell:
    value, interval = estimate_parts(estimate, unit)
    return Cell(value, (estimate.value, estimate.low, estimate.high), interval=interval)


def _p_value_cell(p_value: float) -> Cell:
    text = UNDEFINED if math.isnan(p_value) else p_value_number(p_value)
    return Cell(text, (p_value,))


def _difference_cells(difference: Claim | None) -> tuple[Cell, Cell, Cell]:
    """Write difference, p-value and status; the reference has none."""
    if difference is None:
        return Cell(UNDEFINED, (None, None, None)), Cell(UNDEFINED, (None,)), Cell("reference")
    return (
        _estimate_cell(difference.difference, "points"),
        _p_value_cell(difference.evidence.deciding),
        Cell(difference.status),
    )
