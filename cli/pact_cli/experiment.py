"""`pact-eval experiment`: run the plan of an experiment, or repeat what is missing or changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from pact_cli.commands import command
from pact_cli.console import announce, emit
from pact_cli.number_types import COUNT
from pact_cli.options import PATH, json_option, path_argument
from pact_cli.parameters import choice, option
from pact_eval._choices import ExperimentStage
from pact_eval.plain_text import one_line

if TYPE_CHECKING:
    from pact_eval.experiments.outcome import ExperimentOutcome
    from pact_eval.experiments.preparing import PreparedExperiment


@command(loads=("pact_eval.experiments.running",))
@path_argument("plan", "PLAN.toml")
@option(
    "--out",
    type=PATH,
    help="Folder of the experiment. Default: next to PLAN.toml, with its name.",
)
@option(
    "--dry-run",
    is_flag=True,
    help="List the steps in order, why each would run, and what they would cost if --measure has "
    "measured it; start nothing and load no model.",
)
@option(
    "--slots",
    group="Speed",
    type=COUNT,
    default=1,
    show_default=True,
    help="Processes at a time, each with its own GPUs; without GPUs, they share the cores.",
)
@option(
    "--ray",
    group="Speed",
    metavar="ADDRESS",
    help="Run the steps as tasks of a Ray cluster instead: host:port, or auto for the cluster that "
    "this machine belongs to. All nodes share the folders. Needs the extra `ray`.",
)
@option(
    "--only",
    metavar="ARM",
    help="Run the steps of this arm, or of base, and what they need.",
)
@option(
    "--stage",
    type=choice(ExperimentStage),
    metavar="STAGE",
    help="Run the steps of this stage, such as train or score, and what they need.",
)
@option(
    "--measure",
    is_flag=True,
    help="Time ten training steps and one window of scoring of each arm, keep the times in "
    "measured.json of the folder, and list the steps with their cost; train nothing to its end.",
)
@json_option
def experiment(
    plan: Path,
    out: Path | None,
    dry_run: bool,
    slots: int,
    ray: str | None,
    only: str | None,
    stage: ExperimentStage | None,
    measure: bool,
    as_json: bool,
) -> None:
    """Train, score and judge what PLAN.toml describes.

    Every step is a command in a process of its own: audit, split, ablate, register; for each arm
    and seed train, score and calibrate; then scorecard, page and paper. An arm whose settings are
    lists of values is trained with each of them, and the selection split chooses. The same command
    runs only what is missing or has changed.

    A step that fails leaves the others running. Steps that need it are not run. The summary has the
    last lines of its log, and the command that repeats it. events.jsonl in the folder has every
    event.

    Exits with 1 if a step failed, with 2 and every problem if the plan cannot be used, with 3 if
    the audit failed or an adapter was trained on evaluation data, and with 5 if the hypotheses are
    not the registered ones.
    """
    from pact_eval.experiments.preparing import Choice, open_experiment
    from pact_eval.experiments.preparing import dry_run as planned
    from pact_reports.presenters.experiment_outcome import present

    _refuse_slots_with(ray)
    if dry_run and measure:
        raise click.UsageError("--dry-run starts nothing; --measure lists the steps too")
    if ray is not None and measure:
        raise click.UsageError("--measure times this machine; leave out --ray")
    prepared = open_experiment(plan, Choice(out, only, stage, slots, ray))
    carried_out = planned if dry_run else _measured if measure else _run
    outcome = carried_out(prepared)
    emit(present(outcome), as_json=as_json)
    click.get_current_context().exit(outcome.exit_code)


def _refuse_slots_with(ray: str | None) -> None:
    """Refuse --slots next to --ray.

    Raises:
        UsageError: both were typed.
    """
    source = click.get_current_context().get_parameter_source("slots")
    if ray is not None and source is ParameterSource.COMMANDLINE:
        message = (
            "--slots is for this machine; with --ray, the plan says what each step has for itself: "
            "cpus and gpus in [train] and [model]"
        )
        raise click.UsageError(message)


def _measured(prepared: PreparedExperiment) -> ExperimentOutcome:
    """Measure times, and show the progress on stderr."""
    from pact_eval.experiments.measuring import measure

    return measure(prepared, say=lambda line: announce([line]))


def _run(prepared: PreparedExperiment) -> ExperimentOutcome:
    """Run an experiment, and show its progress on stderr.

    Raises:
        KeyboardInterrupt: it was interrupted; the message says what stays.
    """
    from pact_cli.experiment_progress import shown_progress
    from pact_eval.experiments.running import run

    with shown_progress(prepared) as watcher:
        try:
            return run(prepared, watcher)
        except KeyboardInterrupt:
            message = (
                "the steps that are done, and the checkpoints of the others, are kept in "
                f"{one_line(str(prepared.folder))}; the same command continues"
            )
            raise KeyboardInterrupt(message) from None
