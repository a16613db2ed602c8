"""Shared parts of panels: counts, titles, legends, whiskers, and inert text from data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from pact_reports.figures.style import INK, MUTED, PAPER, Looks, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEADING: Final = "heading"
"""Label of titles and counts, which a web page writes next to a drawing instead."""

SIDES_POINTS: Final = 15.0
"""Where titles start above the names of the sides."""

SEED_AREA: Final = 5.0
"""Of the dot of one seed, in square points."""

_SIDES_SIGNS = 44
_BELOW_POINTS = 27
"""From the axis to a legend: past the numbers and the label of the axis."""


@dataclass(frozen=True)
class Key:
    """The entries of a legend.

    Attributes:
        handles: what is drawn.
        labels: its meaning, one text each.
        title: of the legend; "" without one.
    """

    handles: tuple[Any, ...]
    labels: tuple[str, ...]
    title: str = ""


_KEY: Final = "pact_key"
"""Attribute of axes: a legend keeps copies of its handles only, which cannot be drawn again.

A table of all legends would keep every figure: handles know their axes.
"""

_SHARED: Final = "pact_shared_legend"
"""Attribute of a figure that has one legend for all of its panels."""


class Labelled(Protocol):
    """Source of a legend entry."""

    @property
    def arm(self) -> str:
        """Key of the arm."""

    @property
    def seed(self) -> int | None:
        """Seed, or None."""


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
    rows: list[tuple[str, dict[str, Any]]] = [
        (below, {"color": MUTED}),
        (title, {"fontweight": "bold"}),
    ]
    up = above
    for text, look in rows:
        if text:
            ax.annotate(
                text,
                (0.02 if wide else 0.0, 1.0),
                xytext=(0, up),
                xycoords=coordinates,
                textcoords="offset points",
                fontsize="medium",
                label=HEADING,
                **look,
            )
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
    for text, x, across, align in (
        (left, 0.0, start, "left"),
        (right, 1.0, "axes fraction", "right"),
    ):
        ax.annotate(
            text,
            (x, 1.0),
            xytext=(0, 4),
            xycoords=(across, "axes fraction"),
            textcoords="offset points",
            ha=align,
            fontsize="medium",
        )


def dot_mark(ax: Axes, *, hollow: bool = False, small: bool = False) -> Any:
    """Return the entry of a legend for a dot, whatever the arm."""
    face = PAPER if hollow else MUTED
    return ax.scatter([], [], s=SEED_AREA if small else 18, facecolors=face, edgecolors=MUTED)


def line_mark(ax: Axes) -> Any:
    """Return the entry of a legend for an interval, whatever the arm."""
    return ax.plot([], [], color=MUTED, linewidth=1.1)[0]


def legend_below(
    ax: Axes, handles: Sequence[Any], labels: Sequence[str], *, title: str = ""
) -> None:
    """Add a legend with only these entries, below the axis where it hides no data.

    A file of several panels has one legend with the entries of all of them.
    """
    # `pact_reports.figures` is imported without matplotlib.
    from matplotlib.transforms import ScaledTranslation

    if not handles:
        return
    setattr(ax, _KEY, Key(tuple(handles), tuple(labels), title))
    if hasattr(ax.figure, _SHARED):
        return
    down = ScaledTranslation(0, -_BELOW_POINTS / 72, ax.figure.dpi_scale_trans)
    ax.legend(
        list(handles),
        list(labels),
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=ax.transAxes + down,
        borderaxespad=0.0,
        title=title or None,
    )


def share_legend(figure: Figure) -> None:
    """Let the panels of a figure keep the entries of their legends, and draw no legends."""
    setattr(figure, _SHARED, True)


def key_of(ax: Axes) -> Key | None:
    """Return the entries of the legend of a panel."""
    return getattr(ax, _KEY, None)


def arms_and_seeds(ax: Axes, runs: Sequence[Labelled], looks: Looks) -> None:
    """Add a legend of arms by colour and marker and, if several, of seeds by line style."""
    handles, labels = [], []
    for arm in dict.fromkeys(run.arm for run in runs):
        style = looks.arms[arm]
        handles.append(ax.plot([], [], color=style.colour, marker=style.marker)[0])
        labels.append(shown(looks.names.arm(arm), 20))
    seeds = sorted({run.seed for run in runs if run.seed is not None})
    for seed in seeds if len(seeds) > 1 else ():
        handles.append(ax.plot([], [], color=INK, linestyle=looks.dash(seed))[0])
        labels.append(f"seed {seed}")
    legend_below(ax, handles, labels)


def log_decades(axis: Any, *, percent: bool = False) -> None:
    """Write the decades of a log axis as plain numbers, without mathtext."""
    scale = 100.0 if percent else 1.0
    axis.set_major_formatter(lambda value, _: f"{value * scale:g}")
    axis.set_minor_formatter(lambda _value, _position: "")


def whiskers(value: float, low: float, high: float) -> list[list[float]] | None:
    """Return the lengths of whiskers around a value as matplotlib takes them; None without them.

    Examples:
        >>> whiskers(50.0, 47.5, 52.0), whiskers(50.0, math.nan, math.nan)
        ([[2.5], [2.0]], None)
    """
    return None if math.isnan(low) else [[value - low], [high - value]]


def row_axis(ax: Axes, labels: Sequence[str]) -> None:
    """Write labels next to the rows of a panel, the first on top."""
    ax.set_yticks(np.arange(len(labels)), labels=list(labels))
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def inert(ax: Axes) -> Axes:
    """Keep matplotlib from reading `$` in any text of a panel as mathematics; return the panel.

    Our style does this too; this is for axes that were made without it.
    """
    if not ax.title.get_parse_math():
        return ax
    # Ticks exist only once they were asked for, which takes as long as to draw them.
    texts = [*ax.get_xticklabels(), *ax.get_yticklabels(), *ax.texts, ax.title, ax.xaxis.label]
    texts.append(ax.yaxis.label)
    legend = ax.get_legend()
    if legend is not None:
        texts += [*legend.get_texts(), legend.get_title()]
    for text in texts:
        text.set_parse_math(False)
    return ax
