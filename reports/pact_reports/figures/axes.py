"""What all panels share: counts, titles, legends, whiskers, and inert text from data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pact_reports.figures.style import INK, MUTED, Looks, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROOM_POINTS = 245
_HANDLE_POINTS = 26
_SIGN_POINTS = 3.9
_ROW_INCHES = 0.14
_BELOW_POINTS = 27
"""From the axis to a legend: past the numbers and the label of the axis."""


class Labelled(Protocol):
    """What a legend entry is made from."""

    @property
    def arm(self) -> str:
        """Name of the arm."""

    @property
    def seed(self) -> int | None:
        """Seed, or None."""


def counts_text(items: int, families: int) -> str:
    """Return the counts behind a panel.

    Examples:
        >>> counts_text(324, 162)
        'n = 324 items, 162 families'
    """
    return f"n = {items:,} items, {families:,} families"


def headed(ax: Axes, title: str, below: str = "", *, wide: bool = False) -> None:
    """Write a title, and below it in grey the counts behind the panel; leave out what is empty.

    Args:
        ax: the panel.
        title: in bold.
        below: in grey.
        wide: start at the left edge of the figure, for panels with long labels.
    """
    coordinates = ("figure fraction", "axes fraction") if wide else "axes fraction"
    rows: list[tuple[str, dict[str, Any]]] = [
        (below, {"color": MUTED, "fontsize": 7}),
        (title, {"fontsize": 7.5, "fontweight": "bold"}),
    ]
    up = 4.0
    for text, look in rows:
        if text:
            ax.annotate(
                text,
                (0.02 if wide else 0.0, 1.0),
                xytext=(0, up),
                xycoords=coordinates,
                textcoords="offset points",
                **look,
            )
            up += 10


def legend_columns(labels: Sequence[str], most: int = 2) -> int:
    """Return the number of legend columns that fit under a figure, 1 to `most`.

    Examples:
        >>> legend_columns(["pact: AURC 2.1%", "ce_only: AURC 4.6%"])
        2
        >>> legend_columns(["x" * 40] * 2)
        1
    """
    longest = max(map(len, labels), default=0)
    fit = int(_ROOM_POINTS // (_HANDLE_POINTS + _SIGN_POINTS * longest))
    return max(1, min(most, fit, len(labels)))


def legend_inches(labels: Sequence[str], most: int = 2) -> float:
    """Return the height of a legend under a figure."""
    return _ROW_INCHES * math.ceil(len(labels) / legend_columns(labels, most))


def legend_below(
    ax: Axes, handles: Sequence[Any], labels: Sequence[str], *, ncols: int = 2, title: str = ""
) -> None:
    """Add a legend with only these entries, below the axis where it hides no data."""
    # `pact_reports.figures` is imported without matplotlib.
    from matplotlib.transforms import ScaledTranslation

    if not handles:
        return
    down = ScaledTranslation(0, -_BELOW_POINTS / 72, ax.figure.dpi_scale_trans)
    ax.legend(
        list(handles),
        list(labels),
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=ax.transAxes + down,
        borderaxespad=0.0,
        columnspacing=1.2,
        ncols=legend_columns(labels, ncols),
        title=title or None,
        title_fontsize=7,
    )


def arms_and_seeds(ax: Axes, runs: Sequence[Labelled], looks: Looks) -> None:
    """Add a legend of arms by colour and marker and, if several, of seeds by line style."""
    handles, labels = [], []
    for arm in dict.fromkeys(run.arm for run in runs):
        style = looks.arms[arm]
        handles.append(ax.plot([], [], color=style.colour, marker=style.marker)[0])
        labels.append(shown(arm, 20))
    seeds = sorted({run.seed for run in runs if run.seed is not None})
    for seed in seeds if len(seeds) > 1 else ():
        handles.append(ax.plot([], [], color=INK, linestyle=looks.dash(seed))[0])
        labels.append(f"seed {seed}")
    legend_below(ax, handles, labels, ncols=2)


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
    # Ticks exist only once they were asked for.
    texts = [*ax.get_xticklabels(), *ax.get_yticklabels(), *ax.texts, ax.title, ax.xaxis.label]
    texts.append(ax.yaxis.label)
    found = ax.get_legend()
    if found is not None:
        texts += [*found.get_texts(), found.get_title()]
    for text in texts:
        text.set_parse_math(False)
    return ax
