"""`pact-eval report --views`: metrics of a run for every number of views."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pact_cli.console import emit
from pact_cli.errors import exit_on_leak
from pact_cli.parameters import option

if TYPE_CHECKING:
    from pact_eval.evaluation.settings import Settings

_ALL: Final = "all"
_RANGE: Final = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9}))?")
_USED: Final = (
    *("runs", "views", "resamples", "seed", "calibration", "shipped", "allow", "data", "audit"),
    *("without_leaks", "as_json"),
)


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
    from pact_eval.runs.remote.copies import run_folder
    from pact_reports.presenters.sweep import present

    _refuse_other_options()
    if len(runs) > 1:
        message = f"--views: expected one RUN, got {len(runs):,}; report each of them alone"
        raise click.UsageError(message)
    experiment = Experiment.read([run_folder(runs[0])], replace(settings, decoding="ensemble"))
    (swept,) = experiment.all_runs
    points = experiment.sweep(swept, views.numbers)
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
