"""Figures as files: SVG, PDF and PNG, the same bytes every time."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import matplotlib.style
import numpy as np
import numpy.typing as npt
from matplotlib import rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.spines import Spine
from matplotlib.text import Text

from pact_eval._files import write_atomically
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics
from pact_eval.evaluation.experiment import Experiment
from pact_eval.plain_text import one_line
from pact_eval.progress import tracked
from pact_reports.figures.axes import HEADING, STYLES, Canvas, PageStyle, key_of, share_legend
from pact_reports.figures.figure import FigureFile, reason
from pact_reports.figures.registry import FIGURES
from pact_reports.figures.style import MUTED, NEUTRAL, Looks, Palette
from pact_reports.tables.cells import leak_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend
    from matplotlib.transforms import BboxBase

    from pact_eval._typing import FloatArray
    from pact_eval.thresholds.decision_curves import Decisions
    from pact_reports.figures.figure import FigureFile


_PAD: Final = 0.03
"""Free around a panel and its labels."""

_BETWEEN: Final = 0.01
"""Free between panels on each side, as a share of a row or column, if that is more."""

_USUAL: Final = (0.42, 0.34, 0.06, 0.14)
"""Room on the left, below, on the right and above that a first guess leaves for labels."""

_SAME_SIZE: Final = 0.05
"""Relative change of a side up to which labels at its ends need the same room."""


class PanelGrid:
    """Panels in rows from left to right, then down.

    Args:
        figure: what has the panels.
        panels: its axes.
        columns: number of panels per row.
        renderer: measures text.

    Attributes:
        columns: number of panels per row.
    """

    def __init__(self, figure: Figure, panels: Sequence[Axes], columns: int, renderer: Any) -> None:
        self._figure, self.columns = figure, columns
        self._labels = [_Labels(ax, renderer) for ax in panels]
        self._rows = -(-len(panels) // columns)
        self._sides: npt.NDArray[np.float64] = np.tile(_USUAL, (len(panels), 1))

    def measure(self) -> bool:
        """Measure labels where the panels are; return whether they need other room."""
        before = self._sides
        self._sides = np.array([labels.sides() for labels in self._labels])
        return not np.allclose(before, self._sides, rtol=0, atol=1e-6)

    def square_height(self, width: float) -> float:
        """Return the height of the grid at which panels are square."""
        left, right = self._margins(width, (0, 2), self.columns, 1)
        bottom, top = self._margins(width, (1, 3), self._rows, self.columns)
        side = (width - left.sum() - right.sum()) / self.columns
        return round(float(self._rows * side + bottom.sum() + top.sum()), 6)

    def place(self, width: float, height: float) -> None:
        """Place panels in the middle of the figure, from its top down.

        Args:
            width: of the grid with labels.
            height: of the grid with labels; the rest of the figure is below it.
        """
        full_width, full_height = self._figure.get_size_inches()
        left, right = self._margins(full_width, (0, 2), self.columns, 1)
        bottom, top = self._margins(full_height, (1, 3), self._rows, self.columns)
        across = max((width - left.sum() - right.sum()) / self.columns, _PAD)
        down = max((height - bottom.sum() - top.sum()) / self._rows, _PAD)
        x = (full_width - width) / 2 + np.cumsum(left + right + across) - right - across
        y = full_height - np.cumsum(top + bottom + down) + bottom
        size = np.array([full_width, full_height, full_width, full_height])
        for number, labels in enumerate(self._labels):
            row, column = divmod(number, self.columns)
            # The last bits may differ from one time to the next.
            bounds = np.round(np.array([x[column], y[row], across, down]) / size, 6)
            labels.ax.set_position(tuple(bounds.tolist()))

    def _margins(
        self, size: float, sides: tuple[int, int], lines: int, step: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the room before and after each column or row, with the free space around it."""
        line = np.arange(len(self._labels)) // step % lines
        between = max(_PAD, _BETWEEN * size / lines)
        free = np.full((2, lines), between)
        free[0, 0] = free[1, -1] = _PAD
        if sides == (1, 3):
            free = free[::-1]  # rows run down: what is below comes last
        room = np.zeros((2, lines))
        for end, side in enumerate(sides):
            np.maximum.at(room[end], line, self._sides[:, side])
        return room[0] + free[0], room[1] + free[1]


