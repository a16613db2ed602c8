"""`pact-eval select`: choose one of several trainings of an arm, by the selection split."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pact_cli.commands import command
from pact_cli.console import emit
from pact_cli.options import PATH, json_option, runs_argument
from pact_cli.parameters import option

if TYPE_CHECKING:
    from pact_eval._json import Json


@command(loads=("pact_eval.experiments.selection",), reads_settings=False)
@runs_argument
@option("--arm", required=True, help="The arm; runs are labelled ARM.CANDIDATE.")
@option(
    "--set",
    "settings",
    metavar="JSON",
    required=True,
    help="Settings of the arm. A list has the values that were tried; several lists were tried in "
    "all combinations.",
)
@option("--out", type=PATH, required=True, help="File for the choice: JSON.")
@option(
    "--adapters",
    metavar="DIR",
    type=PATH,
    help="Copy the chosen adapters to DIR/ARM-SEED.",
)
@json_option
def select(
    runs: tuple[Path, ...],
    arm: str,
    settings: str,
    out: Path,
    adapters: Path | None,
    as_json: bool,
) -> None:
    """Choose one of several trainings of an arm.

    RUNs are those of every candidate at every seed on the selection split (`score --k 1 --role
    selection`). The lowest mean NLL over the seeds decides, and the choice holds for all seeds. Of
    equal candidates, the first is chosen. Runs with another role are refused.

    `pact-eval experiment` types this command for arms with lists of values.
    """
    from pact_eval.experiments.selection import copy_chosen, write_selection
    from pact_eval.experiments.selection import select as select_candidate
    from pact_reports.presenters.arm_selection import present

    selection = select_candidate(runs, arm=arm, settings=_parsed(settings))
    if adapters is not None:
        copy_chosen(selection, runs, adapters)
    write_selection(selection, out)
    emit(present(selection), as_json=as_json)


def _parsed(text: str) -> dict[str, Json]:
    """Return the settings of `--set`.

    Raises:
        click.UsageError: they are not a JSON object of plain values or lists of them.
    """
    from pact_eval._json import loads
    from pact_eval.experiments.candidates import is_plain

    try:
        settings = loads(text)
    except ValueError as error:
        raise click.UsageError(f"--set: not JSON: {error}") from None
    lists = settings.values() if isinstance(settings, dict) else [None]
    tried = [values if isinstance(values, list) and values else [values] for values in lists]
    if not isinstance(settings, dict) or not all(is_plain(one) for some in tried for one in some):
        message = "--set: expected an object of text, numbers, true/false or lists of them"
        raise click.UsageError(message)
    return settings
