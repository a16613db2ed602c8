"""Figures as files: SVG, PDF and PNG, the same bytes every time."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, Final

import matplotlib.style
from matplotlib.figure import Figure

from pact_eval.errors import InputError
from pact_eval.evaluation import RunCollection
from pact_reports.figures.figure import FigureRequest, Plate, reason
from pact_reports.figures.registry import FIGURES
from pact_reports.figures.style import MUTED, RC, SMALLEST_POINTS
from pact_reports.plain_text import one_line

__all__ = [
    "FORMATS",
    "DrawnFigures",
    "draw_figures",
    "figure_bytes",
    "figure_of",
    "in_style",
    "inline_svg",
]

FORMATS: Final = ("svg", "pdf", "png")
"""Formats that figures are written in."""

_METADATA: Final[Mapping[str, Mapping[str, Any]]] = {
    "svg": {"Date": None, "Creator": "pact-eval"},
    "pdf": {"CreationDate": None, "Creator": "pact-eval", "Producer": None},
    "png": {"Software": "pact-eval"},
}
_ID = re.compile(r'(\bid="|url\(#|xlink:href="#)')
_NO_GLYPH = "Glyph .* missing from font"


@dataclass(frozen=True)
class DrawnFigures:
    """What was drawn.

    Attributes:
        files: by figure, its files.
        skipped: by figure, why nothing of it was drawn.
        notes: by figure, what is not in it although it was drawn.
    """

    files: Mapping[str, tuple[Path, ...]]
    skipped: Mapping[str, str]
    notes: Mapping[str, tuple[str, ...]]


def draw_figures(
    collection: RunCollection,
    names: Iterable[str],
    out: Path,
    formats: Sequence[str] = ("svg",),
    *,
    request: FigureRequest | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> DrawnFigures:
    """Draw figures of runs into a folder.

    Args:
        collection: the runs.
        names: keys of `FIGURES`.
        out: the folder; made where it is missing. Files of the same names are replaced.
        formats: of `FORMATS`.
        request: decoding and bootstrap, whatever its collection; None takes the defaults.
        progress: called with how many figures of how many are done.

    Returns:
        The files, and the figures that lack data with the reason.

    Raises:
        InputError: a name or format is unknown, or the folder is a file.
    """
    wanted = list(dict.fromkeys(names))
    _refuse_unknown("figure", wanted, FIGURES)
    _refuse_unknown("format", formats, FORMATS)
    if out.exists() and not out.is_dir():
        message = f"{out}: expected a folder for figures, got a file"
        raise InputError(message)
    request = replace(request or FigureRequest(collection), collection=collection)
    files: dict[str, tuple[Path, ...]] = {}
    skipped: dict[str, str] = {}
    notes: dict[str, tuple[str, ...]] = {}
    taken: set[str] = set()
    for number, name in enumerate(wanted):
        try:
            built = FIGURES[name].build(request)
        except InputError as error:
            skipped[name] = reason(error)
        else:
            if built.plates:
                out.mkdir(parents=True, exist_ok=True)
                written = [_write(each, out, formats, taken) for each in built.plates]
                files[name] = tuple(path for paths, _ in written for path in paths)
                said = built.missing + tuple(note for _, heard in written for note in heard)
                notes |= {name: said} if said else {}
            else:
                skipped[name] = "; ".join(built.missing)
        if progress is not None:
            progress(number + 1, len(wanted))
    return DrawnFigures(files, skipped, notes)


def figure_bytes(plate: Plate, format_: str) -> tuple[bytes, tuple[str, ...]]:
    """Draw a plate.

    Args:
        plate: what to draw.
        format_: one of `FORMATS`.

    Returns:
        The file's bytes, the same every time, and what a reader may not see: signs that the font
        lacks.
    """
    with in_style(), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        figure = figure_of(plate)
        buffer = io.BytesIO()
        metadata = {**_METADATA[format_], "Title": one_line(plate.title)}
        figure.savefig(buffer, format=format_, metadata=metadata)
    lost = False
    for each in heard:
        if re.match(_NO_GLYPH, str(each.message)):
            lost = True
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    told = f"{plate.name}.{format_}: the font lacks some signs of the names in it"
    return buffer.getvalue(), (told,) if lost and format_ != "svg" else ()


def inline_svg(plate: Plate) -> str:
    """Draw a plate as an `<svg>` element to stand in an HTML page.

    Its ids begin with the plate's name, so that several stand in one page; its title is its
    accessible name. Text is text, in the page's own sans-serif font where DejaVu Sans is missing.
    """
    raw, _ = figure_bytes(plate, "svg")
    text = raw.decode("utf-8")
    element = text[text.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, count=1, flags=re.DOTALL)
    element = _ID.sub(lambda match: f"{match[1]}{plate.name}-", element)
    name = escape(one_line(plate.title))
    start = f'<svg role="img" aria-label="{name}"'
    return element.replace("<svg", start, 1).strip()


def in_style() -> AbstractContextManager[None]:
    """Return a context in which matplotlib draws as our figures look, whatever the user has set."""
    return matplotlib.style.context(["default", dict(RC)])


def figure_of(plate: Plate) -> Figure:
    """Draw a plate into a figure of matplotlib's; see `in_style`."""
    figure = Figure(figsize=(plate.width, plate.height), layout="constrained")
    rows = -(-len(plate.panels) // plate.columns)
    grid = figure.subplots(rows, plate.columns, squeeze=False).ravel()
    for ax, draw in zip(grid, plate.panels, strict=False):
        draw(ax)
    for ax in grid[len(plate.panels) :]:
        ax.set_axis_off()
    if plate.note:
        figure.supxlabel(plate.note, fontsize=SMALLEST_POINTS, color=MUTED)
    return figure


def _write(
    plate: Plate, out: Path, formats: Sequence[str], taken: set[str]
) -> tuple[list[Path], tuple[str, ...]]:
    name, again = plate.name, 2
    while name.lower() in taken:
        name, again = f"{plate.name}-{again}", again + 1
    taken.add(name.lower())
    paths: list[Path] = []
    notes: tuple[str, ...] = ()
    for format_ in dict.fromkeys(formats):
        raw, heard = figure_bytes(plate, format_)
        paths.append(out / f"{name}.{format_}")
        paths[-1].write_bytes(raw)
        notes += heard
    return paths, notes


def _refuse_unknown(what: str, given: Sequence[str], known: Iterable[str]) -> None:
    known = list(known)
    unknown = [name for name in given if name not in known]
    if unknown or not given:
        got = ", ".join(map(repr, unknown)) or "none"
        message = f"expected {what}s of {', '.join(known)}; got {got}"
        raise InputError(message)
