"""`pact-eval tables`: what runs show, as LaTeX, Markdown and CSV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pact_cli.console import output, print_json, progress_bar, warn
from pact_cli.options import bootstrap_options, decoding_option, json_option, listed

if TYPE_CHECKING:
    from pact_eval.runs import Decoding
    from pact_reports.tables import BuiltTables, TableRequest

__all__ = ["tables"]


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--only",
    metavar="NAME,...",
    help="Tables to make, such as main,paired. Default: all that the runs allow.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("tables"),
    show_default=True,
    help="Folder to write to; files of the same names are replaced.",
)
@click.option(
    "--format",
    "formats",
    metavar="latex,markdown,csv",
    default="latex,markdown,csv",
    show_default=True,
    help="Formats to write; with markdown, report.md joins all tables.",
)
@click.option(
    "--method",
    metavar="ARM",
    help="Arm that the others are compared with. Default: that of the first run with a seed.",
)
@click.option(
    "--criteria",
    type=click.Path(path_type=Path),
    help="Hypotheses for the scorecard, as `scorecard` takes them.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Folder of a dataset whose splits are counted; may be given several times.",
)
@decoding_option
@bootstrap_options
@json_option
def tables(
    runs: tuple[Path, ...],
    only: str | None,
    out: Path,
    formats: str,
    method: str | None,
    criteria: Path | None,
    data: tuple[Path, ...],
    decoding: Decoding,
    resamples: int | None,
    bootstrap_seed: int,
    as_json: bool,
) -> None:
    """Make the tables of a paper from RUNS: LaTeX for booktabs, Markdown for GitHub, CSV in full.

    A table that lacks data is left out, and the reason is said. Exits with 5 where the criteria
    are not what was registered, or were registered after a run began.
    """
    from pact_eval.evaluation import collect_runs
    from pact_reports.tables import FORMATS, TABLES, TableRequest, build_tables, write_tables

    names = listed("--only", only, tuple(TABLES)) if only is not None else list(TABLES)
    endings = listed("--format", formats, FORMATS)
    collection = collect_runs(runs)
    warn(collection.warnings)
    request = TableRequest(
        collection=collection,
        decoding=decoding,
        method=method,
        criteria=criteria,
        data=data,
        resamples=resamples,
        bootstrap_seed=bootstrap_seed,
    )
    request.check()
    with progress_bar("Making tables") as progress:
        built = build_tables(request, names, progress)
    _refuse_nothing(built)
    files = write_tables(built, collection, out, endings)
    _report(files, built, as_json=as_json)
    click.get_current_context().exit(_exit_code(request, built))


def _refuse_nothing(built: BuiltTables) -> None:
    from pact_eval.errors import InputError

    if not built.tables:
        message = "\n".join(["no table could be made", *_skipped(built)])
        raise InputError(message)


def _report(files: dict[str, tuple[Path, ...]], built: BuiltTables, *, as_json: bool) -> None:
    from pact_reports.plain_text import cell

    if as_json:
        print_json(
            {
                "files": {name: [*map(str, paths)] for name, paths in files.items()},
                "skipped": {**built.skipped},
            }
        )
        return
    console, errors = output(), output(to_stderr=True)
    for paths in files.values():
        for path in paths:
            console.print(cell(str(path)), soft_wrap=True)
    for line in _skipped(built):
        errors.print(cell(line), soft_wrap=True)


def _skipped(built: BuiltTables) -> list[str]:
    from pact_reports.plain_text import one_line

    return [f"{name}: left out: {one_line(why)}" for name, why in built.skipped.items()]


def _exit_code(request: TableRequest, built: BuiltTables) -> int:
    from pact_eval.errors import TamperedError
    from pact_reports.plain_text import one_line

    if "scorecard" not in built.tables:
        return 0
    status = request.judged.registration.status
    if status not in ("TAMPERED", "REGISTERED AFTER THE RUNS"):
        return 0
    where = one_line(str(request.criteria))
    click.echo(f"Error: {where}: {status}; the scorecard says why", err=True)
    return TamperedError.exit_code
