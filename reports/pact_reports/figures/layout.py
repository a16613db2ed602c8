"""A drawing: panels in rows, one legend for all of them, and a note below.

Heights follow from what is written: a legend has as many columns as fit, and a note is wrapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text

from pact_reports.figures.axes import HEADING, key_of
from pact_reports.figures.canvas import Canvas
from pact_reports.figures.style import MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

    from pact_reports.figures.figure import FigureFile

_MOST_COLUMNS: Final = 4
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
    width = canvas.inches
    columns = file.columns_at(width)
    rows = -(-len(file.panels) // columns)
    figure = Figure(figsize=(width, 1.0), dpi=_DPI)
    measure = _Measure(figure)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    panels = list(grid[: len(file.panels)])
    for ax, draw in zip(panels, file.panels, strict=True):
        draw(ax)
    for ax in grid[len(panels) :]:
        ax.set_axis_off()
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
    if file.square:
        _arrange_squares(measure, legend, note, panels, columns)
    else:
        _arrange(measure, legend, note, width, rows * file.inches)
    _settle(figure, panels)
    return figure


def _settle(figure: Figure, panels: Sequence[Axes]) -> None:
    """Compute the layout once, and round it: its last bits differ from one time to the next."""
    _lay_out(figure)
    # Without an engine, not with the engine "none", for which `savefig` draws everything twice.
    figure.set_layout_engine(None)
    for ax in panels:
        left, bottom, width, height = (round(side, 6) for side in ax.get_position().bounds)
        ax.set_position((left, bottom, width, height))


def _lay_out(figure: Figure) -> None:
    """Place the panels; to draw without rendering does this too, and takes three times as long."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)


def _without_headings(figure: Figure) -> None:
    for text in figure.findobj(lambda artist: artist.get_label() == HEADING):
        text.remove()


class _Measure:
    """Sizes of texts and legends of a figure, in inches, as they will be drawn in any format."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self._renderer: Any = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]

    @property
    def room(self) -> float:
        """Width of a line."""
        return self.figure.get_figwidth() - 2 * _EDGE

    def size(self, artist: Legend | Text) -> tuple[float, float]:
        """Return width and height."""
        box = artist.get_window_extent(self._renderer)
        return box.width / self.figure.dpi, box.height / self.figure.dpi

    def note(self, note: str) -> Text:
        """Write a note at the bottom of the figure, in lines that fit."""
        font, lines = FontProperties(size="medium"), [""]
        for word in note.split():
            longer = f"{lines[-1]} {word}".strip()
            width, _, _ = self._renderer.get_text_width_height_descent(longer, font, ismath=False)
            if lines[-1] and width / self.figure.dpi > self.room:
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
    """Replace the legends of panels by one of the figure, in as many columns as fit."""
    keys = [key for ax in panels if (key := key_of(ax)) is not None]
    for ax in panels:
        own = ax.get_legend()
        if own is not None:
            own.remove()
    # By label: a mark that several panels have is explained once.
    entries = {
        label: handle for key in keys for handle, label in zip(key.handles, key.labels, strict=True)
    }
    if not entries:
        return None
    title = next((key.title for key in keys if key.title), None)
    for columns in range(min(len(entries), _MOST_COLUMNS), 0, -1):
        legend = measure.figure.legend(
            list(entries.values()),
            list(entries),
            loc="lower center",
            borderaxespad=0.0,
            columnspacing=1.2,
            ncols=columns,
            title=title,
        )
        if columns == 1 or measure.size(legend)[0] <= measure.room:
            break
        legend.remove()
    return legend


def _arrange_squares(
    measure: _Measure,
    legend: Legend | None,
    note: Text | None,
    panels: Sequence[Axes],
    columns: int,
) -> None:
    """Find the height at which panels are square; a layout knows no aspect."""
    figure = measure.figure
    rows = -(-len(panels) // columns)
    width = min(figure.get_figwidth(), columns * _WIDEST_SQUARE)
    height = width * rows / columns
    for ax in panels:
        ax.set_box_aspect(None)
    for _ in range(2):
        _arrange(measure, legend, note, width, height)
        _lay_out(figure)
        box = panels[0].get_position()
        height += rows * (box.width * figure.get_figwidth() - box.height * figure.get_figheight())
        height = round(height, 6)  # as in `_settle`
    _arrange(measure, legend, note, width, height)


def _arrange(
    measure: _Measure, legend: Legend | None, note: Text | None, width: float, height: float
) -> None:
    """Put panels above the legend, and the legend above the note.

    Args:
        measure: of the figure, whose height changes.
        legend: of the figure.
        note: below the legend, or None.
        width: of all panels, in inches.
        height: of all panels.
    """
    figure = measure.figure
    below = _EDGE if note is None else measure.size(note)[1] + 2 * _EDGE
    total = height + below + (0.0 if legend is None else measure.size(legend)[1] + _EDGE)
    if note is not None:
        note.set_y(_EDGE / total)
    if legend is not None:
        legend.set_bbox_to_anchor((0.5, below / total))
    figure.set_figheight(total)
    share = width / figure.get_figwidth()
    figure.set_layout_engine(
        "constrained", rect=((1 - share) / 2, 1 - height / total, share, height / total)
    )
