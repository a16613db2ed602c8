"""`pact-eval report --views` and `--remedies`: a run with other views than its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pact_cli.console import emit, warn
from pact_cli.errors import exit_on_leak

if TYPE_CHECKING:
    from pact_eval.evaluation.settings import Settings

_OF_RUN: Final = (
    *("runs", "resamples", "seed", "allow", "data", "audit", "without_leaks"),
    *("full", "as_json"),
)
_OF_VIEWS: Final = (*_OF_RUN, "views", "calibration", "shipped")
_OF_REMEDIES: Final = (*_OF_RUN, "remedies", "fitted", "unit")


def print_views(
    runs: Sequence[Path], numbers: range | None, settings: Settings, *, full: bool, as_json: bool
) -> None:
    """Print the metrics of a run for several numbers of views.

    Args:
        runs: the run.
        numbers: the numbers of views; None stands for all that the run has.
        settings: those of the report; the decoding is that of the ensemble.
        full: print every metric with its interval below the answer.
        as_json: print JSON.

    Raises:
        click.UsageError: there are several runs, or an option changes nothing here.
    """
    from pact_eval.evaluation.experiment import Experiment
    from pact_eval.runs.places import run_folder
    from pact_reports.views.sweep import present_sweep

    _refuse_other_options("--views", _OF_VIEWS)
    source = run_folder(_one_run("--views", runs))
    experiment = Experiment.read([source], replace(settings, decoding="ensemble"))
    (swept,) = experiment.all_runs
    points = experiment.sweep(swept, numbers)
    emit(present_sweep(experiment, swept, points, full=full), as_json=as_json)
    exit_on_leak([experiment.data])


def print_remedies(
    runs: Sequence[Path],
    settings: Settings,
    *,
    fitted: Sequence[Path] = (),
    full: bool,
    as_json: bool,
) -> None:
    """Print the remedies of the order effects of a run.

    Args:
        runs: the run.
        settings: those of the report; distributions are raw.
        fitted: files of remedies of other families.
        full: print every table below the answer.
        as_json: print JSON.

    Raises:
        click.UsageError: there are several runs, or an option changes nothing here.
    """
    from pact_eval.evaluation.experiment import Experiment
    from pact_eval.remedies.comparison import remedies_of_run
    from pact_eval.runs.places import run_folder
    from pact_reports.views.remedies import present_remedy_comparison

    _refuse_other_options("--remedies", _OF_REMEDIES)
    experiment = Experiment.read([run_folder(_one_run("--remedies", runs))], settings)
    (run,) = experiment.all_runs
    comparison = remedies_of_run(experiment, run, fitted)
    warned = warn(map(str, experiment.applied_warnings))
    presenter = present_remedy_comparison(comparison, full=full)
    emit(presenter, warned=warned, as_json=as_json)
    exit_on_leak([experiment.data])


def _one_run(option_name: str, runs: Sequence[Path]) -> Path:
    if len(runs) > 1:
        message = f"{option_name}: expected one RUN, got {len(runs):,}; report each of them alone"
        raise click.UsageError(message)
    return runs[0]


def _refuse_other_options(option_name: str, used: Sequence[str]) -> None:
    context = click.get_current_context()
    others = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name not in used
        and context.get_parameter_source(str(parameter.name))
        is click.core.ParameterSource.COMMANDLINE
    ]
    if others:
        message = f"{others[0]} changes nothing with {option_name}; leave one of them out"
        raise click.UsageError(message)
