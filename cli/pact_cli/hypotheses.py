"""`pact-eval register` and `scorecard`: criteria written down first, and what became of them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pact_cli.console import output, print_json, warn
from pact_cli.options import json_option, path_argument
from pact_eval.errors import GateError, InconclusiveError, TamperedError

if TYPE_CHECKING:
    from pact_eval.preregistration import JudgedHypotheses

__all__ = ["register", "scorecard"]


@click.command()
@path_argument("criteria", "HYPOTHESES.toml")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Dataset file that the hypotheses will be judged on; may be given several times.",
)
def register(criteria: Path, data: tuple[Path, ...]) -> None:
    """Freeze criteria before the runs: write HYPOTHESES.lock beside them.

    The lock holds a hash of the criteria, the time, and hashes of the data. It is never overwritten
    for other criteria.
    """
    from pact_eval.preregistration import lock_path
    from pact_eval.preregistration import register as register_criteria
    from pact_reports.plain_text import one_line

    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    lock = register_criteria(criteria, data=data, now=now)
    place = one_line(str(lock_path(criteria)))
    click.echo(f"{place}: registered at {lock.registered_at.isoformat()}")


@click.command()
@path_argument("criteria", "HYPOTHESES.toml")
@click.argument(
    "sources", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUNS..."
)
@click.option(
    "--resamples",
    type=click.IntRange(min=100),
    default=2_000,
    show_default=True,
    help="Bootstrap resamples behind each interval; verdicts rest on the values alone.",
)
@click.option(
    "--bootstrap-seed",
    "--seed",
    "bootstrap_seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Seed of the bootstrap.",
)
@click.option(
    "--demand",
    is_flag=True,
    help="Exit with 3 where a hypothesis is contradicted, with 4 where one has no clear verdict.",
)
@json_option
def scorecard(
    criteria: Path,
    sources: tuple[Path, ...],
    resamples: int,
    bootstrap_seed: int,
    demand: bool,
    as_json: bool,
) -> None:
    """Judge hypotheses on run folders, or on a table of metrics (.csv).

    Exits with 5 where the criteria, their lock or the data are not what was registered, or where
    they were registered after a run began.
    """
    from pact_eval.evaluation import Settings
    from pact_eval.preregistration import judge_sources
    from pact_reports.tables.scorecard import scorecard_parts
    from pact_reports.writers.json import scorecard_json
    from pact_reports.writers.terminal import show

    with output(to_stderr=True).status("Judging"):
        settings = Settings(resamples=resamples, seed=bootstrap_seed)
        judged = judge_sources(criteria, sources, settings)
    warn(judged.warnings)
    if as_json:
        print_json(scorecard_json(judged))
    else:
        show(output(), scorecard_parts(judged))
    click.get_current_context().exit(_exit_code(judged, demand=demand))


def _exit_code(judged: JudgedHypotheses, *, demand: bool) -> int:
    if judged.registration.status in ("TAMPERED", "REGISTERED AFTER THE RUNS"):
        return TamperedError.exit_code
    verdicts = set(judged.scorecard.verdicts.values())
    if demand and "CONTRADICTED" in verdicts:
        return GateError.exit_code
    if demand and verdicts - {"SUPPORTED"}:
        return InconclusiveError.exit_code
    return 0
