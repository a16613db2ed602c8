"""`--not-worse` and `--require`: what a run must meet, and the exit code of the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import click

from pact_cli.commands import from_settings, given, refuse
from pact_cli.console import announce, emit, exit_on_leak
from pact_cli.param_types import Parsed
from pact_cli.places import find_places
from pact_eval._choices import CiFormat
from pact_eval.data.labelled.reading import AUTOMATIC
from pact_eval.errors import GateError, InconclusiveError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.requirements import Requirement, judge_release
from pact_eval.evaluation.settings import Settings
from pact_reports.views.requirements import present_release

NotWorse: TypeAlias = Annotated[Requirement, Parsed(Requirement.not_worse)]
Required: TypeAlias = Annotated[tuple[Requirement, ...], Parsed(Requirement.parse)]

_EXIT_CODES: Final = {
    "PASS": 0,
    "FAIL": GateError.exit_code,
    "CANNOT TELL": InconclusiveError.exit_code,
}


def judge_places(
    runs: Sequence[str],
    settings: Settings,
    requirements: tuple[Requirement, ...],
    *,
    ci_format: CiFormat | None,
    as_json: bool,
) -> None:
    """Judge a new run, or log, next to the one before; logs are stored as runs.

    Args:
        runs: NEW and OLD.
        settings: decoding, grouping, bootstrap and data.
        requirements: one or more.
        ci_format: print the cases in this format.
        as_json: print JSON.
    """
    places = find_places([*map(Path, runs)], AUTOMATIC, settings.data)
    refuse(
        places.folders or len(places.runs) != 2,
        f"expected NEW OLD, got {len(runs)}; of one run: pact-eval report RUN --require ...",
    )
    announce(f"Read: {text}." for text in places.read.values())
    experiment = Experiment.read(places.runs, settings, unique_labels=False)
    print_release(experiment, requirements, ci_format=ci_format, as_json=as_json)


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
        requirements: one or more; of every group of --by, or of every question of several.
        ci_format: print the cases in this format.
        as_json: print JSON.
    """
    grouped = True if given(["by"]) or from_settings("by") else None
    release = judge_release(experiment, requirements, grouped=grouped)
    context = click.get_current_context()
    presenter = present_release(release, command=f"pact-eval {context.info_name}")
    emit(presenter, ci_format=ci_format, as_json=as_json)
    exit_on_leak([experiment.data])
    context.exit(_EXIT_CODES[release.verdict])
