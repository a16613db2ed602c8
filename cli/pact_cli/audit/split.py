"""`pact-audit split`: split a training file by source family."""

from __future__ import annotations

from pathlib import Path

import click

from pact_cli.commands import command
from pact_cli.console import emit
from pact_cli.options import PATH, json_option, path_argument
from pact_cli.parameters import option

__all__ = ["split"]


@command(loads=("pact_eval.data.splits",))
@path_argument("source", "TRAIN.jsonl")
@option("--out", required=True, type=PATH, help="Folder to write.")
@option(
    "--select",
    group="Data",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="Number of source families for checkpoint selection.",
)
@option(
    "--calibrate",
    group="Data",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="Number of source families for fitting temperatures.",
)
@option(
    "--seed",
    group="Numbers",
    type=int,
    default=17,
    show_default=True,
    help="Seed of the random split.",
)
@json_option
def split(source: Path, out: Path, select: int, calibrate: int, seed: int, as_json: bool) -> None:
    """Split a training file by source family.

    The parts are training, selection and calibration files.

    Lines are copied byte for byte. A manifest next to the files states the role of each. A source
    family is never divided.
    """
    from pact_eval.data.splits import split_training_file
    from pact_reports.presenters.split import present

    parts = split_training_file(source, out, select=select, calibrate=calibrate, seed=seed)
    emit(present(parts), as_json=as_json)
