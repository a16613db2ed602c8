"""The sections of figures and of tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pact_eval.errors import InputError
from pact_reports.figures import FIGURES, FigureFile, Looks, reason
from pact_reports.figures.files import inline_svg
from pact_reports.markup import Html, data_text, element, joined
from pact_reports.page.request import PageRequest, Progress
from pact_reports.page.svg import strict_svg
from pact_reports.tables import BuiltTables, Table
from pact_reports.writers.html import table_html

_IN_SUMMARY: Final = ("main",)
_OPEN_FILES: Final = 4


def figures_html(request: PageRequest, progress: Progress | None = None) -> Html:
    """Draw the figures as inline SVG; list figures that lack data, with the reason."""
    looks = Looks.of(request.experiment, request.palette)
    wanted = list(FIGURES) if request.figures is None else list(request.figures)
    drawn: list[Html] = []
    folded: list[Html] = []
    missing: dict[str, str] = {}
    partly: dict[str, str] = {}
    for number, name in enumerate(wanted, start=1):
        try:
            figure = FIGURES[name].built(request.experiment, looks)
            elements = [_figure(file) for file in figure.files]
        except ValueError as error:
            # InputError is a ValueError. An error of drawing must not prevent the page.
            why = reason(error) if isinstance(error, InputError) else f"drawing failed: {error}"
            missing[name] = why
        else:
            if len(elements) > _OPEN_FILES:
                folded.append(_folded(FIGURES[name].title, elements))
            else:
                drawn += elements
            if figure.missing:
                (partly if elements else missing)[name] = "; ".join(figure.missing)
        if progress is not None:
            progress(number, len(wanted))
    grid = element("div", *drawn, class_="figures") if drawn else None
    if not drawn and not folded:
        grid = element("p", "No figure.")
    return joined(
        [grid, *folded, _left_out("Not drawn", missing), _left_out("Drawn in part", partly)]
    )


def _folded(title: str, elements: list[Html]) -> Html:
    """Collapse a figure that has one file per run, for many runs."""
    summary = element("summary", f"{title[:1].upper()}{title[1:]}: {len(elements):,} figures")
    return element("details", summary, element("div", *elements, class_="figures"))


def _figure(file: FigureFile) -> Html:
    return element(
        "figure",
        strict_svg(inline_svg(file)),
        element("figcaption", data_text(file.title), f". {file.caption}" if file.caption else None),
        id=f"figure-{file.name}",
    )


def tables_html(built: BuiltTables) -> Html:
    """Write the tables that the summary does not show; list those that lack data."""
    shown: Mapping[str, Table] = {
        name: table for name, table in built.tables.items() if name not in _IN_SUMMARY
    }
    written = [table_html(table) for table in shown.values()]
    return joined([*(written or [element("p", "No table.")]), _left_out("Not made", built.skipped)])


def _left_out(heading: str, missing: Mapping[str, str]) -> Html | None:
    if not missing:
        return None
    lines = [
        element("li", element("code", name), ": ", data_text(why)) for name, why in missing.items()
    ]
    return joined([element("h3", heading), element("ul", *lines, class_="missing")])
