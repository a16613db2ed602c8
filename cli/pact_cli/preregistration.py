"""`pact-eval register` and `scorecard`: criteria frozen before the runs, and their verdicts."""

from __future__ import annotations

import datetime as dt
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, get_args

import click

from pact_cli.commands import command, given
from pact_cli.console import announce, ci_format, emit, tell
from pact_cli.options import RUN, names_of, output_options, settings_options
from pact_cli.param_types import Resamples
from pact_cli.report import page_of
from pact_eval._choices import Demand
from pact_eval.errors import GateError, InconclusiveError, TamperedError
from pact_eval.evaluation.settings import Settings
from pact_eval.preregistration.criteria import write_example
from pact_eval.preregistration.registration import lock_path
from pact_eval.preregistration.registration import register as register_criteria
from pact_eval.preregistration.run_scorecard import JudgedHypotheses, judge_sources
from pact_reports.results import Outputs
from pact_reports.views.datasets import present_lock
from pact_reports.views.hypotheses import present_judged_hypotheses


@command(for_json=False)
def register(
    criteria: Annotated[Path, "HYPOTHESES.toml"],
    *,
    data: tuple[Path, ...] = (),
    example: bool = False,
) -> None:
    """Freeze criteria before the runs.

    HYPOTHESES.lock, next to the criteria, contains a hash of the criteria, the time, and hashes
    of the data. It is never overwritten for different criteria. `--example` writes criteria to
    start from.

    Data:
        --data: Dataset file of the hypotheses; may be given several times.
        --example: Write an example to HYPOTHESES.toml, to be edited and registered. A file that
            exists is kept.
    """
    if example:
        write_example(criteria)
        words = [str(criteria), *(word for path in data for word in ("--data", str(path)))]
        tell([f"{criteria}: written; edit it, then: pact-eval register {shlex.join(words)}"])
        return
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    lock = register_criteria(criteria, data=data, now=now)
    emit(present_lock(lock, lock_path(criteria)))


class DemandChoice(click.Choice[str]):
    """The type of --demand, which alone means values.

    Examples:
        >>> kind = DemandChoice(("values", "shown"))
        >>> [kind.accepts(word) for word in ("shown", "runs/pact-17", "--json")]
        [True, False, False]
    """

    alone: Final = "values"

    def accepts(self, word: str) -> bool:
        """Return whether the word after --demand is its value, maybe a wrong one, and not a run."""
        return word[:1] not in ("", "-") and "/" not in word and not Path(word).exists()


@command(for_ci=True, settings=("method", "palette", "clear_changes"))
@settings_options("bootstrap_seed", "allow", "method")
@output_options("html", "data", "palette", "clear_changes")
def scorecard(
    criteria: Annotated[Path, "HYPOTHESES.toml"],
    sources: Annotated[tuple[Path, ...], RUN, "RUNS..."],
    *,
    resamples: Resamples = 2_000,
    settings: Settings,
    outputs: Outputs,
    demand: Annotated[Demand, DemandChoice(get_args(Demand))] | None = None,
    full: bool = False,
) -> None:
    """Judge hypotheses on run folders, or on a .csv of metrics.

    Exits with 5 if the criteria, their lock or the data differ from the registered ones, or if they
    were registered after a run began. --html writes the page of `report --html` with the verdicts.

    Numbers:
        --resamples: Number of bootstrap resamples of the intervals; verdicts by value do not need
            them.
        --demand: Exit with 3 if a hypothesis is contradicted, with 4 if one has no clear verdict:
            by the values, or as shown. --demand alone means values, and so does --format.

    Output:
        --full: Print the evidence of every verdict.
    """
    demand = "values" if demand is None and ci_format() else demand
    judged = judge_sources(criteria, sources, replace(settings, resamples=resamples))
    presenter = present_judged_hypotheses(judged, names_of(judged.scorecard.arms), criteria, demand)
    emit(presenter, full=full)
    if outputs.html is not None:
        of_page = replace(settings, resamples=resamples if given(["resamples"]) else None)
        written = page_of(sources, of_page, replace(outputs, criteria=criteria))
        announce([f"wrote {written.html}"])
        written.check_registration()
    click.get_current_context().exit(_exit_code(judged, demand=demand))


def _exit_code(judged: JudgedHypotheses, *, demand: Demand | None) -> int:
    if judged.registration.broken:
        return TamperedError.exit_code
    if demand is None:
        return 0
    standings = {result.standing(demand) for result in judged.scorecard.results}
    if "contradicted" in standings:
        return GateError.exit_code
    return InconclusiveError.exit_code if "not clear" in standings else 0
