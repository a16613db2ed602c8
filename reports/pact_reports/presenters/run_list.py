"""The runs in folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from pact_eval._json import Json
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.run_list import ListedRun
from pact_reports.presenters.presenter import Presenter
from pact_reports.table import Line
from pact_reports.tables.run_list import run_list_parts
from pact_reports.writers.json import conclusion_json, data_json, estimate_json, to_json


def present(
    runs: Sequence[ListedRun], names: ArmNames = KEYS, places: Sequence[Path] = ()
) -> Presenter:
    """Present a list of runs.

    Args:
        runs: the runs.
        names: display names of arms: `arm_name`, next to the key `arm`.
        places: the folders, for the remark that they hold no runs.
    """
    where = ", ".join(map(str, places))
    nothing = Line(f"No runs in {where}; `pact-eval score` and `import` write them.", unbroken=True)
    return Presenter(
        tables=lambda: run_list_parts(runs, names) if runs else (),
        remarks=lambda: () if runs else (nothing,),
        to_json=lambda: {"runs": [_json(run, names) for run in runs]},
    )


def _json(run: ListedRun, names: ArmNames) -> Json:
    """Return a run; accuracies are fractions, times in ISO 8601."""
    concluded = {"order": run.order, "probabilities": run.probabilities}
    return {
        **{field.name: to_json(getattr(run, field.name)) for field in fields(run)},
        **{
            name: None if conclusion is None else conclusion_json(conclusion)
            for name, conclusion in concluded.items()
        },
        "data": None if run.data is None else data_json(run.data),
        "pair_accuracy": None if run.pair_accuracy is None else estimate_json(run.pair_accuracy),
        "answer_mass": None if run.answer_mass is None else estimate_json(run.answer_mass),
        "arm_name": None if run.arm is None else names.arm(run.arm),
        "accuracy": None if run.accuracy is None else estimate_json(run.accuracy),
        "created": None if run.created is None else run.created.isoformat(),
    }
