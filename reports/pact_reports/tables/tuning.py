"""Tuning of each arm: settings, selection split, and number of trainings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pact_eval._json import Json, dumps
from pact_eval.errors import InputError
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import arm_cell, count_cell, count_column, text_cell
from pact_reports.tables.request import TableRequest

if TYPE_CHECKING:  # most tables do not wait for plans
    from pact_eval.experiments.tuning import ArmTuning

_NONE: Final = "–"


def build_tuning(request: TableRequest) -> Table:
    """Make the table of tuning.

    Raises:
        InputError: no selection was given, or it does not fit the runs.
    """
    if not request.selections:
        message = "no selection was given (--selected FILE): no arm is known to be tuned"
        raise InputError(message)
    from pact_eval.experiments.tuning import tuning_of_runs

    return tuning_table(tuning_of_runs(request.experiment, request.selections), request.names)


def tuning_table(arms: Sequence[ArmTuning], names: ArmNames = KEYS) -> Table:
    """Lay out the tuning of arms: one row per arm.

    Args:
        arms: the arms.
        names: display names of arms.
    """
    return Table(
        name="tuning",
        title="Tuning of every arm",
        caption=(
            "Each arm: the settings that were tuned with the values that were tried, the number of "
            "trainings over values and seeds, the data that the choice was made on, the chosen "
            "values, and their NLL on these data: the mean over the seeds, in nats, single view. "
            "An arm without a stated choice counts as not tuned."
        ),
        columns=(
            Column("Arm", "left"),
            Column("Tuned", "left"),
            count_column("Trainings"),
            Column("Chosen on", "left"),
            count_column("Items"),
            Column("Chosen", "left"),
            Column("Selection NLL", numbers=("selection NLL (nats)",)),
        ),
        rows=tuple(_row(tuning, names) for tuning in arms),
        keys=1,
    )


def _row(tuning: ArmTuning, names: ArmNames) -> Row:
    selection = tuning.selection
    tried = "; ".join(
        f"{name}: {', '.join(map(_value, values))}" for name, values in tuning.tuned.items()
    )
    before = (
        arm_cell(tuning.arm, names),
        text_cell(tried or "not tuned"),
        count_cell(tuning.trainings),
    )
    if selection is None:
        reason = "nothing is chosen yet" if tuning.tuned else None
        nothing = Cell(_NONE, (None,), reason=reason)
        return Row((*before, Cell(_NONE), Cell(_NONE, (None,)), Cell(_NONE), nothing))
    chosen = "; ".join(
        f"{name}: {_value(value)}" for name, value in selection.chosen_values.items()
    )
    nll = selection.chosen.mean_nll_nats
    return Row(
        (
            *before,
            text_cell(selection.split),
            count_cell(selection.items),
            text_cell(chosen),
            Cell(f"{nll:.3f}", (nll,)),
        )
    )


def _value(value: Json) -> str:
    return value if isinstance(value, str) else dumps(value)
