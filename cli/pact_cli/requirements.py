"""`--not-worse` and `--require`: what a run must meet, and the exit code of the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import click

from pact_cli.commands import from_settings, given, refuse
from pact_cli.console import Shown, announce, emit, exit_on_leak
from pact_cli.param_types import Parsed
from pact_cli.places import find_places
from pact_eval.data.labelled.reading import AUTOMATIC
from pact_eval.errors import GateError, InconclusiveError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.requirements import Requirement, judge_release, shown_groups
from pact_eval.evaluation.settings import Settings
from pact_reports.views.presenter import Presenter
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
    below: Callable[[Experiment], Presenter | None],
    shown: Shown,
) -> None:
    """Judge a new run, or log, next to the one before; logs are stored as runs.

    Args:
        runs: NEW and OLD.
        settings: decoding, grouping, bootstrap and data.
        requirements: what is required.
        below: makes what is shown below the verdict.
        shown: what of it.
    """
    places = find_places([*map(Path, runs)], AUTOMATIC, settings.data)
    refuse(
        places.folders or len(places.runs) != 2,
        f"expected NEW OLD, got {len(runs)}; of one run: pact-eval report RUN --require ...",
    )
    announce(f"Read: {text}." for text in places.read.values())
    experiment = Experiment.read(places.runs, settings, unique_labels=False)
    told = replace(experiment, settings=shown_groups(settings))
    print_release(experiment, requirements, below(told), shown)


def print_release(
    experiment: Experiment,
    requirements: tuple[Requirement, ...],
    below: Presenter | None,
    shown: Shown,
) -> None:
    """Print whether a run meets what is required, and exit as the verdict demands.

    Args:
        experiment: the run, and the one before it if there is one.
        requirements: what is required; of every group of --by, or of every question of several.
        below: what is shown below the verdict.
        shown: what of it.
    """
    grouped = True if given(["by"]) or from_settings("by") else None
    release = judge_release(experiment, requirements, grouped=grouped)
    context = click.get_current_context()
    presenter = present_release(release, command=f"pact-eval {context.info_name}")
    if below is not None:
        presenter = presenter.with_below(str(context.info_name), below, full=shown.full)
    emit(presenter, as_json=shown.as_json)
    exit_on_leak([experiment.data])
    context.exit(_EXIT_CODES[release.verdict])
