"""`pact-audit split`: split a training file by source family."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pact_cli.commands import INTEGER, NATURAL, command, option
from pact_cli.console import emit
from pact_cli.hub_places import data_file_here
from pact_cli.labelled import announce_labelled, reading_options
from pact_cli.options import DATASET, PATH, json_option, path_argument
from pact_eval.errors import RoleError

if TYPE_CHECKING:
    from pact_eval.data.labelled.reading import Reading

__all__ = ["split"]


@command(loads=("pact_eval.data.splits",))
@path_argument("source", "TRAIN.jsonl", DATASET)
@option("--out", required=True, type=PATH, help="Folder to write.")
@option(
    "--select",
    group="Data",
    type=NATURAL,
    default=2,
    show_default=True,
    help="Number of source families for checkpoint selection.",
)
@option(
    "--calibrate",
    group="Data",
    type=NATURAL,
    default=2,
    show_default=True,
    help="Number of source families for fitting temperatures.",
)
@option(
    "--selection",
    group="Data",
    metavar="NAME",
    multiple=True,
    help="A source family for selection, instead of random ones; may be repeated.",
)
@option(
    "--calibration",
    group="Data",
    metavar="NAME",
    multiple=True,
    help="A source family for temperatures, instead of random ones; may be repeated.",
)
@option(
    "--seed",
    group="Numbers",
    type=INTEGER,
    default=17,
    show_default=True,
    help="Seed of the random split.",
)
@reading_options
@json_option
def split(source: Path, out: Path, reading: Reading, as_json: bool, **held_out: Any) -> None:
    """Split a training file by source family.

    The parts are training, selection and calibration files. Random source families are dealt to
    selection and calibration in turn, as in the released code of the paper.

    Lines are copied byte for byte; those of a labelled file are written in the full format. A
    manifest next to the files states the role of each. A source family is never divided.
    """
    from pact_eval.data.files import MANIFEST_NAME
    from pact_eval.data.splits import HeldOut, split_training_file
    from pact_reports.views.datasets import present_split

    _check_numbers(held_out)
    file = data_file_here(source)
    try:
        parts = split_training_file(file, out, HeldOut(**held_out), reading, announce_labelled)
    except RoleError as error:
        raise click.UsageError(str(error)) from error
    emit(present_split(parts), files=[out / MANIFEST_NAME], as_json=as_json)


def _check_numbers(held_out: Mapping[str, Any]) -> None:
    """Refuse a number of random source families next to names for the same role."""
    context = click.get_current_context()
    for number, names in (("select", "selection"), ("calibrate", "calibration")):
        source = context.get_parameter_source(number)
        if held_out[names] and source is ParameterSource.COMMANDLINE:
            message = f"--{number} draws source families that --{names} names: give one of them"
            raise click.UsageError(message)
