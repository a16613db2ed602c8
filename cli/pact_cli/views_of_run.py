"""`pact-eval report --views` and `--remedies`: a run with other views than its report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pact_cli.console import emit, warn
from pact_cli.errors import exit_on_leak
from pact_cli.parameters import option

if TYPE_CHECKING:
    from pact_eval.evaluation.settings import Settings

_ALL: Final = "all"
_RANGE: Final = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9}))?")
_OF_RUN: Final = ("runs", "resamples", "seed", "allow", "data", "audit", "without_leaks", "as_json")
_OF_VIEWS: Final = (*_OF_RUN, "views", "calibration", "shipped")
_OF_REMEDIES: Final = (*_OF_RUN, "remedies", "unit")


@dataclass(frozen=True)
class Views:
    """Numbers of views to show; None stands for all that the run has."""

    numbers: range | None = None


def _views(context: click.Context, parameter: click.Parameter, text: str | None) -> Views | None:
    if text is None or text == _ALL:
        return None if text is None else Views()
    match = _RANGE.fullmatch(text)
    if match is None:
        message = f"expected a number or FROM..TO, got {text!r}"
        raise click.BadParameter(message, context, parameter)
    return Views(range(int(match[1]), int(match[2] or match[1]) + 1))


def _accepts(word: str) -> bool:
    """Whether the word after --views is its value, and not a RUN.

    Examples:
        >>> _accepts("1..4"), _accepts("runs/17"), _accepts("--json")
        (True, False, False)
    """
    return word == _ALL or word[:1].isdigit()


views_option: Final = option(
    "--views",
    group="Views",
    metavar="[FROM..TO]",
    first_page=True,
    callback=_views,
    alone=_ALL,
    accepts=_accepts,
    help="Show the metrics for every number of views, or for a range such as 1..4.",
)
"""`--views`; the command gets `Views`, or None."""

remedies_option: Final = option(
    "--remedies",
    group="Views",
    is_flag=True,
    first_page=True,
    help="Compare what removes order effects: more views, letter priors, batch calibration.",
)


def print_views(runs: Sequence[Path], views: Views, settings: Settings, *, as_json: bool) -> None:
    """Print the metrics of a run for several numbers of views.

    Args:
        runs: the run.
        views: the numbers of views.
        settings: those of the report; the decoding is that of the ensemble.
        as_json: print JSON.

    Raises:
        click.UsageError: there are several runs, or an option changes nothing here.
    """
    from pact_eval.evaluation.experiment import Experiment
    from pact_eval.runs.remote.places import run_folder
    from pact_reports.presenters.sweep import present

    _refuse_other_options("--views", _OF_VIEWS)
    source = run_folder(_one_run("--views", runs))
    experiment = Experiment.read([source], replace(settings, decoding="ensemble"))
    (swept,) = experiment.all_runs
    points = experiment.sweep(swept, views.numbers)
    emit(present(experiment, swept, points), as_json=as_json)
    exit_on_leak([experiment.data])


def print_remedies(runs: Sequence[Path], settings: Settings, *, as_json: bool) -> None:
    """Print the remedies of the order effects of a run.

    Args:
        runs: the run.
        settings: those of the report; distributions are raw.
        as_json: print JSON.

    Raises:
        click.UsageError: there are several runs, or an option changes nothing here.
    """
    from pact_eval.evaluation.experiment import Experiment
    from pact_eval.remedies.comparison import remedies_of_run
    from pact_eval.runs.remote.places import run_folder
    from pact_reports.presenters.remedy_comparison import present
    from pact_reports.sentences.notes import warning_sentence

    _refuse_other_options("--remedies", _OF_REMEDIES)
    experiment = Experiment.read([run_folder(_one_run("--remedies", runs))], settings)
    (run,) = experiment.all_runs
    comparison = remedies_of_run(experiment, run)
    warned = warn(map(warning_sentence, experiment.applied_warnings))
    emit(present(comparison, leak=experiment.data.leak), warned=warned, as_json=as_json)
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
