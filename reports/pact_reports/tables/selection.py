"""Selected checkpoints: step, NLL and accuracy on the selection split, and accuracy of the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pact_eval.errors import InputError
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.curves.training import (
    Trajectory,
    released_trajectories,
    selection_trajectory,
)
from pact_eval.evaluation.metric_specs import MetricDecoding
from pact_eval.evaluation.registry import metric_spec
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import (
    arm_cell,
    count_cell,
    count_column,
    decoding_words,
    metric_column,
    text_cell,
    value_cell,
    with_interval,
)
from pact_reports.tables.request import TableRequest

_ACCURACY: Final = metric_spec("accuracy")
_NLL: Final = metric_spec("nll_nats")


def build_selection(request: TableRequest) -> Table:
    """Make the table of selected checkpoints.

    Raises:
        InputError: no run has a history of selection.
    """
    if request.published is not None:
        runs = released_trajectories(request.published)
        return selection_table(runs, MetricDecoding("single"), request.names)
    trajectories, reasons = [], []
    for run in request.experiment.runs:
        try:
            trajectories.append(selection_trajectory(request.experiment, run))
        except InputError as error:
            reasons.append(str(error))
    if not trajectories:
        raise InputError(next(iter(reasons), "no run on full contexts"))
    return selection_table(trajectories, MetricDecoding(request.decoding), request.names)


def selection_table(
    runs: Sequence[Trajectory], decoding: MetricDecoding, names: ArmNames = KEYS
) -> Table:
    """Lay out selected checkpoints: one row per run.

    Args:
        runs: the selection of every run.
        decoding: of the accuracy of the runs.
        names: display names of arms.
    """
    rows, before = [], None
    for run in runs:
        cells = (
            arm_cell(run.arm, names),
            text_cell("–" if run.seed is None else str(run.seed)),
            count_cell(run.selected_step),
            count_cell(len(run.steps)),
            Cell(f"{run.selected_nll_nats:.3f}", (run.selected_nll_nats,)),
            _selection_accuracy(run.selected_accuracy),
            with_interval(value_cell(run.accuracy.value, _ACCURACY), run.accuracy, _ACCURACY),
        )
        rows.append(Row(cells, rule=run.arm != before))
        before = run.arm
    return Table(
        name="selection",
        title="Selected checkpoints",
        caption=(
            "Each run: the selected step of training, the number of steps at which the selection "
            "split was evaluated, its NLL in nats and accuracy in % at the selected step, and the "
            f"accuracy of the run in %. Decoding of the run: {decoding_words(decoding)}."
        ),
        columns=(
            Column("Arm", "left"),
            Column("Seed"),
            count_column("Step"),
            count_column("Selections"),
            Column("Selection NLL", numbers=("selection NLL (nats)",), better=_NLL.better),
            Column("Selection accuracy", numbers=("selection accuracy (fraction)",), better=1),
            metric_column(_ACCURACY, decoding),
        ),
        rows=tuple(rows),
        brackets="In brackets: 95% interval over families, left out if there is none.",
    )


def _selection_accuracy(accuracy: float | None) -> Cell:
    if accuracy is None:
        return Cell("–", reason="the training log has no accuracy of the selection split")
    return Cell(f"{100 * accuracy:.1f}", (accuracy,))
