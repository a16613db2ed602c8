"""Figures and tables of a page, by question, and reliability diagrams with a link from every bin.

The diagrams are drawn by a template, not by matplotlib, so that each point can be clicked, focused
and read aloud.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

from markupsafe import Markup

from pact_eval.errors import InputError, counted
from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.curves.probabilities import reliability
from pact_eval.evaluation.diagnostics import Topic, calibrated_items
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.notes import views_notes
from pact_eval.evaluation.registry import (
    MetricDecoding,
    MetricSpec,
    find_metric,
    registered_metrics,
)
from pact_eval.evaluation.report import Group
from pact_eval.numbers import UNDEFINED, methods_text
from pact_eval.progress import tracked
from pact_reports.figures.figure import FigureFile
from pact_reports.figures.files import inline_svg
from pact_reports.figures.registry import FIGURES
from pact_reports.figures.style import Looks
from pact_reports.page.html import page_svg, variable
from pact_reports.page.questions import SECTIONS
from pact_reports.request import Request, Spec, reason
from pact_reports.table import Cell, Column, Table, table_row
from pact_reports.tables.cells import (
    CALIBRATION_ERROR,
    NOISE,
    count_cell,
    count_column,
    decoding_words,
    few_pairs,
    metric_column,
    value_cell,
    with_interval,
)
from pact_reports.tables.registry import TABLES
from pact_reports.views.report import has_row
from pact_reports.writers.files import BuiltTables

_OPEN_FILES: Final = 4
PAPER_TABLES: Final = ("mcnemar", "settings")
"""Tables that a page leaves to `paper`: another p-value of a difference that the page tests, and
settings, which released folders have."""

_GROUPED: Final[Mapping[str, tuple[str, ...]]] = {
    "kinds": ("kind",),
    "ece-kind": ("kind",),
    "domains": ("domain",),
    "differences": ("kind", "domain"),
}
"""Figures and tables whose rows are groups of these columns; one group is all items again."""

_OPEN: Final = ("differences", "pairs", "risk-coverage")
"""Figures that are the picture of their section; of the first that is drawn, the rest fold."""

Drawing = tuple[FigureFile, Markup]
"""A figure file and its SVG."""


@dataclass
class Contents:
    """Figures and tables of a topic.

    Attributes:
        shown: drawings that are open, next to each other.
        folded: by title of a figure, its drawings.
        tables: the tables that are folded.
        open_tables: the others.
        left_out: by kind, such as "Not drawn", the reasons by name; below what is folded.
    """

    shown: list[Drawing] = field(default_factory=list)
    folded: list[tuple[str, list[Drawing]]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    open_tables: list[Table] = field(default_factory=list)
    left_out: dict[str, dict[str, str]] = field(
        default_factory=lambda: {"Not drawn": {}, "Drawn in part": {}, "Not made": {}}
    )

    def __bool__(self) -> bool:
        """Return whether there is anything to see."""
        return bool(self.shown or self.folded or self.tables or self.open_tables)

    @property
    def further(self) -> str:
        """What is folded, in words; "" if nothing is."""
        figures = sum(len(drawings) for _, drawings in self.folded)
        parts = {"figure": figures, "table": len(self.tables)}
        return ", ".join(counted(n, what) for what, n in parts.items() if n)


def make_contents(
    request: Request, built: BuiltTables, groups: Table | None
) -> Mapping[Topic, Contents]:
    """Draw the figures of a page, and distribute figures and tables to its sections.

    Args:
        request: the runs.
        built: the tables of the runs.
        groups: metrics by the column that the user named, or None.

    Raises:
        InputError: a run does not have the decoding.
    """
    experiment = request.experiment
    contents: dict[Topic, Contents] = {topic: Contents() for topic in SECTIONS}
    runs = [run.predictions for run in experiment.runs]
    single = {
        name
        for name, columns in _GROUPED.items()
        if all(len({*chain(*(getattr(run, by) for run in runs))}) < 2 for by in columns)
    }
    names = request.figures
    if names is None:
        names = tuple(name for name in FIGURES if name not in single)
    for name in tracked(names, "Drawing figures", "figures"):
        _add_figure(request, name, contents[_topic(FIGURES[name], request)])
    left = {*PAPER_TABLES, *(() if request.tables else single)}
    for name in (name for name in (*built.tables, *built.skipped) if name not in left):
        section = contents[_topic(TABLES[name], request)]
        if name in built.skipped:
            section.left_out["Not made"][name] = built.skipped[name]
            continue
        where = section.open_tables if name == "scorecard" else section.tables
        where.append(without_empty_columns(built.tables[name]))
    # The tables of every run, and of ablated contexts, are before the others.
    tables = [runs_table(experiment, request.names)]
    if experiment.ablated:
        try:
            tables.append(ablated_table(experiment, request.names))
        except InputError as error:
            contents["runs"].left_out["Not made"]["ablated-runs"] = reason(error)
    contents["runs"].tables[:0] = map(without_empty_columns, tables)
    if groups is not None:
        contents["where"].open_tables.append(without_empty_columns(groups))
    return contents


def _topic(spec: Spec[Any], request: Request) -> Topic:
    return spec.topic if spec.topic != "better" or request.compares else "runs"


def _add_figure(request: Request, name: str, section: Contents) -> None:
    """Draw a figure into its section, and say what is missing from it."""
    drawings: list[Drawing] = []
    try:
        figure, notes = FIGURES[name].made(request)
        drawings = [(file, page_svg(inline_svg(file))) for file in figure.files]
        missing = "; ".join((*figure.missing, *notes))
    except ValueError as error:
        # InputError is a ValueError. An error of drawing must not prevent the page.
        missing = reason(error) if isinstance(error, InputError) else f"drawing failed: {error}"
    if name in _OPEN and not section.shown and len(drawings) <= _OPEN_FILES:
        section.shown = drawings
    elif drawings:
        section.folded.append((FIGURES[name].title, drawings))
    if missing:
        section.left_out["Drawn in part" if drawings else "Not drawn"][name] = missing


def reliability_diagrams(experiment: Experiment, looks: Looks) -> list[dict[str, Any]]:
    """Return the diagrams of runs with probabilities; `figures.html` has the frame.

    Args:
        experiment: the runs, in the order of the item browser.
        looks: colours of the arms.
    """
    diagrams = []
    for at, run in enumerate(experiment.runs):
        try:
            curves = reliability(experiment, run, binned=True).curves
        except InputError:
            continue
        words = [
            f"{'After T(x)' if curve.calibrated else 'Raw'}: "
            f"{experiment.probabilities(run, calibrated=curve.calibrated).words}"
            for curve in curves
            if curve.calibrated != experiment.settings.calibrated
        ]
        colour = f"var(--{variable(looks.arms[run.arm].colour)})"
        name = looks.names.run(run.label)
        diagrams.append({"at": at, "run": name, "colour": colour, "words": words, "curves": curves})
    return diagrams


_SHORT: Final = {"view_tv": "TV", "flip_rate": "Flips", "order_accuracy": "Mean over orders"}


def runs_table(experiment: Experiment, names: ArmNames) -> Table:
    """Lay out the headline numbers with their intervals: one row per run.

    Args:
        experiment: the runs.
        names: display names of arms.

    Raises:
        InputError: a run does not have the decoding.
    """
    common = experiment.comparisons.at_common_views
    decoding = experiment.settings.decoding
    raw, calibrated = MetricDecoding(decoding), MetricDecoding(decoding, calibrated=True)
    groups = [common.evaluation(run, calibrated=False).groups[0] for run in common.runs]
    columns = [Column("Run", "left"), count_column("Items")]
    rows: list[list[Cell]] = [
        [Cell(names.run(run.label)), _items_cell(group)]
        for run, group in zip(common.runs, groups, strict=True)
    ]
    for spec in registered_metrics("full", "every run"):
        if not has_row(spec, [group.estimates[spec.name].value for group in groups]):
            continue
        with_calibrated = find_metric(spec.name).noise_floor
        columns.append(metric_column(spec, raw, _SHORT.get(spec.name)))
        if with_calibrated:
            columns.append(metric_column(spec, calibrated, f"{spec.title} after T(x)"))
        for cells, run, group in zip(rows, common.runs, groups, strict=True):
            cells.append(_estimated(group, spec))
            if with_calibrated and calibrated_items(common, run) is None:
                why = "no calibrator in the run folder, or none that can be applied"
                cells.append(Cell("–", reason=why))
            elif with_calibrated:
                after = common.evaluation(run, calibrated=True).groups[0]
                cells.append(_estimated(after, spec))
    arms = [None, *(run.arm for run in common.runs)]
    first = experiment.evaluation(experiment.runs[0], calibrated=False).groups[0]
    return Table(
        name="runs",
        title="Every run",
        caption=(
            f"Decoding: {decoding_words(raw)}, except for ECE after T(x), which is calibrated; "
            "TV and flips are between the K views; answer mass is the mean over them. "
            "Rates in %, AURC in %, NLL in nats."
        ),
        columns=tuple(columns),
        rows=tuple(
            table_row(*cells, rule=run.arm != before)
            for cells, run, before in zip(rows, common.runs, arms, strict=False)
        ),
        notes=(NOISE, *views_notes(experiment, "always", names)),
        brackets=f"{_brackets(first)} {CALIBRATION_ERROR}",
    )


def _items_cell(group: Group) -> Cell:
    """Write the number of items and, below, the number of their families."""
    return replace(count_cell(group.items), interval=f"of {group.families:,} families")


def _estimated(group: Group, spec: MetricSpec) -> Cell:
    estimate = group.estimates[spec.name]
    few = few_pairs(estimate) if "pairs" in find_metric(spec.name).needs else ""
    return with_interval(value_cell(estimate.value, spec, estimate.reason), estimate, spec, few=few)


def _brackets(group: Group) -> str:
    method = methods_text(group.estimates.values())
    return f"In brackets: {method}. If there is no interval, the reason is given."


def ablated_table(experiment: Experiment, names: ArmNames) -> Table:
    """Lay out the metrics of the runs on ablated contexts.

    Args:
        experiment: an experiment with one or more runs on ablated contexts.
        names: display names of arms.

    Raises:
        InputError: a run does not have the decoding.
    """
    evaluations = [
        (run, experiment.evaluation(run, calibrated=False)) for run in experiment.ablated
    ]
    first = evaluations[0][1]
    decoding = MetricDecoding(first.decoding, first.calibration != "raw")
    heads = [Column("Run", "left"), count_column("Contexts")]
    rows = [
        table_row(
            Cell(names.run(run.label)),
            _items_cell(evaluation.groups[0]),
            *(_estimated(evaluation.groups[0], spec) for spec in evaluation.metrics),
        )
        for run, evaluation in evaluations
    ]
    return Table(
        name="ablated-runs",
        title="Runs on ablated contexts",
        caption=(
            f"Decoding: {decoding_words(decoding)}. The sentence that decides was deleted, so no "
            "answer is right, and a model that uses the evidence is unsure. Answer gap: "
            "|z_a - z_b| in nats of the two answers that the evidence no longer distinguishes. "
            "Rates in %."
        ),
        columns=(*heads, *(metric_column(spec, decoding) for spec in first.metrics)),
        rows=tuple(rows),
        brackets=_brackets(first.groups[0]),
    )


def without_empty_columns(table: Table) -> Table:
    """Leave out the columns in which no row has a value, and say which.

    Args:
        table: any table.

    Example:
        >>> columns = (Column("a"), Column("b"))
        >>> table = Table("t", columns=columns, rows=(table_row("x", Cell("–")),))
        >>> without_empty_columns(table).notes, len(without_empty_columns(table).columns)
        (('No row has: b.',), 1)
    """
    kept, empty = [0], []
    for at in range(1, len(table.columns)):
        cells = [row.cells[at] for row in table.rows]
        if cells and all(cell.text in ("", UNDEFINED) for cell in cells):
            why = next((f" ({cell.reason})" for cell in cells if cell.reason), "")
            empty.append(f"{table.columns[at].title}{why}")
        else:
            kept.append(at)
    if not empty:
        return table
    notes = (*table.notes, f"No row has: {', '.join(empty)}.")
    return replace(table.only(kept), notes=notes)
