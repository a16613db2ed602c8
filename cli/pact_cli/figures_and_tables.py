"""`pact-eval figures` and `pact-eval tables`: figures and tables of runs for a paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from pact_cli.commands import command
from pact_cli.console import output, print_json, warn
from pact_cli.leaks import exit_on_leak, named_data, print_leak
from pact_cli.options import (
    PATH,
    json_option,
    left_out_files,
    listed,
    output_options,
    runs_argument,
    settings_options,
)
from pact_cli.parameters import option
from pact_eval.evaluation.arms.published_paths import is_published

if TYPE_CHECKING:
    from pact_eval._json import Json
    from pact_eval.evaluation.conclusions.data import DataConclusion
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
    from pact_reports.files import paths_json, write_report
    from pact_reports.writers.json import answer_json

    names = tuple(FIGURES if only is None else listed("--only", only, tuple(FIGURES)))
    endings = None if formats is None else tuple(listed("--format", formats, FORMATS))
    chosen = replace(outputs, figures=out, figure_names=names, figure_formats=endings)
    experiment, chosen, warnings = _read(runs, settings, chosen)
    written = write_report(experiment, chosen)
    if as_json:
        print_json(
            {
                "answer": answer_json([experiment.data]),
                "files": paths_json(written.figures or {}),
                "skipped": {**written.skipped_figures},
                "notes": {name: [*texts] for name, texts in written.notes.items()},
                "warnings": warnings,
            }
        )
    _check_any("no figure could be drawn", written, "not drawn")
    if not as_json:
        _print_paths(written, experiment.data, "not drawn")
    exit_on_leak([experiment.data])


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
    from pact_reports.files import paths_json, write_report
    from pact_reports.tables.registry import TABLES
    from pact_reports.writers.files import FORMATS
    from pact_reports.writers.json import answer_json

    names = tuple(TABLES if only is None else listed("--only", only, tuple(TABLES)))
    endings = tuple(listed("--format", formats, FORMATS))
    chosen = replace(outputs, tables=out, table_names=names, table_formats=endings, data=data)
    experiment, chosen, warnings = _read(runs, replace(settings, data=named_data(data)), chosen)
    written = write_report(experiment, chosen)
    _check_any("no table could be made", written, "left out")
    if as_json:
        print_json(
            {
                "answer": answer_json([experiment.data]),
                "files": paths_json(written.tables or {}),
                "skipped": {**written.skipped_tables},
                "warnings": warnings,
            }
        )
    else:
        _print_paths(written, experiment.data, "left out")
    written.check_registration()
    exit_on_leak([experiment.data])


def _read(
    runs: tuple[Path, ...], settings: Settings, outputs: Outputs
) -> tuple[Experiment, Outputs, list[Json]]:
    """Read runs, or published metrics if the first path has some, and print warnings.

    Returns:
        The runs, the outputs with the published metrics, and the warnings as JSON values.
    """
    from pact_eval.errors import InputError
    from pact_eval.evaluation.experiment import Experiment
    from pact_reports.sentences.notes import published_sentence, warning_sentence
    from pact_reports.writers.json import warnings_json

    if is_published(runs[0]):
        others = [str(path) for path in runs if not is_published(path)]
        if others:
            message = f"expected published metrics alone, or runs alone; got {runs[0]}, {others[0]}"
            raise InputError(message)
        outputs = replace(outputs, published=runs)
        metrics = outputs.metrics
        text = "" if metrics is None else published_sentence(metrics)
        warn([text])
        warning: Json = {"kind": "PublishedMetrics", "files": [*map(str, runs)], "text": text}
        return Experiment((), settings=settings), outputs, [warning]
    experiment = Experiment.read(runs, settings)
    warn(map(warning_sentence, experiment.warnings))
    return experiment, outputs, [*left_out_files(), *warnings_json(experiment.warnings)]


def _check_any(message: str, written: WrittenReport, why_not: str) -> None:
    from pact_eval.errors import InputError

    if not written.paths:
        raise InputError("\n".join([message, *_skipped(written, why_not)]))


def _print_paths(written: WrittenReport, data: DataConclusion, why_not: str) -> None:
    """Print the paths to stdout; what leaks, and the names of skipped files, to stderr."""
    from pact_reports.plain_text import cell, one_line

    print_leak(data, to_stderr=True)
    console, errors = output(), output(to_stderr=True)
    for path in written.paths:
        console.print(cell(str(path)), soft_wrap=True)
    notes = [f"{name}: {one_line(note)}" for name, texts in written.notes.items() for note in texts]
    for line in (*notes, *_skipped(written, why_not)):
        errors.print(cell(line), soft_wrap=True)


def _skipped(written: WrittenReport, why_not: str) -> list[str]:
    from pact_reports.plain_text import one_line

    skipped: Mapping[str, str] = {**written.skipped_figures, **written.skipped_tables}
    return [f"{name}: {why_not}: {one_line(why)}" for name, why in skipped.items()]
