"""`pact-eval sweep`: a run at every number of views, or with what removes order effects."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import click

from pact_cli.commands import command, given
from pact_cli.console import emit, warn
from pact_cli.exits import exit_on_leak
from pact_cli.options import RUN, named_data, settings_options
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.remedies import remedies_of_run
from pact_eval.runs.places import run_folder
from pact_reports.views.sweep import present_remedy_comparison, present_sweep

_OF_VIEWS: Final = ("views", "calibration")


class ViewNumbers(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4
    """The type of numbers of views: one, or FROM..TO.

    Examples:
        >>> ViewNumbers().convert("2..4", None, None), ViewNumbers().convert("3", None, None)
        (range(2, 5), range(3, 4))
    """

    name = "FROM..TO"
    _RANGE: Final = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9}))?")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the numbers."""
        match = self._RANGE.fullmatch(value)
        if match is None:
            self.fail(f"expected a number or FROM..TO, got {value!r}", param, ctx)
        return range(int(match[1]), int(match[2] or match[1]) + 1)


Views: TypeAlias = Annotated[range, ViewNumbers()]


@command(
    elsewhere={"--k": "pact-eval sweep RUN --views 1..4"},
    more=("unit", "allow", "audit", "resamples", "bootstrap_seed"),
)
@settings_options(
    *("calibration", "unit", "without_leaks", "allow", "audit"),
    *("resamples", "bootstrap_seed"),
)
def sweep(
    run: Annotated[Path, RUN, "RUN"],
    *,
    views: Views | None = None,
    remedies: bool = False,
    data: tuple[Path, ...] = (),
    full: bool = False,
    settings: Settings,
) -> None:
    """Show a run at every number of orders, or with what removes order effects.

    Accuracy, NLL, ECE, how far probabilities move and how many answers change, for every number of
    orders, and with --full their intervals. Orders are added as they were asked; 1 is the order of
    the data alone.

    --remedies compares what removes order effects, by its price in prompts: several orders, letter
    priors fitted on other items, and batch calibration. --full prints pairs, ECE, flips and costs
    too.

    Exits with 3 if items of RUN are also in a file that the model is made from (see
    --without-leaks).

    Views:
        --views: Show only these numbers of orders, such as 1..4.
        --remedies: Compare what removes order effects: more orders, letter priors, batch
            calibration.

    Data:
        --data FILE_OR_FOLDER: Dataset of the run, which is audited. Default: the file that run.json
            names, if it is unchanged. May be given several times.

    Output:
        --full: Print every table.
    """
    settings = replace(settings, data=named_data(data))
    of_views = not remedies or bool(given(_OF_VIEWS))
    scored = replace(settings, calibrated=False, calibration=None, shipped=False)
    asked = replace(settings, decoding="ensemble") if of_views else scored
    experiment = Experiment.read([run_folder(run)], asked)
    (read,) = experiment.all_runs
    warned = warn(map(str, experiment.applied_warnings))
    presenters = []
    if of_views:
        presenters += [present_sweep(experiment, read, experiment.sweep(read, views))]
    if remedies:
        experiment = Experiment.read([run_folder(run)], scored)
        comparison = remedies_of_run(experiment, experiment.all_runs[0])
        presenters += [present_remedy_comparison(comparison)]
    presenter, *others = presenters
    for below in others:
        presenter = presenter.with_below("sweep", below, full=full)
    emit(presenter, warned=warned, full=full)
    exit_on_leak([experiment.data])
