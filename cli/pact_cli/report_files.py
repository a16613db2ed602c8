"""Write reports on runs to files: one HTML page, figures, LaTeX and Markdown tables."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pact_cli.console import output, print_json, progress_bar, warn
from pact_cli.reporting import ReportRequest

if TYPE_CHECKING:
    from pact_eval._json import Json
    from pact_eval.evaluation import Experiment
    from pact_reports.page import PageRequest
    from pact_reports.tables import BuiltTables, TableRequest

__all__ = ["ReportFiles", "refuse_terminal_options", "write_report"]


@dataclass(frozen=True)
class ReportFiles:
    """What is written, and from what beside the runs.

    Attributes:
        html: file of the page.
        figures: folder of figures as SVG.
        palette: colours of figures.
        latex: folder of tables as LaTeX.
        markdown: file that joins all tables.
        data: files of records, or folders of datasets.
        criteria: hypotheses for the scorecard.
        method: arm that the others are compared with.
    """

    html: Path | None = None
    figures: Path | None = None
    palette: Path | None = None
    latex: Path | None = None
    markdown: Path | None = None
    data: tuple[Path, ...] = ()
    criteria: Path | None = None
    method: str | None = None

    @property
    def any(self) -> bool:
        """Whether something is written."""
        return any((self.html, self.figures, self.latex, self.markdown))

    @property
    def tables(self) -> bool:
        """Whether something is written that tables stand in."""
        return any((self.html, self.latex, self.markdown))

    def check(self, request: ReportRequest) -> None:
        """Refuse options that would do nothing.

        Raises:
            click.UsageError: an option has no output that it is for, or has no meaning there.
        """
        given = {"--data": self.data, "--criteria": self.criteria, "--method": self.method}
        idle = [name for name, value in given.items() if value] if not self.tables else []
        if self.palette is not None and not (self.html or self.figures):
            message = "--palette is for --html and --figures; neither of them was given"
            raise click.UsageError(message)
        if idle:
            message = f"{idle[0]} is for --html, --latex and --markdown; none of them was given"
            raise click.UsageError(message)
        if self.any and request.calibration is not None:
            message = (
                "--calibration is for the report of one RUN in the terminal; files take the "
                "calibration.json in the folder of each run, where `pact-eval calibrate CALIB_RUN "
                "--holdout RUN` puts it"
            )
            raise click.UsageError(message)


def refuse_terminal_options(context: click.Context, request: ReportRequest) -> None:
    """Refuse `--by` beside files: it groups the report in the terminal.

    Raises:
        click.UsageError: it was given.
    """
    if context.get_parameter_source("by") == click.core.ParameterSource.COMMANDLINE:
        message = (
            f"--by {request.by} groups the report in the terminal; files show kinds and domains"
        )
        raise click.UsageError(message)


def write_report(runs: tuple[Path, ...], files: ReportFiles, request: ReportRequest) -> int:
    """Write what was asked for, print the paths, and return the exit code.

    Raises:
        InputError: a run, dataset or file of criteria cannot be used, or a folder is missing.
    """
    from pact_eval.evaluation import Experiment, Settings

    for path in (files.html, files.markdown):
        _refuse_no_folder(path)
    settings = Settings(
        decoding=request.decoding,
        resamples=request.resamples,
        seed=request.bootstrap_seed,
        method=files.method,
    )
    experiment = Experiment.read(runs, settings)
    warn(experiment.warnings)
    page = _page_request(experiment, files)
    _warn_of_data(page)
    page.for_tables.check()
    written: dict[str, Json] = {}
    skipped: dict[str, Json] = {}
    built = _built(page.for_tables) if files.tables else None
    if files.html is not None:
        written["html"] = _write_page(page, built, files.html)
    if files.figures is not None:
        written["figures"], missing = _draw(page, files.figures)
        skipped |= {f"figure {name}": why for name, why in missing.items()}
    if built is not None:
        written |= _write_tables(experiment, built, files)
        skipped |= {f"table {name}": why for name, why in built.skipped.items()}
    _report(written, skipped, as_json=request.as_json)
    return _exit_code(page.for_tables, built)


def _refuse_no_folder(path: Path | None) -> None:
    from pact_eval.errors import InputError

    if path is not None and not path.parent.is_dir():
        message = f"{path.parent}: no such folder to write {path.name} to; make it first"
        raise InputError(message)
    if path is not None and path.is_dir():
        message = f"{path}: expected a file to write to, got a folder"
        raise InputError(message)


def _page_request(experiment: Experiment, files: ReportFiles) -> PageRequest:
    from pact_reports.figures import NEUTRAL, read_palette
    from pact_reports.page import PageRequest, read_item_records

    with output(to_stderr=True).status("Reading records"):
        # The page shows records; tables count the splits of folders.
        asked = bool(files.data) and files.html is not None
        records = read_item_records(files.data, experiment) if asked else None
    return PageRequest(
        experiment=experiment,
        records=records,
        criteria=files.criteria,
        data=tuple(path for path in files.data if path.is_dir()),
        palette=NEUTRAL if files.palette is None else read_palette(files.palette),
        command=("pact-eval", *sys.argv[1:]),
    )


def _warn_of_data(page: PageRequest) -> None:
    from pact_reports.page.diagnostics import sentence

    warn(map(sentence, () if page.records is None else page.records.different))


def _built(request: TableRequest) -> BuiltTables:
    from pact_reports.tables import build_tables

    with progress_bar("Making tables") as progress:
        return build_tables(request, None, progress)


def _write_page(page: PageRequest, built: BuiltTables | None, path: Path) -> str:
    from pact_reports.page import make_page, write_page

    with progress_bar("Making the page") as progress:
        text = make_page(page, built=built, progress=progress)
    write_page(text, path)
    return str(path)


def _draw(page: PageRequest, folder: Path) -> tuple[Json, dict[str, str]]:
    from pact_reports.figures import FIGURES
    from pact_reports.figures.files import draw_figures

    with progress_bar("Drawing figures") as progress:
        drawn = draw_figures(
            page.experiment, FIGURES, folder, palette=page.palette, progress=progress
        )
    files: Json = {name: [*map(str, paths)] for name, paths in drawn.files.items()}
    return files, dict(drawn.skipped)


def _write_tables(
    experiment: Experiment, built: BuiltTables, files: ReportFiles
) -> dict[str, Json]:
    from pact_reports.tables import markdown_report, write_tables

    written: dict[str, Json] = {}
    if files.latex is not None:
        tables = write_tables(built, experiment, files.latex, ("latex",))
        written["latex"] = {name: [*map(str, paths)] for name, paths in tables.items()}
    if files.markdown is not None:
        text = markdown_report(experiment, built)
        files.markdown.write_bytes(text.encode("utf-8", errors="backslashreplace"))
        written["markdown"] = str(files.markdown)
    return written


def _report(written: dict[str, Json], skipped: dict[str, Json], *, as_json: bool) -> None:
    from pact_reports.plain_text import cell, one_line

    if as_json:
        print_json({"files": written, "skipped": skipped})
        return
    console = output()
    for path in _paths(written):
        console.print(cell(path), soft_wrap=True)
    errors = output(to_stderr=True)
    for name, why in skipped.items():
        errors.print(cell(f"{name}: left out: {one_line(str(why))}"), soft_wrap=True)


def _paths(written: Any) -> list[str]:
    if isinstance(written, str):
        return [written]
    inner = written.values() if isinstance(written, dict) else written
    return [path for each in inner for path in _paths(each)]


def _exit_code(request: TableRequest, built: BuiltTables | None) -> int:
    """Return 5 where the criteria are not what was registered in time, as `tables` does."""
    from pact_eval.errors import TamperedError
    from pact_reports.plain_text import one_line

    if built is None or "scorecard" not in built.tables:
        return 0
    status = request.judged.registration.status
    if status not in ("TAMPERED", "REGISTERED AFTER THE RUNS"):
        return 0
    where = one_line(str(request.criteria))
    click.echo(f"Error: {where}: {status}; the scorecard says why", err=True)
    return TamperedError.exit_code
