"""`pact-audit split`: carve source families out for selection and calibration."""

from __future__ import annotations

from pathlib import Path

import click

from pact_cli.console import output, print_json
from pact_cli.options import json_option, path_argument

__all__ = ["split"]


@click.command()
@path_argument("source", "TRAIN.jsonl")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder to write.")
@click.option(
    "--select",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="Source families to select checkpoints on.",
)
@click.option(
    "--calibrate",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="Source families to fit temperatures on.",
)
@click.option("--seed", type=int, default=17, show_default=True, help="Decides which.")
@json_option
def split(source: Path, out: Path, select: int, calibrate: int, seed: int, as_json: bool) -> None:
    """Carve whole source families into files for training, selection and calibration.

    Lines are copied byte for byte; a manifest beside them says what each file is for. A family is
    never split.
    """
    from pact_eval.data import split_training_file
    from pact_reports.tables.dataset import split_table
    from pact_reports.writers.json import to_json
    from pact_reports.writers.terminal import show

    parts = split_training_file(source, out, select=select, calibrate=calibrate, seed=seed)
    if as_json:
        print_json({"parts": to_json(parts)})
        return
    show(output(), [split_table(parts)])
