"""`pact-eval figures` and `pact-eval tables`: figures and tables of runs for a paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import click

from pact_cli.commands import command
from pact_cli.console import emit, verbose, warn
from pact_cli.errors import exit_on_leak
from pact_cli.options import (
    PATH,
    json_option,
    left_out_files,
    listed,
    named_data,
    output_options,
    runs_argument,
    settings_options,
)
from pact_cli.parameters import option
from pact_eval.evaluation.arms.published_paths import is_published
from pact_reports.plain_text import one_line

if TYPE_CHECKING:
    from pact_eval.evaluation.experiment import Experiment
    from pact_eval.evaluation.settings import Settings
    from pact_reports.files import WrittenReport
    from pact_reports.outputs import Outputs

Command = TypeVar("Command", bound=Callable[..., object])


def _out_option(folder: str) -> Callable[[Command], Command]:
    return click.option(
        "-o",
        "--out",
        type=PATH,
        default=Path(folder),
        show_default=True,
        help="Folder to write to; existing files are replaced.",
    )


@command(loads=("pact_reports.files", "pact_reports.figures.files"))
@runs_argument
@click.option(
    "--only",
    metavar="NAME,...",
    help="Figures to draw, such as reliability,risk-coverage. Default: all possible ones.",
)
@_out_option("figures")
@click.option(
    "--format",
    "formats",
    metavar="svg,pdf,png",
    help="Formats to write, separated by commas. Default: svg, or pdf with a --style for LaTeX.",
)
@output_options(
    *("figure_style", "figure_width", "palette", "thresholds", "cost_wrong", "cost_review")
)
@settings_options(
    *("method", "decoding", "allow", "resamples", "seed", "data", "audit", "without_leaks")
)
@json_option
def figures(
    runs: tuple[Path, ...],
    only: str | None,
    out: Path,
    formats: str | None,
    outputs: Outputs,
    settings: Settings,
    as_json: bool,
) -> None:
    """Draw figures of RUNs or of published metrics.

    They have the width of a printed column: 3.5 inches, or that of a LaTeX template with --style.
    A figure that lacks data is left out, with the reason, for example: no calibrator, K = 1, one
    arm, no training log next to the adapter. Published metrics have no intervals and no items: the
    figures main, ece-kind and differences show their values, and selection those of a released
    folder.

    Exits with 3 if items are also in a file that the model is made from, see --without-leaks.
    """
    from pact_reports.figures.files import FORMATS
    from pact_reports.figures.registry import FIGURES

    names = tuple(FIGURES if only is None else listed("--only", only, tuple(FIGURES)))
    endings = None if formats is None else tuple(listed("--format", formats, FORMATS))
    chosen = replace(outputs, figures=out, figure_names=names, figure_formats=endings)
    written = _write("figures", runs, settings, chosen, as_json=as_json)
    exit_on_leak([written.data])


@command(loads=("pact_reports.files",))
@runs_argument
@click.option(
    "--only",
    metavar="NAME,...",
    help="Tables to make, such as main,paired. Default: all possible ones.",
)
@_out_option("tables")
@click.option(
    "--format",
    "formats",
    metavar="latex,markdown,csv",
    default="latex,markdown,csv",
    show_default=True,
    help="Formats to write, separated by commas; markdown also writes report.md with all tables.",
)
@option(
    "--data",
    group="Data",
    type=click.Path(path_type=Path, file_okay=False),
    multiple=True,
    help="Dataset folder: it is audited, and the table of splits counts its files. Default of the "
    "audit: the file that run.json names, for leaks only. May be given several times.",
)
@output_options("criteria", "clear", "palette", "thresholds", "cost_wrong", "cost_review")
@settings_options("method", "decoding", "allow", "resamples", "seed", "audit", "without_leaks")
@json_option
def tables(
    runs: tuple[Path, ...],
    only: str | None,
    out: Path,
    formats: str,
    data: tuple[Path, ...],
    outputs: Outputs,
    settings: Settings,
    as_json: bool,
) -> None:
    """Write tables of RUNs or of published metrics.

    Published metrics are a .csv table, or a released folder with results.json files. They have no
    intervals, and no difference is tested. The formats are LaTeX (booktabs), Markdown and CSV. A
    table that lacks data is left out, with the reason. Exits with 3 if items are also in a file
    that the model is made from (see --without-leaks), and with 5 if the criteria differ from the
    registered ones, or were registered after a run began.
    """
    from pact_reports.tables.registry import TABLES
    from pact_reports.writers.files import FORMATS

    names = tuple(TABLES if only is None else listed("--only", only, tuple(TABLES)))
    endings = tuple(listed("--format", formats, FORMATS))
    chosen = replace(outputs, tables=out, table_names=names, table_formats=endings, data=data)
    settings = replace(settings, data=named_data(data))
    written = _write("tables", runs, settings, chosen, as_json=as_json)
    written.check_registration()
    exit_on_leak([written.data])


def _write(
    only: Literal["figures", "tables"],
    runs: tuple[Path, ...],
    settings: Settings,
    outputs: Outputs,
    *,
    as_json: bool,
) -> WrittenReport:
    """Write figures or tables, and print their paths.

    Raises:
        InputError: none could be made; the message has the reasons.
    """
    from pact_eval.errors import InputError
    from pact_reports.files import write_report
    from pact_reports.presenters.written_report import present, skipped_lines

    experiment, outputs, warned = _read(runs, settings, outputs)
    written = write_report(experiment, outputs)
    if written.paths or (as_json and only == "figures"):
        chosen = click.get_current_context().params.get("only") is not None
        presenter = present(written, only, left_out=left_out_files(), reasons=chosen or verbose())
        emit(presenter, warned=warned, as_json=as_json)
    if not written.paths:
        none = {"figures": "no figure could be drawn", "tables": "no table could be made"}[only]
        raise InputError("\n".join([none, *map(one_line, skipped_lines(written, only))]))
    return written


def _read(
    runs: tuple[Path, ...], settings: Settings, outputs: Outputs
) -> tuple[Experiment, Outputs, tuple[str, ...]]:
    """Read runs, or published metrics if the first path has some, and print warnings.

    Returns:
        The runs, the outputs with the published metrics, and the warnings.
    """
    from pact_eval.errors import InputError
    from pact_eval.evaluation.experiment import Experiment
    from pact_reports.sentences.notes import published_sentence, warning_sentence

    if not is_published(runs[0]):
        experiment = Experiment.read(runs, settings)
        return experiment, outputs, warn(map(warning_sentence, experiment.warnings))
    others = [str(path) for path in runs if not is_published(path)]
    if others:
        message = f"expected published metrics alone, or runs alone; got {runs[0]}, {others[0]}"
        raise InputError(message)
    outputs = replace(outputs, published=runs)
    warned = warn(published_sentence(metrics) for metrics in [outputs.metrics] if metrics)
    return Experiment((), settings=settings), outputs, warned
