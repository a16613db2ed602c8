"""`pact-eval figures`: what runs show, as SVG, PDF and PNG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pact_cli.console import output, print_json, progress_bar, warn
from pact_cli.options import (
    bootstrap_options,
    decoding_option,
    json_option,
    listed,
    palette_option,
)

if TYPE_CHECKING:
    from pact_eval.runs import Decoding
    from pact_reports.figures.files import DrawnFigures

__all__ = ["figures"]


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--only",
    metavar="NAME,...",
    help="Figures to draw, such as reliability,risk-coverage. Default: all that the runs allow.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("figures"),
    show_default=True,
    help="Folder to write to; files of the same names are replaced.",
)
@click.option(
    "--format",
    "formats",
    metavar="svg,pdf,png",
    default="svg",
    show_default=True,
    help="Formats to write, one or several.",
)
@palette_option
@decoding_option
@bootstrap_options
@json_option
def figures(
    runs: tuple[Path, ...],
    only: str | None,
    out: Path,
    formats: str,
    palette: Path | None,
    decoding: Decoding,
    resamples: int | None,
    bootstrap_seed: int,
    as_json: bool,
) -> None:
    """Draw figures of RUNs, one colour per arm, at the width of a printed column.

    A figure that lacks data is left out, with the reason: no calibrator, K = 1, one arm, no
    training log next to the adapter.
    """
    from pact_eval.evaluation import Experiment, Settings
    from pact_reports.figures import FIGURES, NEUTRAL, read_palette
    from pact_reports.figures.files import FORMATS, draw_figures

    names = listed("--only", only, tuple(FIGURES)) if only is not None else list(FIGURES)
    endings = listed("--format", formats, FORMATS)
    colours = NEUTRAL if palette is None else read_palette(palette)
    settings = Settings(decoding=decoding, resamples=resamples, seed=bootstrap_seed)
    experiment = Experiment.read(runs, settings)
    warn(experiment.warnings)
    with progress_bar("Drawing figures") as progress:
        drawn = draw_figures(experiment, names, out, endings, palette=colours, progress=progress)
    _report(drawn, as_json=as_json)


def _report(drawn: DrawnFigures, *, as_json: bool) -> None:
    from pact_eval.errors import InputError
    from pact_reports.plain_text import cell, one_line

    if as_json:
        print_json(
            {
                "files": {name: [*map(str, paths)] for name, paths in drawn.files.items()},
                "skipped": {**drawn.skipped},
                "notes": {name: [*notes] for name, notes in drawn.notes.items()},
            }
        )
    skipped = [f"{name}: not drawn: {one_line(why)}" for name, why in drawn.skipped.items()]
    if not drawn.files:
        message = "no figure could be drawn\n" + "\n".join(skipped)
        raise InputError(message)
    if as_json:
        return
    console = output()
    for paths in drawn.files.values():
        for path in paths:
            console.print(cell(str(path)), soft_wrap=True)
    errors = output(to_stderr=True)
    notes = [f"{name}: {one_line(note)}" for name, each in drawn.notes.items() for note in each]
    for line in (*notes, *skipped):
        errors.print(cell(line), soft_wrap=True)
