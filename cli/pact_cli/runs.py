"""`pact-eval runs`: the runs in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pact_cli.commands import command
from pact_cli.console import emit
from pact_cli.options import Json, names_of
from pact_cli.param_types import PATH
from pact_eval.evaluation.run_list import list_runs
from pact_reports.views.run_list import present_run_list


@command()
def runs(
    folders: Annotated[tuple[Path, ...], PATH, "[FOLDER...]"] = (), *, as_json: Json = False
) -> None:
    """Show the runs in a folder as a leaderboard.

    FOLDER holds run folders, or is one; the default is `runs`. Runs on the same data file are
    sorted by accuracy of view 0, raw. ECE is shown next to that of a calibrated model. A run is
    complete, resumable (repeat the command that started it), tampered (its seal does not match) or
    unreadable. --json also has arm, seed, role, K and the digest of rows, settings and labels.
    """
    places = folders or (Path("runs"),)
    listed_runs = list_runs(places)
    names = names_of(run.arm for run in listed_runs if run.arm is not None)
    emit(present_run_list(listed_runs, names, places), as_json=as_json)