class _Labels:
    """Text of a panel around its axes.

    Titles may be wider than the panel, and labels of an axis longer than it: they need no room at
    their ends.
    """

    def __init__(self, ax: Axes, renderer: Any) -> None:
        self.ax = ax
        self._renderer = renderer
        self._at: tuple[Any, ...] = ()
        self._size: FloatArray = np.zeros(2)
        self._of_axes: FloatArray = np.zeros(4)
        # Spines are as long as the axes, and what is clipped is within them.
        self._others = [
            artist
            for artist in ax.get_default_bbox_extra_artists()
            if not isinstance(artist, Spine)
        ]

    def sides(self) -> FloatArray:
        """Return the room that is needed on the left, below, on the right and above."""
        axes = (self.ax.xaxis, self.ax.yaxis)
        at = tuple(tuple(axis.get_majorticklocs()) for axis in axes)
        size = np.array(self.ax.bbox.size)
        if at != self._at or not np.allclose(size, self._size, rtol=_SAME_SIZE):
            self._at, self._size = at, size
            self._of_axes = self._beyond(
                self.ax.get_tightbbox(self._renderer, bbox_extra_artists=[], for_layout_only=True)
            )
        sides = self._of_axes
        for artist in self._others:
            sides = np.maximum(sides, self._beyond(artist.get_tightbbox(self._renderer)))
        return sides

    def _beyond(self, box: BboxBase | None) -> FloatArray:
        """Return how far a box is beyond the axes on each side."""
        if box is None or not np.isfinite(box.extents).all():
            return np.zeros(4)
        inner, outer = np.array(self.ax.bbox.extents), np.array(box.extents)
        beyond = np.concatenate([inner[:2] - outer[:2], outer[2:] - inner[2:]])
        return np.asarray(np.maximum(beyond, 0.0) / self._renderer.dpi, dtype=np.float64)


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


FORMATS: Final = ("svg", "pdf", "png")
"""Formats that figures are written in."""

_METADATA: Final[Mapping[str, Mapping[str, Any]]] = {
    "svg": {"Date": None, "Creator": "pact-eval"},
    "pdf": {"CreationDate": None, "Creator": "pact-eval", "Producer": None},
    "png": {"Software": "pact-eval"},
}
_REMARK: Final = {"svg": "Description", "pdf": "Subject", "png": "Description"}
"""The metadata that holds the remark on a figure."""
_ID = re.compile(r'(\bid="|url\(#|xlink:href="#)')
_NO_GLYPH = "Glyph .* missing from font"


@dataclass(frozen=True)
class DrawnFigures:
    """The figures that were drawn.

    Attributes:
        files: by figure, its files.
        skipped: by figure, why none of it was drawn.
        notes: by figure that was drawn, what is missing from it.
    """

    files: Mapping[str, tuple[Path, ...]]
    skipped: Mapping[str, str]
    notes: Mapping[str, tuple[str, ...]]


def draw_figures(
    experiment: Experiment,
    names: Iterable[str],
    out: Path,
    formats: Sequence[str] = ("svg",),
    *,
    palette: Palette = NEUTRAL,
    canvas: Canvas | None = None,
    decisions: Decisions | None = None,
    published: ArmMetrics | None = None,
) -> DrawnFigures:
    """Draw figures of runs, or of published metrics, into a folder.

    Args:
        experiment: the runs, with the decoding and bootstrap of its settings.
        names: keys of `FIGURES`.
        out: the folder; made if it is missing. Files of the same names are replaced.
        formats: of `FORMATS`.
        palette: colours of the arms.
        canvas: width and fonts; None takes the default ones.
        decisions: thresholds and costs, for figures of decisions.
        published: published metrics to draw instead of runs; None draws the runs.

    Returns:
        The files, and the figures that lack data with the reason.

    Raises:
        InputError: a name or format is not known, or the folder is a file.
    """
    figures = list(dict.fromkeys(names))
    _check_known("figure", figures, FIGURES)
    _check_known("format", formats, FORMATS)
    if out.exists() and not out.is_dir():
        message = f"{out}: expected a folder for figures, found a file"
        raise InputError(message)
    remark = " ".join(line.text for line in leak_lines(experiment.data.leak))
    if published is None:
        looks = Looks.of(experiment, palette)
    else:
        published = published.method_first(experiment.settings.method)
        looks, remark = Looks.of_published(published, palette), published.published_text
    files: dict[str, tuple[Path, ...]] = {}
    skipped: dict[str, str] = {}
    notes: dict[str, tuple[str, ...]] = {}
    taken: set[str] = set()
    for name in tracked(figures, "Drawing figures", "figures"):
        try:
            if published is None:
                built = FIGURES[name].built(experiment, looks, decisions)
            else:
                built = FIGURES[name].published(published, experiment.settings, looks)
        except InputError as error:
            skipped[name] = reason(error)
        else:
            if built.files:
                out.mkdir(parents=True, exist_ok=True)
                remarked = [replace(file, remark=remark) for file in built.files]
                written = [_write(file, out, formats, canvas, taken) for file in remarked]
                files[name] = tuple(path for paths, _ in written for path in paths)
                of_figure = built.missing + tuple(note for _, heard in written for note in heard)
                notes |= {name: of_figure} if of_figure else {}
            else:
                skipped[name] = "; ".join(built.missing)
    return DrawnFigures(files, skipped, notes)


