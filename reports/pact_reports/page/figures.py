"""Figures and tables of a page, by question, and reliability diagrams with a link from every bin.

The diagrams are drawn by a template, not by matplotlib, so that each point can be clicked, focused
and read aloud.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from markupsafe import Markup

from pact_eval.errors import InputError, counted
from pact_eval.evaluation.curves.probabilities import BinnedCurve, binned_reliability
from pact_eval.evaluation.diagnostics import Topic
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.progress import tracked
from pact_reports.figures.figure import FigureFile, reason
from pact_reports.figures.files import inline_svg
from pact_reports.figures.registry import FIGURES
from pact_reports.figures.style import Looks
from pact_reports.page.item_links import items_href
from pact_reports.page.questions import SECTIONS
from pact_reports.page.request import PageRequest
from pact_reports.page.svg import page_svg, variable
from pact_reports.page.tables import ablated_table, runs_table, without_empty_columns
from pact_reports.table import Table
from pact_reports.writers.files import BuiltTables

_OPEN_FILES: Final = 4
_FIGURES_OF_TOPIC: Final[Mapping[Topic, tuple[str, ...]]] = {
    "better": ("main",),
    "where": ("differences", "pairs", "margins"),
    "order": ("tv", "views", "remedies"),
    "probabilities": (
        *("reliability", "confidence", "ece-kind", "temperature-length", "temperature-choices"),
    ),
    "acting": ("risk-coverage", "costs"),
}
_TABLES_OF_TOPIC: Final[Mapping[Topic, tuple[str, ...]]] = {
    "better": ("main", "paired", "ablations", "scorecard"),
    "where": ("kinds", "domains", "answers", "confusion"),
    "order": ("views", "order", "slots"),
    "probabilities": ("calibration", "answer-scores"),
    "acting": ("risk-coverage", "gates", "costs"),
    "data": ("splits",),
}
"""Other figures and tables are with the runs."""

PAPER_TABLES: Final = ("mcnemar",)
"""Tables that a page leaves to `paper`: another p-value of a difference that the page tests."""

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
        parts = [
            counted(figures, "figure") if figures else "",
            counted(len(self.tables), "table") if self.tables else "",
        ]
        return ", ".join(filter(None, parts))


def make_contents(
    request: PageRequest, built: BuiltTables, groups: Table | None
) -> Mapping[Topic, Contents]:
    """Draw the figures of a page, and distribute figures and tables to its sections.

    Args:
        request: the runs.
        built: the tables of the runs.
        groups: metrics by the column that the user named, or None.

    Raises:
        InputError: a run does not have the decoding.
    """
    contents: dict[Topic, Contents] = {topic: Contents() for topic in SECTIONS}
    single = {*_of_one_group(request.experiment)}
    _add_figures(request, contents, single)
    left = {*PAPER_TABLES, *(() if request.tables else single)}
    for name, table in built.tables.items():
        if name not in left:
            section = contents[_topic(_TABLES_OF_TOPIC, name, request)]
            where = section.open_tables if name == "scorecard" else section.tables
            where.append(without_empty_columns(table))
    for name in (name for name in built.skipped if name not in left):
        section = contents[_topic(_TABLES_OF_TOPIC, name, request)]
        section.left_out["Not made"][name] = built.skipped[name]
    _add_tables_of_runs(request, contents["runs"])
    if groups is not None:
        contents["where"].open_tables.append(without_empty_columns(groups))
    return contents


def _add_figures(
    request: PageRequest, contents: Mapping[Topic, Contents], single: Collection[str]
) -> None:
    """Draw the figures that the user named, or else those of a page without those of one group."""
    looks = Looks.of(request.experiment, request.palette)
    on_page = [name for name, figure in FIGURES.items() if figure.on_page and name not in single]
    names = on_page if request.figures is None else list(request.figures)
    for name in tracked(names, "Drawing figures", "figures"):
        section = contents[_topic(_FIGURES_OF_TOPIC, name, request)]
        drawings: list[Drawing] = []
        try:
            figure = FIGURES[name].built(request.experiment, looks, request.decisions)
            drawings = [(file, page_svg(inline_svg(file))) for file in figure.files]
            missing = "; ".join(figure.missing)
        except ValueError as error:
            # InputError is a ValueError. An error of drawing must not prevent the page.
            missing = reason(error) if isinstance(error, InputError) else f"drawing failed: {error}"
        if name in _OPEN and not section.shown and len(drawings) <= _OPEN_FILES:
            section.shown = drawings
        elif drawings:
            section.folded.append((FIGURES[name].title, drawings))
        if missing:
            section.left_out["Drawn in part" if drawings else "Not drawn"][name] = missing


def _of_one_group(experiment: Experiment) -> Iterator[str]:
    """Yield the figures and tables by groups of a column of which all items have one value."""
    for name, columns in _GROUPED.items():
        runs = [run.predictions for run in experiment.runs]
        values = ({*chain(*(getattr(run, column) for run in runs))} for column in columns)
        if all(len(of_column) < 2 for of_column in values):
            yield name


def _add_tables_of_runs(request: PageRequest, contents: Contents) -> None:
    """Put the tables of every run, and of ablated contexts, before the others."""
    experiment, names = request.experiment, request.names
    tables = [runs_table(experiment, names)]
    if experiment.ablated:
        try:
            tables.append(ablated_table(experiment, names))
        except InputError as error:
            contents.left_out["Not made"]["ablated-runs"] = reason(error)
    contents.tables[:0] = map(without_empty_columns, tables)


def _topic(names: Mapping[Topic, tuple[str, ...]], name: str, request: PageRequest) -> Topic:
    """Return the topic of a figure or table that the page has a section on."""
    for topic, members in names.items():
        if name in members and (topic != "better" or request.compares):
            return topic
    return "runs"


_STRIP: Final = 30.0
"""Height of the numbers of items below a diagram."""


def reliability_diagrams(experiment: Experiment, looks: Looks) -> list[dict[str, Any]]:
    """Return the diagrams of runs with probabilities; `figures.html` has the frame.

    Args:
        experiment: the runs, in the order of the item browser.
        looks: colours of the arms.
    """
    return [
        {
            "number": at + 1,
            "run": looks.names.run(run.label),
            "colour": f"var(--{variable(looks.arms[run.arm].colour)})",
            **diagram,
        }
        for at, run in enumerate(experiment.runs)
        if (diagram := _diagram(experiment, run, at)) is not None
    ]


def _diagram(experiment: Experiment, run: ExperimentRun, at: int) -> dict[str, Any] | None:
    """Return words and curves of a run; None without probabilities."""
    try:
        curves = binned_reliability(experiment, run)
    except InputError:
        return None
    first = curves[0].bins.count
    most = max(int(first.max()), 1)
    width = 290 / first.size
    return {
        "words": [
            f"{'After T(x)' if curve.calibrated else 'Raw'}: "
            f"{experiment.probabilities(run, calibrated=curve.calibrated).words}"
            for curve in curves
            if curve.calibrated != experiment.settings.calibrated
        ],
        "curves": [
            ("calibrated" if curve.calibrated else "raw", [*_points(curve, at)]) for curve in curves
        ],
        "bars": [
            {
                "x": 34 + bin_ * width + 1,
                "width": width - 2,
                "height": max(1.0, _STRIP * count / most),
                "href": items_href(at, bin_=bin_, calibrated=curves[0].calibrated),
            }
            for bin_, count in enumerate(first.tolist())
            if count
        ],
        "most": most,
    }


def _points(curve: BinnedCurve, run: int) -> Iterator[dict[str, Any]]:
    bins = curve.bins
    for at, count in enumerate(bins.count.tolist()):
        if not count:
            continue
        accuracy, confidence = float(bins.accuracy[at]), float(bins.mean_confidence[at])
        start, end = (100 * float(edge) for edge in bins.edges[at : at + 2])
        yield {
            "x": 34 + 290 * confidence,
            "y": _y(accuracy),
            "low": _y(float(curve.low[at])),
            "high": _y(float(curve.high[at])),
            "href": items_href(run, bin_=at, calibrated=curve.calibrated),
            "words": (
                f"Confidence{' after T(x)' if curve.calibrated else ''} of {start:.1f}% to "
                f"{end:.1f}%: {counted(count, 'item')}, {100 * accuracy:.1f}% right, mean "
                f"confidence {100 * confidence:.1f}%"
            ),
        }


def _y(share: float) -> float:
    return 8 + 290 * (1 - share)
