"""`--not-worse` and `--require`: what a run must meet, and the exit code of the verdict."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import click

from pact_cli.commands import from_settings, given
from pact_cli.console import emit, exit_on_leak
from pact_cli.param_types import Parsed
from pact_eval._choices import CiFormat
from pact_eval.errors import GateError, InconclusiveError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.requirements import Requirement, judge_release
from pact_reports.views.requirements import present_release

NotWorse: TypeAlias = Annotated[Requirement, Parsed(Requirement.not_worse)]
Required: TypeAlias = Annotated[tuple[Requirement, ...], Parsed(Requirement.parse)]

_EXIT_CODES: Final = {
    "PASS": 0,
    "FAIL": GateError.exit_code,
    "CANNOT TELL": InconclusiveError.exit_code,
}


def print_release(
    experiment: Experiment,
    requirements: tuple[Requirement, ...],
    *,
    ci_format: CiFormat | None,
    as_json: bool,
) -> None:
    """Print whether a run meets what is required, and exit as the verdict demands.

    Args:
        experiment: the run, and the one before it if there is one.
        requirements: one or more; with --by, of every group.
        ci_format: print the cases in this format.
        as_json: print JSON.
    """
    grouped = bool(given(["by"])) or from_settings("by")
    release = judge_release(experiment, requirements, grouped=grouped)
    context = click.get_current_context()
    presenter = present_release(release, command=f"pact-eval {context.info_name}")
    emit(presenter, ci_format=ci_format, as_json=as_json)
    exit_on_leak([experiment.data])
    context.exit(_EXIT_CODES[release.verdict])
