"""Canvas of a figure: widths and fonts of a page, and settings of a web page.

All fonts come with matplotlib, so the same runs give the same bytes everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from pact_eval._choices import FigureStyle
from pact_eval.errors import InputError
from pact_reports.figures.style import INK

Width: TypeAlias = float | Literal["column", "text"]
"""Width of a figure: inches, or the width of a column or of the text of a page."""

_NARROWEST: Final = 2.5
_WIDEST: Final = 12.0
_SANS: Final = ("DejaVu Sans", "Verdana", "Arial", "Helvetica")
_TIMES: Final = ("STIXGeneral", "Times New Roman", "Times", "Nimbus Roman")


@dataclass(frozen=True)
class PageStyle:
    r"""Page of a template: widths and fonts of its figures.

    Attributes:
        column: `\columnwidth` in inches.
        text: `\textwidth` in inches.
        serif: whether text is set in STIX, which looks as Times does, or in DejaVu Sans.
        points: size of the smallest text.
    """

    column: float
    text: float
    serif: bool
    points: float

    def inches(self, width: Width) -> float:
        """Return a width in inches.

        Raises:
            InputError: it is not 2.5 to 12 inches.

        Example:
            >>> STYLES["acl"].inches("column").__round__(3), STYLES["neurips"].inches(2.7)
            (3.031, 2.7)
        """
        size = {"column": self.column, "text": self.text}.get(str(width), width)
        if not isinstance(size, float | int) or not _NARROWEST <= size <= _WIDEST:
            message = (
                f"width: expected column, text, or {_NARROWEST:g} to {_WIDEST:g} inches; "
                f"got {width!r}"
            )
            raise InputError(message)
        return float(size)

    @property
    def rc(self) -> Mapping[str, Any]:
        """Settings of matplotlib over its defaults."""
        labels = self.points if self.serif else self.points + 0.5
        return {
            **_RC,
            "axes.labelsize": labels,
            "axes.titlesize": labels,
            "font.family": ["serif" if self.serif else "sans-serif"],
            "font.size": self.points,
            "legend.fontsize": self.points,
            "legend.title_fontsize": self.points,
            "xtick.labelsize": self.points,
            "ytick.labelsize": self.points,
        }


STYLES: Final[Mapping[FigureStyle, PageStyle]] = {
    "default": PageStyle(3.5, 7.16, serif=False, points=7.0),
    "neurips": PageStyle(5.5, 5.5, serif=True, points=8.0),
    "icml": PageStyle(3.25, 6.75, serif=True, points=8.0),
    "acl": PageStyle(7.7 / 2.54, 16 / 2.54, serif=True, points=8.0),
}
"""The pages by name: ours, and those of `neurips_2025.sty`, `icml2025.sty` and `acl.sty`."""


@dataclass(frozen=True)
class Canvas:
    """Drawing settings of any figure.

    Attributes:
        style: widths and fonts.
        width: of the drawing.
        transparent: leave out the white background.
        words: write titles, counts and notes into the drawing. A caption has to have them
            otherwise.
    """

    style: PageStyle = STYLES["default"]
    width: Width = "column"
    transparent: bool = False
    words: bool = True

    @property
    def inches(self) -> float:
        """Width of the drawing in inches."""
        return self.style.inches(self.width)


_RC: Final[Mapping[str, Any]] = {
    "axes.axisbelow": True,
    "axes.formatter.use_mathtext": False,
    "axes.formatter.useoffset": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 4.0,
    "font.sans-serif": _SANS,
    "font.serif": _TIMES,
    "legend.borderaxespad": 0.3,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "legend.handletextpad": 0.5,
    "legend.labelspacing": 0.25,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,
    "savefig.dpi": 300,
    "savefig.facecolor": "white",
    "svg.fonttype": "none",
    "svg.hashsalt": "pact-eval",
    "text.color": INK,
    "text.parse_math": False,
    "text.usetex": False,
    "xtick.color": INK,
    "xtick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "xtick.minor.size": 1.5,
    "xtick.minor.width": 0.4,
    "ytick.color": INK,
    "ytick.major.size": 2.5,
    "ytick.major.width": 0.6,
    "ytick.minor.size": 1.5,
    "ytick.minor.width": 0.4,
}
"""Settings of the user do not reach a figure.

Text in SVG stays text: files are small, words can be searched and read aloud, and a reader without
our fonts gets narrower ones, so nothing overlaps. PDF embeds the fonts.
"""
