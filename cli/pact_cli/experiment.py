"""`pact-eval experiment`: run the plan of an experiment, or the steps of it that are not done."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click

from pact_cli.commands import command
from pact_cli.console import announce, as_json, emit, tell
from pact_cli.param_types import Count
from pact_eval._choices import ExperimentStage
from pact_eval.experiments.running import run
from pact_eval.experiments.steps import (
    ExperimentOutcome,
    PlannedExperiment,
    StepOutcome,
    open_experiment,
)
from pact_eval.plain_text import one_line
from pact_reports.views.experiment import present_experiment_outcome


@command()
def experiment(
    plan: Annotated[Path, "PLAN.toml"],
    *,
    out: Path | None = None,
    dry_run: bool = False,
    print_: bool = False,
    jobs: Count | None = None,
    ray: str | None = None,
    only: str | None = None,
    stage: ExperimentStage | None = None,
) -> None:
    """Train, score and judge what PLAN.toml describes.

    A plan is an ordered list of commands: audit, split, ablate, register; for each arm and seed
    train, check, score and calibrate; then scorecard, page and paper. A step is done if its output
    is there. The same command runs the others.

    A step that fails leaves the others running. Steps that need it are not run. The summary has the
    last lines of its log, and the command that repeats it.

    Exits with 1 if a step failed, with 2 and every problem if the plan cannot be used, with 3 if
    the audit of the data or of an adapter failed, and with 5 if the hypotheses are not the
    registered ones.

    Speed:
        --jobs: Processes at a time, each with its own GPUs; without GPUs, they share the cores.
            Default: 1; with --ray, as many as have room.
        --ray ADDRESS: Run the steps as tasks of a Ray cluster instead: host:port, or auto for the
            cluster that this machine belongs to. All nodes share the folders. Needs the extra
            `ray`.

    Output:
        --out: Folder of the experiment. Default: next to PLAN.toml, with its name.
        --dry-run: List the steps in order, and which are done; start nothing and load no model.
        --print: Print the commands of the steps that are not done, in order, as a shell script, or
            as JSON with --json.
        --only ARM: Run the steps of this arm, or of base, and what they need.
        --stage STAGE: Run the steps of this stage, such as train or score, and what they need.
    """
    opened = open_experiment(plan, folder=out, arm=only, stage=stage, jobs=jobs, ray=ray)
    if print_ and not as_json():
        tell(opened.shell_script())
        return
    outcome = opened.dry_run() if dry_run or print_ else run_shown(opened)
    emit(present_experiment_outcome(outcome))
    click.get_current_context().exit(outcome.exit_code)


def run_shown(experiment: PlannedExperiment) -> ExperimentOutcome:
    """Run an experiment; a line on stderr says when a step is over.

    Raises:
        KeyboardInterrupt: it was interrupted; the message says what stays.
    """
    over = 0

    def watch(outcome: StepOutcome) -> None:
        nonlocal over
        over += 1
        if outcome.state in ("done", "failed"):
            facts = [outcome.state, *([outcome.why] if outcome.why else [])]
            facts += [] if outcome.seconds is None else [f"{outcome.seconds:.1f} s"]
            place = f"[{over}/{len(experiment.steps)}]"
            announce([f"{place} {outcome.step.name}: {', '.join(facts)}"])

    try:
        return run(experiment, watch)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "the steps that are done, and the checkpoints of the others, are kept in "
            f"{one_line(str(experiment.folder))}; the same command continues"
        ) from None
