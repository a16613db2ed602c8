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

import numpy as np

from pact_eval._files import write_atomically
from pact_eval.errors import InputError
from pact_eval.plain_text import one_line
from pact_eval.progress import tracked
from pact_reports.figures.axes import CANVAS, KEY, SHARED, STYLES, Canvas, PageStyle
from pact_reports.figures.figure import FigureFile
from pact_reports.figures.registry import FIGURES
from pact_reports.figures.style import MUTED
from pact_reports.request import Request, reason
from pact_reports.tables.cells import leak_lines
from pact_reports.writers.files import refuse_unknown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.text import Text


_MOST_COLUMNS: Final = 4
_COLUMN_SPACING: Final = 1.2
"""Between columns of a legend, in sizes of its font."""

_MOST_ENTRIES: Final = 24
_LAST_ENTRIES: Final = 4
"""Entries of a legend; of more, the first and the last are shown: marks follow names of arms."""

_STIX_SPACING: Final = 0.95
"""Between lines of text: STIX has tall signs, which make matplotlib draw lines far apart."""

_DPI: Final = 300
"""Sizes are measured at this resolution; letters of few dots would be too wide."""

_WIDEST_SQUARE: Final = 3.6
_EDGE: Final = 0.04
"""Inches that are left free at the edges, and between panels, legend and note."""


def figure_of(file: FigureFile, canvas: Canvas = CANVAS) -> Figure:
    """Draw a file into a matplotlib figure of the width of the canvas; see `in_style`.

    The constrained layout places the panels, above the legend of all, above the note.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    columns = file.columns_at(canvas.inches)
    rows = -(-len(file.panels) // columns)
    figure = Figure(figsize=(canvas.inches, rows * file.inches), dpi=_DPI)
    FigureCanvasAgg(figure)
    panels = [figure.add_subplot(rows, columns, at) for at in range(1, len(file.panels) + 1)]
    setattr(figure, SHARED, True)
    for ax, draw in zip(panels, file.panels, strict=True):
        draw(ax)
    if file.shared_rows:
        for ax in (ax for number, ax in enumerate(panels) if number % columns):
            ax.tick_params(axis="y", labelleft=False)
    legend = _legend(figure, panels)
    note = None
    if file.note:
        note = figure.text(
            *(0.5, 0.0, file.note), ha="center", va="bottom", color=MUTED, fontsize="medium"
        )
        note.set_wrap(True)
    if canvas.style.serif:
        for text in figure.findobj(Text):
            text.set_linespacing(_STIX_SPACING)
    _arrange(figure, (rows, columns), legend, note, None if file.square else rows * file.inches)
    return figure


def fitting(
    file: FigureFile, canvas: Canvas = CANVAS
) -> tuple[tuple[FigureFile, Figure | None], ...]:
    """Split a file that is too high for a page into files of fewer rows of panels; see `in_style`.

    Args:
        file: what is drawn.
        canvas: width and fonts.

    Returns:
        The file, or files with a number in name and title, each with its drawing if that is made
        already. One row of panels is never split.
    """
    columns = file.columns_at(canvas.inches)
    rows = -(-len(file.panels) // columns)
    size = columns
    for parts in range(1, rows):
        fewer = -(-rows // parts) * columns
        drawn = figure_of(replace(file, panels=file.panels[:fewer]), canvas)
        if drawn.get_figheight() <= canvas.style.tallest:
            if parts == 1:
                return ((file, drawn),)
            size = fewer
            break
    return tuple((part, None) for part in file.split(size))


def _legend(figure: Figure, panels: Sequence[Axes]) -> Legend | None:
    """Write one legend for all panels, in as many columns as fit."""
    keys = [getattr(ax, KEY) for ax in panels if hasattr(ax, KEY)]
    # By label: a mark that several panels have is explained once.
    entries = {label: handle for key, _ in keys for label, handle in key.items()}
    if len(entries) > _MOST_ENTRIES:
        from matplotlib.lines import Line2D

        first = [*entries.items()][: _MOST_ENTRIES - _LAST_ENTRIES - 1]
        last = [*entries.items()][-_LAST_ENTRIES:]
        more = f"and {len(entries) - len(first) - len(last):,} more"
        entries = dict([*first, (more, Line2D([], [], linestyle="none")), *last])
    for columns in range(min(len(entries), _MOST_COLUMNS), 0, -1):
        legend = figure.legend(
            list(entries.values()),
            list(entries),
            loc="lower center",
            borderaxespad=0.0,
            columnspacing=_COLUMN_SPACING,
            ncols=columns,
            title=next((title for _, title in keys if title), None),
        )
        if columns == 1 or _size(legend)[0] <= figure.get_figwidth() - 2 * _EDGE:
            return legend
        legend.remove()
    return None


def _size(artist: Legend | Text) -> tuple[float, float]:
    """Return width and height in inches."""
    box = artist.get_window_extent()
    return box.width / _DPI, box.height / _DPI


def _arrange(
    figure: Figure,
    grid: tuple[int, int],
    legend: Legend | None,
    note: Text | None,
    height: float | None,
) -> None:
    """Put panels above the legend, and the legend above the note.

    Args:
        figure: what has them; its height changes.
        grid: rows and columns of the panels.
        legend: of the figure.
        note: below the legend, or None.
        height: of all rows of panels in inches; None makes panels square.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    rows, columns = grid
    full = figure.get_figwidth()
    width = min(full, columns * _WIDEST_SQUARE) if height is None else full
    below = _EDGE if note is None else _size(note)[1] + 2 * _EDGE
    under = below + (0.0 if legend is None else _size(legend)[1] + _EDGE)

    def lay_out(height: float) -> None:
        total = round(height + under, 6)  # the last bits may differ from one time to the next
        figure.set_figheight(total)
        rect = ((1 - width / full) / 2, under / total, width / full, height / total)
        engine = ConstrainedLayoutEngine(rect=rect, w_pad=_EDGE, h_pad=_EDGE)
        figure.set_layout_engine(engine)
        engine.execute(figure)

    if height is None:
        height = rows * width / columns
        for ax in figure.axes:
            ax.set_box_aspect(None)  # with it, the layout would not see what is above a square
        for _ in range(2):
            lay_out(height)
            box = figure.axes[0].get_position()
            height -= rows * (box.height * figure.get_figheight() - box.width * full)
    lay_out(height)
    figure.set_layout_engine(None)  # with one, a figure is drawn twice to be saved
    for ax in figure.axes:
        ax.set_position(np.round(ax.get_position(original=True).bounds, 6).tolist())
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

    files: dict[str, tuple[Path, ...]]
    skipped: dict[str, str]
    notes: dict[str, tuple[str, ...]]


