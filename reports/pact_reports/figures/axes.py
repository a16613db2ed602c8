"""Shared parts of panels: counts, titles, legends, whiskers, and inert text from data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from pact_eval._choices import FigureStyle
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_differences import ArmSummary
from pact_eval.stats.estimate import Estimate
from pact_reports.figures.style import INK, MUTED, PAPER, ArmStyle, Looks, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SIDES_POINTS: Final = 15.0
"""Where titles start above the names of the sides."""

SEED_AREA: Final = 5.0
"""Of the dot of one seed, in square points."""

Ends: TypeAlias = tuple[float, float, float]
"""A value, and the ends of its interval; NaN if there is none."""


_SIDES_SIGNS = 44
_BELOW_POINTS = 27
"""From the axis to a legend: past the numbers and the label of the axis."""


def with_legend(ax: Axes, entries: Mapping[str, Any], *, title: str = "") -> Axes:
    """Add a legend with only these entries, below the axis where it hides no data.

    In a figure with one legend for all of its panels, the panel only keeps the entries.

    Args:
        ax: the panel, otherwise finished.
        entries: by label, what it looks like; without any, there is no legend.
        title: above the entries; may be empty.

    Returns:
        The panel. No text in it is read as mathematics, whatever the style of the axes.
    """
    if entries:
        setattr(ax, KEY, (entries, title))
    if entries and not hasattr(ax.figure, SHARED):
        # `pact_reports.figures` is imported without matplotlib.
        from matplotlib.transforms import ScaledTranslation

        down = ScaledTranslation(0, -_BELOW_POINTS / 72, ax.figure.dpi_scale_trans)
        ax.legend(
            *([*entries.values()], [*entries]),
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            bbox_transform=ax.transAxes + down,
            borderaxespad=0.0,
            title=title or None,
        )
    if ax.title.get_parse_math():  # not our style, which does this too
        from matplotlib.text import Text

        _ = ax.get_xticklabels(), ax.get_yticklabels()  # ticks exist once they were asked for
        for text in ax.findobj(Text):
            text.set_parse_math(False)
    return ax


KEY: Final = "pact_key"
"""Attribute of axes, the entries and the title: a legend itself keeps copies of its handles only,
which cannot be drawn again, and a table of all legends would keep every figure."""

SHARED: Final = "pact_shared_legend"
"""Attribute of a figure that has one legend for all of its panels."""


def counts_text(items: int, families: int | None) -> str:
    """Return the known counts behind a panel.

    Examples:
        >>> counts_text(324, 162)
        'n = 324 items, 162 families'
        >>> counts_text(324, None), counts_text(0, None)
        ('n = 324 items', '')
    """
    if families is None:
        return f"n = {items:,} items" if items else ""
    return f"n = {items:,} items, {families:,} families"


def beside(ax: Axes, text: str, place: tuple[float, float], up: float, **look: Any) -> None:
    """Write a text next to a panel, so many points above a place in fractions of the axes."""
    look = {"xycoords": "axes fraction", "fontsize": "medium"} | look
    ax.annotate(text, place, xytext=(0, up), textcoords="offset points", **look)


def headed(
    ax: Axes, title: str, below: str = "", *, wide: bool = False, above: float = 4.0
) -> None:
    """Write a title, and below it in grey the counts behind the panel; leave out what is empty.

    Args:
        ax: the panel.
        title: in bold.
        below: in grey.
        wide: start at the left edge of the figure, for panels with long labels.
        above: points between the panel and the text.
    """
    coordinates = ("figure fraction", "axes fraction") if wide else "axes fraction"
    up = above
    for text, look in ((below, {"color": MUTED}), (title, {"fontweight": "bold"})):
        if text:
            # By its label, it is found among the texts of a panel.
            place = (0.02 if wide else 0.0, 1.0)
            beside(ax, text, place, up, xycoords=coordinates, label="heading", **look)
            up += 10


def name_sides(ax: Axes, low: str, high: str) -> None:
    """Label the better side above a panel of differences: low on the left, high on the right.

    Args:
        ax: the panel; titles go above, from `SIDES_POINTS` on.
        low: name of the arm that is better where differences are below 0.
        high: name of the arm that is better where they are above 0.
    """
    left, right = f"← {shown(low, 20)} better", f"{shown(high, 20)} better →"
    # Long names need the room above the labels of the rows too.
    start = "axes fraction" if len(left + right) <= _SIDES_SIGNS else "figure fraction"
    sides = ((left, 0.0, start, "left"), (right, 1.0, "axes fraction", "right"))
    for text, x, across, align in sides:
        beside(ax, text, (x, 1.0), 4, xycoords=(across, "axes fraction"), ha=align)


def dot(ax: Axes, x: float, y: float, style: ArmStyle, *, hollow: bool = False) -> None:
    """Draw the value of an arm."""
    look: dict[str, Any] = {"s": 18, "marker": style.marker, "linewidths": 0.8, "zorder": 4}
    face = PAPER if hollow else style.colour
    ax.scatter([x], [y], facecolors=face, edgecolors=style.colour, **look)


def seed_dots(ax: Axes, x: Sequence[float], y: Sequence[float], style: ArmStyle) -> None:
    """Draw the values of single seeds as small dots."""
    ax.scatter(x, y, s=SEED_AREA, color=style.colour, alpha=0.7, linewidths=0, zorder=3)


def span(
    ax: Axes,
    at: float,
    ends: Estimate | ArmSummary,
    colour: str,
    *,
    upright: bool = False,
    zorder: int = 2,
) -> None:
    """Draw an interval in percent, if it is known, as a line that may lie beside its value."""
    if not math.isnan(ends.low):
        draw = ax.vlines if upright else ax.hlines
        draw(at, 100 * ends.low, 100 * ends.high, color=colour, linewidth=1.1, zorder=zorder)


def fill_band(ax: Axes, x: Any, band: Any, colour: str, alpha: float, **look: Any) -> None:
    """Fill what lies between the ends of a band in percent."""
    low, high = 100 * band.low, 100 * band.high
    ax.fill_between(x, low, high, color=colour, alpha=alpha, linewidth=0, **look)


def with_whiskers(ax: Axes, x: Ends | float, y: Ends | float, colour: str, **look: Any) -> Any:
    """Draw a point with a whisker across, upright, or both.

    Args:
        ax: the panel.
        x: where; a value with its ends has a whisker, if these are known.
        y: where, as `x`.
        colour: of point and whiskers.
        look: settings of matplotlib.

    Returns:
        The entry of a legend.
    """
    settings: dict[str, Any] = {"marker": "o", "markersize": 4.5, "color": colour, **look}
    at: dict[str, float] = {}
    for axis, place in (("x", x), ("y", y)):
        at[axis], low, high = place if isinstance(place, tuple) else (place, math.nan, math.nan)
        if not math.isnan(low):
            settings[f"{axis}err"] = [[at[axis] - low], [high - at[axis]]]
    return ax.errorbar(at["x"], at["y"], **settings)


def percents(estimate: Estimate) -> Ends:
    """Return value and ends of an estimate in percent."""
    return 100 * estimate.value, 100 * estimate.low, 100 * estimate.high


def dot_mark(ax: Axes, *, hollow: bool = False, small: bool = False) -> Any:
    """Return the entry of a legend for a dot, whatever the arm."""
    face = PAPER if hollow else MUTED
    return ax.scatter([], [], s=SEED_AREA if small else 18, facecolors=face, edgecolors=MUTED)


def line_mark(ax: Axes) -> Any:
    """Return the entry of a legend for an interval, whatever the arm."""
    return ax.plot([], [], color=MUTED, linewidth=1.1)[0]


def arms_and_seeds(
    ax: Axes, runs: Sequence[tuple[str, int | None]], looks: Looks
) -> dict[str, Any]:
    """Return the legend of arms by colour and marker and, if several, of seeds by line style."""
    entries = {}
    for arm in dict.fromkeys(arm for arm, _ in runs):
        style = looks.arms[arm]
        (entry,) = ax.plot([], [], color=style.colour, marker=style.marker)
        entries[shown(looks.names.arm(arm), 20)] = entry
    seeds = sorted({seed for _, seed in runs if seed is not None})
    for seed in seeds if len(seeds) > 1 else ():
        (entries[f"seed {seed}"],) = ax.plot([], [], color=INK, linestyle=looks.dash(seed))
    return entries


def band_mark(ax: Axes) -> Any:
    """Return the entry of a legend for a band, whatever the arm."""
    return ax.fill_between([], [], color=MUTED, alpha=0.25, linewidth=0)


def log_decades(axis: Any, *, percent: bool = False) -> None:
    """Write the decades of a log axis as plain numbers, without mathtext."""
    scale = 100.0 if percent else 1.0
    axis.set_major_formatter(lambda value, _: f"{value * scale:g}")
    axis.set_minor_formatter(lambda _value, _position: "")


def row_axis(ax: Axes, labels: Sequence[str]) -> None:
    """Write labels next to the rows of a panel, the first on top."""
    ax.set_yticks(np.arange(len(labels)), labels=list(labels))
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


Width: TypeAlias = float | Literal["column", "text"]
"""Width of a figure: inches, or the width of a column or of the text of a page."""

_NARROWEST: Final = 2.5
_WIDEST: Final = 12.0
_SANS: Final = ("DejaVu Sans", "Verdana", "Arial", "Helvetica")
_TIMES: Final = ("STIXGeneral", "Times New Roman", "Times", "Nimbus Roman")


@dataclass(frozen=True)
class PageStyle:
    r"""Page of a template: sizes and fonts of its figures.

    Attributes:
        column: `\columnwidth` in inches.
        text: `\textwidth` in inches.
        height: `\textheight` in inches.
        serif: whether text is set in STIX, which looks as Times does, or in DejaVu Sans.
        points: size of the smallest text.
    """

    column: float
    text: float
    height: float
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
            raise InputError(
                f"width: expected column, text, or {_NARROWEST:g} to {_WIDEST:g} inches; "
                f"got {width!r}"
            )
        return float(size)

    @property
    def tallest(self) -> float:
        """Height in inches that a figure may have: the rest of the page is for a caption and text.

        Example:
            >>> STYLES["icml"].tallest
            6.3
        """
        return round(0.7 * self.height, 2)

    @property
    def rc(self) -> Mapping[str, Any]:
        """Settings of matplotlib over its defaults."""
        labels = self.points if self.serif else self.points + 0.5
        texts = ("font.size", "legend.fontsize", "legend.title_fontsize")
        sizes = dict.fromkeys((*texts, "xtick.labelsize", "ytick.labelsize"), self.points)
        sizes |= dict.fromkeys(("axes.labelsize", "axes.titlesize"), labels)
        return {**_RC, **sizes, "font.family": ["serif" if self.serif else "sans-serif"]}


STYLES: Final[Mapping[FigureStyle, PageStyle]] = {
    "default": PageStyle(3.5, 7.16, 9.0, serif=False, points=7.0),
    "neurips": PageStyle(5.5, 5.5, 9.0, serif=True, points=8.0),
    "icml": PageStyle(3.25, 6.75, 9.0, serif=True, points=8.0),
    "acl": PageStyle(7.7 / 2.54, 16 / 2.54, 24.7 / 2.54, serif=True, points=8.0),
}
"""The pages by name: ours, and those of `neurips_2025.sty`, `icml2025.sty` and `acl.sty`."""


@dataclass(frozen=True)
class Canvas:
    """Drawing settings of any figure.

    Attributes:
        style: widths and fonts.
        width: of the drawing.
    """

    style: PageStyle = STYLES["default"]
    width: Width = "column"

    @property
    def inches(self) -> float:
        """Width of the drawing in inches."""
        return self.style.inches(self.width)


CANVAS: Final = Canvas()
"""A column of a page of ours."""


_TICKS: Final = {
    "color": INK,
    "major.size": 2.5,
    "major.width": 0.6,
    "minor.size": 1.5,
    "minor.width": 0.4,
}
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
    **{f"{axis}tick.{setting}": value for axis in "xy" for setting, value in _TICKS.items()},
}
"""Settings of the user do not reach a figure.

Text in SVG stays text: files are small, words can be searched and read aloud, and a reader without
our fonts gets narrower ones, so nothing overlaps. PDF embeds the fonts.
"""
