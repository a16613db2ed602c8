"""Figures and tables of a page, by section, and reliability diagrams with a link from every bin.

The diagrams are drawn by a template, not by matplotlib, so that each point can be clicked, focused
and read aloud.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from markupsafe import Markup

from pact_eval.errors import InputError, counted
from pact_eval.evaluation.curves.probabilities import BinnedCurve, binned_reliability
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.progress import tracked
from pact_reports.figures.figure import FigureFile, reason
from pact_reports.figures.files import inline_svg
from pact_reports.figures.registry import FIGURES
from pact_reports.figures.style import Looks
from pact_reports.page.item_links import items_href
from pact_reports.page.request import PageRequest
from pact_reports.page.svg import page_svg, variable
from pact_reports.table import Table
from pact_reports.writers.files import BuiltTables

_OPEN_FILES: Final = 4
_SECTION_OF_FIGURE: Final = dict.fromkeys(
    ("reliability", "confidence", "ece-kind", "temperature-length", "temperature-choices"),
    "calibration",
)
"""Other figures are in the section of figures."""

_SECTION_OF_TABLE: Final = {
    "calibration": "calibration",
    "answer-scores": "calibration",
    "order": "order",
    "slots": "order",
}
"""Other tables are in the section of tables."""

Drawing = tuple[FigureFile, Markup]
"""A figure file and its SVG."""


@dataclass
class Section:
    """Figures and tables of a section.

    Attributes:
        shown: drawings that are next to each other.
        folded: by title of a figure, its drawings.
        tables: the tables.
        left_out: by kind, such as "Not drawn", the reasons by name.
    """

    shown: list[Drawing] = field(default_factory=list)
    folded: list[tuple[str, list[Drawing]]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    left_out: dict[str, dict[str, str]] = field(
        default_factory=lambda: {"Not drawn": {}, "Drawn in part": {}, "Not made": {}}
    )


def make_sections(request: PageRequest, built: BuiltTables) -> Mapping[str, Section]:
    """Draw the figures of a page, and distribute figures and tables to its sections."""
    sections = {name: Section() for name in ("calibration", "order", "figures", "tables")}
    looks = Looks.of(request.experiment, request.palette)
    on_page = [name for name, figure in FIGURES.items() if figure.on_page]
    names = on_page if request.figures is None else list(request.figures)
    for name in tracked(names, "Drawing figures", "figures"):
        section = sections[_SECTION_OF_FIGURE.get(name, "figures")]
        drawings: list[Drawing] = []
        try:
            figure = FIGURES[name].built(request.experiment, looks, request.decisions)
            drawings = [(file, page_svg(inline_svg(file))) for file in figure.files]
            missing = "; ".join(figure.missing)
        except ValueError as error:
            # InputError is a ValueError. An error of drawing must not prevent the page.
            missing = reason(error) if isinstance(error, InputError) else f"drawing failed: {error}"
        # The section on calibration begins with diagrams of the same bins, whose points are links.
        if len(drawings) > _OPEN_FILES or (drawings and name == "reliability"):
            section.folded.append((FIGURES[name].title, drawings))
        else:
            section.shown += drawings
        if missing:
            section.left_out["Drawn in part" if drawings else "Not drawn"][name] = missing
    for name, table in built.tables.items():
        sections[_SECTION_OF_TABLE.get(name, "tables")].tables.append(table)
    for name, why in built.skipped.items():
        sections[_SECTION_OF_TABLE.get(name, "tables")].left_out["Not made"][name] = why
    return sections


_STRIP: Final = 30.0
"""Height of the numbers of items below a diagram."""


def reliability_diagrams(experiment: Experiment, looks: Looks) -> list[dict[str, Any]]:
    """Return the diagram of every run as the template draws it: `figures.html` has the frame.

    Args:
        experiment: the runs, in the order of the item browser.
        looks: colours of the arms.
    """
    return [
        {
            "number": at + 1,
            "run": looks.names.run(run.label),
            "colour": f"var(--{variable(looks.arms[run.arm].colour)})",
            **_diagram(experiment, run, at),
        }
        for at, run in enumerate(experiment.runs)
    ]


def _diagram(experiment: Experiment, run: ExperimentRun, at: int) -> dict[str, Any]:
    """Return words and curves of a run; only the words if it has no probabilities."""
    try:
        curves = binned_reliability(experiment, run)
    except InputError as error:
        return {"words": [reason(error)], "curves": []}
    first = curves[0].bins.count
    most = max(int(first.max()), 1)
    width = 290 / first.size
    return {
        "words": [
            f"{'After T(x)' if curve.calibrated else 'Raw'}: "
            f"{experiment.probabilities(run, calibrated=curve.calibrated).words}"
            for curve in curves
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