def draw_figures(
    request: Request,
    names: Iterable[str],
    out: Path,
    formats: Sequence[str] = ("svg",),
    canvas: Canvas = CANVAS,
) -> DrawnFigures:
    """Draw figures of runs, or of published metrics, into a folder.

    Args:
        request: the runs or metrics, and the colours of the arms.
        names: keys of `FIGURES`.
        out: the folder; made if it is missing. Files of the same names are replaced.
        formats: of `FORMATS`.
        canvas: width and fonts.

    Returns:
        The files, and the figures that lack data with the reason.

    Raises:
        InputError: a name or format is not known, or the folder is a file.
    """
    figures = list(dict.fromkeys(names))
    refuse_unknown("figure", figures, FIGURES)
    refuse_unknown("format", formats, FORMATS)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: expected a folder for figures, found a file")
    remark = " ".join(line.text for line in leak_lines(request.experiment.data.leak))
    if request.published is not None:
        remark = request.published.published_text
    drawn = DrawnFigures({}, {}, {})
    taken: set[str] = set()
    for name in tracked(figures, "Drawing figures", "figures"):
        try:
            built, notes = FIGURES[name].made(request)
        except InputError as error:
            drawn.skipped[name] = reason(error)
            continue
        notes = (*built.missing, *notes)
        if not built.files:
            drawn.skipped[name] = "; ".join(notes)
            continue
        out.mkdir(parents=True, exist_ok=True)
        paths: list[Path] = []
        for file in built.files:
            with in_style(canvas.style), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # saving warns again
                pages = fitting(replace(file, remark=remark), canvas)
            for page, figure in pages:
                stem = _free_stem(page.name, taken)
                for format_ in dict.fromkeys(formats):
                    raw, lost = figure_bytes(page, format_, canvas, figure)
                    figure = None  # a figure can be saved once
                    paths.append(out / f"{stem}.{format_}")
                    write_atomically(paths[-1], raw)
                    notes += lost
        drawn.files[name] = tuple(paths)
        if notes:
            drawn.notes[name] = notes
    return drawn


def _free_stem(name: str, taken: set[str]) -> str:
    """Return the stem of a file, with a number if another has it, in any case of letters."""
    stem, again = name, 2
    while stem.lower() in taken:
        stem, again = f"{name}-{again}", again + 1
    taken.add(stem.lower())
    return stem


def figure_bytes(
    file: FigureFile, format_: str, canvas: Canvas = CANVAS, drawn: Figure | None = None
) -> tuple[bytes, tuple[str, ...]]:
    """Draw a file.

    Args:
        file: what to draw.
        format_: one of `FORMATS`.
        canvas: width and fonts.
        drawn: its drawing on this canvas, not saved yet; None draws it.

    Returns:
        The file's bytes, the same every time, and a note if the font lacks characters.
    """
    with in_style(canvas.style), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        figure = figure_of(file, canvas) if drawn is None else drawn
        buffer = io.BytesIO()
        metadata = {**_METADATA[format_], "Title": one_line(file.full_title)}
        metadata |= {_REMARK[format_]: one_line(file.remark)} if file.remark else {}
        figure.savefig(buffer, format=format_, metadata=metadata)
    lost = [warning for warning in heard if re.match(_NO_GLYPH, str(warning.message))]
    for warning in (warning for warning in heard if warning not in lost):
        place = (warning.filename, warning.lineno)
        warnings.warn_explicit(warning.message, warning.category, *place)
    note = f"{file.name}.{format_}: the font lacks some characters of the names in it"
    return buffer.getvalue(), (note,) if lost and format_ != "svg" else ()


def inline_svg(file: FigureFile) -> str:
    """Draw a figure as an `<svg>` element for an HTML page.

    Its ids start with the name of the file, so they are unique in the page; its title is its
    accessible name. Text is text, in the page's own font if ours is missing.

    Args:
        file: what to draw.
    """
    raw, _ = figure_bytes(file, "svg")
    text = raw.decode("utf-8")
    element = text[text.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, count=1, flags=re.DOTALL)
    element = _ID.sub(lambda match: f"{match[1]}{file.name}-", element)
    start = f'<svg role="img" aria-label="{escape(one_line(file.full_title))}"'
    return element.replace("<svg", start, 1).strip()


def in_style(style: PageStyle = STYLES["default"]) -> AbstractContextManager[None]:
    """Return a context in which matplotlib draws in our style, whatever the user has set."""
    import matplotlib.style

    return matplotlib.style.context(["default", dict(style.rc)])
