"""Reports on runs as files: one HTML page, figures, and tables as LaTeX, Markdown and CSV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pact_eval._json import Json
from pact_eval.calibration.temperatures import CalibrationWarning
from pact_eval.errors import InputError, TamperedError
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics
from pact_eval.evaluation.arms.table_results import read_clear_changes
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.diagnostics import DifferentData
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_records import ItemRecords, imported_item_records, read_item_records
from pact_eval.evaluation.run_records import remembered_data
from pact_eval.plain_text import one_line
from pact_eval.results import Note, Result
from pact_reports.figures.axes import STYLES, Canvas
from pact_reports.figures.files import draw_figures
from pact_reports.figures.registry import FIGURES
from pact_reports.figures.style import NEUTRAL, read_palette, with_arms
from pact_reports.page.assembly import make_page, write_page
from pact_reports.request import Request
from pact_reports.results import Outputs
from pact_reports.writers.files import BuiltTables, build_tables, write_tables

Paths = Mapping[str, tuple[Path, ...]]

_KIND: Final = "kind"
"""The grouping of tables and figures; another one has a section of its own."""


@dataclass(frozen=True, repr=False)
class WrittenReport(Result):
    """The files that were written.

    Attributes:
        data: the conclusion on the data of the runs.
        html: the page, or None.
        figures: by figure, its files; None if none were asked for.
        tables: by table, its files; None if none were asked for.
        skipped_figures: by figure, why it was not drawn.
        skipped_tables: by table, why it was not made.
        notes: by figure that was drawn, what is missing from it.
        warnings: what a reader must know of the runs.
        published: the published metrics that are shown instead of runs, or None.
        different: runs whose dataset is not among the files of records.
        registration: why the registration of the criteria does not hold; None if it does.
        answer: what the page says first, in a sentence; "" without a page, or if nothing is told.
    """

    data: DataConclusion
    html: Path | None = None
    figures: Paths | None = None
    tables: Paths | None = None
    skipped_figures: Mapping[str, str] = field(default_factory=dict)
    skipped_tables: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    warnings: tuple[CalibrationWarning | Note, ...] = ()
    published: ArmMetrics | None = None
    different: tuple[DifferentData, ...] = ()
    registration: str | None = None
    answer: str = ""

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every file, in the order of the attributes."""
        page = () if self.html is None else (self.html,)
        groups = (self.figures or {}, self.tables or {})
        return page + tuple(path for group in groups for files in group.values() for path in files)

    def files_json(self) -> dict[str, Json]:
        """Return the files as JSON values: html, figures and tables."""
        files: dict[str, Json] = {
            "html": None if self.html is None else str(self.html),
            "figures": None if self.figures is None else _paths_json(self.figures),
            "tables": None if self.tables is None else _paths_json(self.tables),
        }
        return {name: value for name, value in files.items() if value is not None}

    def check_registration(self) -> None:
        """Refuse a scorecard whose criteria are not what was registered in time.

        Raises:
            TamperedError: the registration does not hold.
        """
        if self.registration is not None:
            raise TamperedError(self.registration)


def _paths_json(files: Paths) -> dict[str, Json]:
    """Return files by name as JSON values."""
    return {name: [*map(str, paths)] for name, paths in files.items()}


def write_report(experiment: Experiment, outputs: Outputs) -> WrittenReport:
    """Write a report on runs: a page, figures and tables, all from the same results.

    Args:
        experiment: the runs, with the settings of all numbers.
        outputs: what to write. Nothing is written for a table or figure that lacks data.

    Returns:
        The files, and what was left out with the reason.

    Raises:
        InputError: a dataset or file of criteria cannot be used, or a folder is missing.
        RecordError: the criteria or a file of data cannot be read.

    Example:
        >>> from pact_eval.evaluation.experiment import Experiment
        >>> from pact_reports.files import write_report
        >>> from pact_reports.results import Outputs
        >>> experiment = Experiment.read([])
        >>> write_report(experiment, Outputs()).paths
        ()
    """
    _check_target(outputs.html)
    request = _request(experiment, outputs)
    page = None if outputs.html is None else _page_request(request, outputs)
    request.check()
    canvas = None if outputs.figures is None else _canvas(outputs)
    built = BuiltTables({}, {})
    if outputs.any_table:
        built = build_tables(page or request, outputs.table_names)
    if page is not None and outputs.html is not None:
        write_page(make_page(page, built=built), outputs.html)
    drawn = None
    if outputs.figures is not None and canvas is not None:
        usual = "svg" if outputs.figure_style == "default" else "pdf"
        names = FIGURES if outputs.figure_names is None else outputs.figure_names
        formats = outputs.figure_formats or (usual,)
        drawn = draw_figures(request, names, outputs.figures, formats, canvas)
    tables = None
    if outputs.tables is not None and built.tables:
        tables = write_tables(built, request, outputs.tables, outputs.table_formats)
    return WrittenReport(
        experiment.data,
        html=outputs.html,
        figures=None if drawn is None else drawn.files,
        tables={} if tables is None and outputs.tables is not None else tables,
        skipped_figures={} if drawn is None else drawn.skipped,
        skipped_tables=built.skipped,
        notes={} if drawn is None else drawn.notes,
        warnings=tuple(experiment.warnings),
        published=outputs.metrics,
        different=() if page is None or page.records is None else page.records.different,
        registration=_registration_error(page or request) if "scorecard" in built.tables else None,
        answer="" if page is None else page.answer,
    )


def _records(experiment: Experiment, outputs: Outputs) -> ItemRecords | None:
    """Read the records of the items: of the given data, those that runs remember, or imports."""
    if outputs.data:
        return read_item_records(outputs.data, experiment)
    files, _ = remembered_data(experiment.runs)
    if not files:
        return imported_item_records(experiment)
    try:
        return read_item_records(files, experiment)
    except InputError:  # the conclusion on the data says why
        return None


def _request(experiment: Experiment, outputs: Outputs) -> Request:
    palette = NEUTRAL if outputs.palette is None else read_palette(outputs.palette)
    metrics = outputs.metrics
    return Request(
        experiment,
        criteria=outputs.criteria,
        # Datasets, whose files the tables count; a file of records is for the page.
        data=tuple(path for path in outputs.data if not path.is_file()),
        palette=with_arms(palette, outputs.arms, outputs.arms_source or Path()),
        clear={} if outputs.clear is None else read_clear_changes(outputs.clear),
        thresholds=outputs.gates,
        published=None if metrics is None else metrics.method_first(experiment.settings.method),
    )


def _page_request(request: Request, outputs: Outputs) -> Request:
    experiment, settings = request.experiment, request.experiment.settings
    return replace(
        request,
        experiment=replace(experiment, settings=replace(settings, by=_KIND, bins=None)),
        grouped=None if settings.by == _KIND else experiment,
        records=_records(experiment, outputs),
        command=outputs.command,
    )


def _canvas(outputs: Outputs) -> Canvas:
    canvas = Canvas(STYLES[outputs.figure_style], outputs.figure_width)
    _ = canvas.inches  # raises: the width is not known
    return canvas


def _registration_error(request: Request) -> str | None:
    registration = request.judged.registration
    if not registration.broken:
        return None
    return f"{one_line(str(request.criteria))}: {registration.status}; the scorecard says why"


def _check_target(path: Path | None) -> None:
    if path is not None and not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such folder to write {path.name} to; make it first")
    if path is not None and path.is_dir():
        raise InputError(f"{path}: expected a file to write to, got a folder")
