"""`pact-eval verify`: compare runs, and the files that they name, with what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pact_cli.commands import command, given
from pact_cli.console import emit
from pact_cli.options import Runs
from pact_eval.errors import GateError, InconclusiveError, InputError, TamperedError
from pact_eval.runs.folder import open_run
from pact_eval.verification import (
    CheckedRun,
    FamilyRoles,
    Places,
    family_roles,
    verify_report,
    verify_runs,
)
from pact_reports.views.verification import present_checked_report, present_verification

_OF_RUNS: Final = ("adapter", "base_model", "data", "criteria", "thresholds", "strict")


@command()
def verify(
    runs: Runs,
    *,
    adapter: Path | None = None,
    base_model: Path | None = None,
    data: Path | None = None,
    criteria: Path | None = None,
    thresholds: tuple[Path, ...] = (),
    strict: bool = False,
) -> None:
    """Check each RUN against the hashes in its run.json.

    It prints one line per check. A page or the JSON of `report` in place of the first RUN: is it
    the report on the RUNs that follow? That is: on their rows and calibrators, with the settings,
    the files of --data, of criteria and of clear-changes, and the version of pact-eval. The RUNs
    are checked too if an option says where their files are.

    run.json and the rows must be those that were written. The adapter, the base model and the data
    are compared where they lie now, the tokenizer and its chat template by a probe prompt, and
    calibration.json by the adapter that it was fitted on. No weights are loaded. Then a table for
    each adapter says which items were used for what: to train, select, calibrate, choose thresholds
    and evaluate.

    Every RUN is checked. Exits with 5 if anything differs, with 1 if a folder is not a run, and
    with 3 if an item, or one that belongs to it, has two roles, such as training and evaluation.

    Data:
        --data: Dataset file. Default: the one that was scored.
        --criteria: Hypotheses; their lock is compared with the start and the data of each run.

    Model:
        --adapter: Adapter folder. Default: the one that was scored.
        --base-model: Folder of the base model. Default: as run.

    Checks:
        --strict: Exit with 4 if anything could not be checked.

    Output:
        --thresholds FILE: File of thresholds or of answer sets: may its families also be evaluated
            or trained on? May be given several times.
    """
    places = Places(adapter=adapter, base=base_model, data=data, criteria=criteria)
    report = verify_report(runs[0], runs[1:]) if runs[0].is_file() else None
    folders = runs if report is None else runs[1:] if given(_OF_RUNS) else ()
    checked = verify_runs(folders, places)
    intact = [open_run(run.folder) for run in checked if run.digest is not None]
    roles = family_roles(intact, adapter=adapter, choices=thresholds)
    presenter = present_verification(checked, roles)
    if report is not None:
        below, presenter = presenter, present_checked_report(report)
        presenter = presenter.with_below("verified", below, full=True) if folders else presenter
    emit(presenter)
    if report is not None and report.reasons:
        raise TamperedError(f"{report.path}: not the report on these runs")
    _judge(checked, roles, strict=strict)


def _judge(checked: Sequence[CheckedRun], roles: Sequence[FamilyRoles], *, strict: bool) -> None:
    differing = [run.place for run in checked if run.differs]
    if differing:
        raise TamperedError(f"not what was recorded: {', '.join(differing)}")
    unreadable = [run.unreadable for run in checked if run.unreadable is not None]
    if unreadable:
        raise InputError("\n".join(unreadable))
    leaking = [run.place for run in checked if run.leaks]
    if leaking or any(adapter_roles.overlap for adapter_roles in roles):
        message = "items have two roles, so numbers rest on data that something was made from"
        raise GateError(f"{', '.join(leaking)}: {message}" if leaking else message)
    open_questions = [run.place for run in checked if not run.complete]
    if strict and open_questions:
        raise InconclusiveError(f"not everything could be checked: {', '.join(open_questions)}")
