"""`pact-eval sweep`: metrics of a run for every number of views."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pact_cli.commands import command
from pact_cli.console import emit
from pact_cli.errors import exit_on_leak
from pact_cli.options import RUN, json_option, path_argument, settings_options
from pact_cli.parameters import option

if TYPE_CHECKING:
    from pact_eval.evaluation.settings import Settings


def _range(context: click.Context, parameter: click.Parameter, text: str | None) -> range | None:
    match = re.fullmatch(r"(\d{1,9})(?:\.\.(\d{1,9}))?", text or "")
    if text is not None and match is None:
        message = f"expected a number or FROM..TO, got {text!r}"
        raise click.BadParameter(message, context, parameter)
    return None if match is None else range(int(match[1]), int(match[2] or match[1]) + 1)


@command(loads=("pact_eval.evaluation.experiment", "pact_reports.sentences.answers"))
@path_argument("run", "RUN", RUN)
@option(
    "--k",
    "views",
    group="Views",
    metavar="FROM..TO",
    callback=_range,
    help="Numbers of views: a range such as 1..4, or one number. Default: 1 to K.",
)
@settings_options(
    *("resamples", "seed", "calibration", "shipped", "allow", "data", "audit", "without_leaks"),
    decoding="ensemble",
)
@json_option
def sweep(run: Path, views: range | None, settings: Settings, as_json: bool) -> None:
    """Show metrics of RUN for every number of views.

    The metrics are accuracy, NLL, ECE, view TV and flip rate. Views are added in their order;
    K = 1 is the canonical view alone. View TV and flip rate are computed on raw views.

    Exits with 3 if items are also in a file that the model is made from, see --without-leaks.
    """
    from pact_eval.evaluation.experiment import Experiment
    from pact_eval.runs.remote.places import run_folder
    from pact_reports.presenters.sweep import present

    experiment = Experiment.read([run_folder(run)], settings)
    (swept,) = experiment.all_runs
    emit(present(experiment, swept, experiment.sweep(swept, views)), as_json=as_json)
    exit_on_leak([experiment.data])
