"""A drawing: panels in rows, one legend for all of them, and a note below.

Heights follow from what is written: a legend has as many columns as fit, and a note is wrapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib import rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text

from pact_reports.figures.axes import HEADING, key_of, share_legend
from pact_reports.figures.canvas import Canvas
from pact_reports.figures.panel_grid import PanelGrid
from pact_reports.figures.style import MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

    from pact_reports.figures.figure import FigureFile

_MOST_COLUMNS: Final = 4
_COLUMN_SPACING: Final = 1.2
"""Between columns of a legend, in sizes of its font."""

_STIX_SPACING: Final = 0.95
"""Between lines of text: STIX has tall signs, which make matplotlib draw lines far apart."""

_DPI: Final = 300
"""Sizes are measured at this resolution; letters of few dots would be too wide."""

_WIDEST_SQUARE: Final = 3.6
_EDGE: Final = 0.04
"""Inches that are left free at the edges, and between panels, legend and note."""


def figure_of(file: FigureFile, canvas: Canvas | None = None) -> Figure:
    """Draw a file into a matplotlib figure of the width of the canvas; see `in_style`."""
    canvas = canvas or Canvas()
    columns = file.columns_at(canvas.inches)
    rows = -(-len(file.panels) // columns)
    figure = Figure(figsize=(canvas.inches, 1.0), dpi=_DPI)
    measure = _Measure(figure)
    panels = [figure.add_axes((0.2, 0.2, 0.7, 0.7)) for _ in file.panels]
    share_legend(figure)
    for ax, draw in zip(panels, file.panels, strict=True):
        draw(ax)
    if file.shared_rows:
        for ax in (ax for number, ax in enumerate(panels) if number % columns):
            ax.tick_params(axis="y", labelleft=False)
    if not canvas.words:
        _without_headings(figure)
    legend = _legend(measure, panels)
    note = measure.note(file.note) if canvas.words and file.note else None
    if canvas.style.serif:
        for text in figure.findobj(Text):
            text.set_linespacing(_STIX_SPACING)
    grid = PanelGrid(figure, panels, columns, measure.renderer)
    _arrange(measure, grid, legend, note, None if file.square else rows * file.inches)
    return figure


def _without_headings(figure: Figure) -> None:
    for text in figure.findobj(lambda artist: artist.get_label() == HEADING):
        text.remove()


class _Measure:
    """Sizes of texts and legends of a figure, in inches, as they will be drawn in any format."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self.renderer: Any = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]

    @property
    def room(self) -> float:
        """Width of a line."""
        return self.figure.get_figwidth() - 2 * _EDGE

    def size(self, artist: Legend | Text) -> tuple[float, float]:
        """Return width and height."""
        box = artist.get_window_extent(self.renderer)
        return box.width / self.figure.dpi, box.height / self.figure.dpi

    def text_width(self, text: str, font: FontProperties) -> float:
        """Return the width of the longest line."""
        sizes = (
            self.renderer.get_text_width_height_descent(line, font, ismath=False)
            for line in text.split("\n")
        )
        return max(float(width) for width, _, _ in sizes) / self.figure.dpi

    def most_columns(self, labels: Sequence[str]) -> int:
        """Return the most columns of a legend that may fit: more than these are too wide."""
        font = FontProperties(size=rcParams["legend.fontsize"])
        sign = font.get_size_in_points() / 72
        handle = (rcParams["legend.handlelength"] + rcParams["legend.handletextpad"]) * sign
        widths = np.array([self.text_width(label, font) for label in labels]) + handle
        for columns in range(min(len(labels), _MOST_COLUMNS), 1, -1):
            in_columns = np.array_split(widths, columns)
            spaces = (columns - 1) * _COLUMN_SPACING * sign
            if sum(column.max() for column in in_columns) + spaces <= self.room:
                return columns
        return 1

    def note(self, note: str) -> Text:
        """Write a note at the bottom of the figure, in lines that fit."""
        font, lines = FontProperties(size="medium"), [""]
        for word in note.split():
            longer = f"{lines[-1]} {word}".strip()
            if lines[-1] and self.text_width(longer, font) > self.room:
                lines.append(word)
            else:
                lines[-1] = longer
        return self.figure.text(
            *(0.5, 0.0, "\n".join(lines)),
            ha="center",
            va="bottom",
            fontsize="medium",
            color=MUTED,
        )


def _legend(measure: _Measure, panels: Sequence[Axes]) -> Legend | None:
    """Write one legend for all panels, in as many columns as fit."""
    keys = [key for ax in panels if (key := key_of(ax)) is not None]
    # By label: a mark that several panels have is explained once.
    entries = {
        label: handle for key in keys for handle, label in zip(key.handles, key.labels, strict=True)
    }
    if not entries:
        return None
    title = next((key.title for key in keys if key.title), None)
    for columns in range(measure.most_columns([*entries]), 0, -1):
        legend = measure.figure.legend(
            list(entries.values()),
            list(entries),
            loc="lower center",
            borderaxespad=0.0,
            columnspacing=_COLUMN_SPACING,
            ncols=columns,
            title=title,
        )
        if columns == 1 or measure.size(legend)[0] <= measure.room:
            break
        legend.remove()
    return legend


def _arrange(
    measure: _Measure, grid: PanelGrid, legend: Legend | None, note: Text | None, rows: float | None
) -> None:
    """Put panels above the legend, and the legend above the note.

    Args:
        measure: of the figure, whose height changes.
        grid: of the panels.
        legend: of the figure.
        note: below the legend, or None.
        rows: height of all rows of panels in inches; None makes panels square.
    """
    figure = measure.figure
    width = figure.get_figwidth()
    if rows is None:
        width = min(width, grid.columns * _WIDEST_SQUARE)
    below = _EDGE if note is None else measure.size(note)[1] + 2 * _EDGE
    under = below + (0.0 if legend is None else measure.size(legend)[1] + _EDGE)

    def place() -> None:
        height = grid.square_height(width) if rows is None else rows
        figure.set_figheight(height + under)
        grid.place(width, height)

    place()
    # The first time at a guess of the place, at which most labels are those of the final one.
    for _ in range(2):
        if grid.measure():
            place()
    total = figure.get_figheight()
    if note is not None:
        note.set_y(_EDGE / total)
    if legend is not None:
        legend.set_bbox_to_anchor((0.5, below / total))