def figure_bytes(
    file: FigureFile, format_: str, canvas: Canvas | None = None
) -> tuple[bytes, tuple[str, ...]]:
    """Draw a file.

    Args:
        file: what to draw.
        format_: one of `FORMATS`.
        canvas: width, fonts and background; None takes the default ones.

    Returns:
        The file's bytes, the same every time, and a note if the font lacks characters.
    """
    canvas = canvas or Canvas()
    with in_style(canvas.style), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        figure = figure_of(file, canvas)
        buffer = io.BytesIO()
        metadata = {**_METADATA[format_], "Title": one_line(file.full_title)}
        metadata |= {_REMARK[format_]: one_line(file.remark)} if file.remark else {}
        figure.savefig(buffer, format=format_, metadata=metadata, transparent=canvas.transparent)
    lost = False
    for warning in heard:
        if re.match(_NO_GLYPH, str(warning.message)):
            lost = True
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    note = f"{file.name}.{format_}: the font lacks some characters of the names in it"
    return buffer.getvalue(), (note,) if lost and format_ != "svg" else ()


def inline_svg(file: FigureFile, canvas: Canvas | None = None) -> str:
    """Draw a figure as an `<svg>` element for an HTML page.

    Its ids start with the name of the file, so they are unique in the page; its title is its
    accessible name. Text is text, in the page's own font if ours is missing.

    Args:
        file: what to draw.
        canvas: width, fonts and background; None takes the default ones.
    """
    raw, _ = figure_bytes(file, "svg", canvas)
    text = raw.decode("utf-8")
    element = text[text.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, count=1, flags=re.DOTALL)
    element = _ID.sub(lambda match: f"{match[1]}{file.name}-", element)
    name = escape(one_line(file.full_title))
    start = f'<svg role="img" aria-label="{name}"'
    return element.replace("<svg", start, 1).strip()


def in_style(style: PageStyle = STYLES["default"]) -> AbstractContextManager[None]:
    """Return a context in which matplotlib draws in our style, whatever the user has set."""
    return matplotlib.style.context(["default", dict(style.rc)])


def _write(
    file: FigureFile, out: Path, formats: Sequence[str], canvas: Canvas | None, taken: set[str]
) -> tuple[list[Path], tuple[str, ...]]:
    name, again = file.name, 2
    while name.lower() in taken:
        name, again = f"{file.name}-{again}", again + 1
    taken.add(name.lower())
    paths: list[Path] = []
    notes: tuple[str, ...] = ()
    for format_ in dict.fromkeys(formats):
        raw, heard = figure_bytes(file, format_, canvas)
        paths.append(out / f"{name}.{format_}")
        write_atomically(paths[-1], raw)
        notes += heard
    return paths, notes


def _check_known(what: str, names: Sequence[str], allowed: Iterable[str]) -> None:
    allowed = list(allowed)
    unknown = [name for name in names if name not in allowed]
    if unknown or not names:
        got = ", ".join(map(repr, unknown)) or "none"
        message = f"expected {what}s of {', '.join(allowed)}; got {got}"
        raise InputError(message)
