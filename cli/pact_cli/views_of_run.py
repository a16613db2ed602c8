"""`pact-eval report --views`: metrics of a run for every number of views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pact_cli.console import emit
from pact_cli.errors import exit_on_leak

if TYPE_CHECKING:
    from pact_eval.evaluation.settings import Settings

_USED: Final = (
    *("runs", "views", "resamples", "seed", "calibration", "shipped", "allow", "data", "audit"),
    *("without_leaks", "as_json"),
)


def print_views(
    runs: Sequence[Path], numbers: range | None, settings: Settings, *, as_json: bool
) -> None:
    """Print the metrics of a run for several numbers of views.

    Args:
        runs: the run.
        numbers: the numbers of views; None stands for all that the run has.
        settings: those of the report; the decoding is that of the ensemble.
        as_json: print JSON.

    Raises:
        click.UsageError: there are several runs, or an option changes nothing here.
    """
    from pact_eval.evaluation.experiment import Experiment
    from pact_eval.runs.remote.copies import run_folder
    from pact_reports.presenters.sweep import present

    _refuse_other_options()
    if len(runs) > 1:
        message = f"--views: expected one RUN, got {len(runs):,}; report each of them alone"
        raise click.UsageError(message)
    experiment = Experiment.read([run_folder(runs[0])], replace(settings, decoding="ensemble"))
    (swept,) = experiment.all_runs
    points = experiment.sweep(swept, numbers)
    emit(present(experiment, swept, points), as_json=as_json)
    exit_on_leak([experiment.data])


def _refuse_other_options() -> None:
    context = click.get_current_context()
    others = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name not in _USED
        and context.get_parameter_source(str(parameter.name))
        is click.core.ParameterSource.COMMANDLINE
    ]
    if others:
        message = (
            f"{others[0]} does not go with --views, which shows single views and their ensembles; "
            "leave one of them out"
        )
        raise click.UsageError(message)
