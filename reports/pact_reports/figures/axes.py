"""What the panels have in common: units, counts, legends, and text from data kept inert."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pact_reports.figures.style import INK, MUTED, RunStyles, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "Labelled",
    "arms_and_seeds",
    "counts_text",
    "headed",
    "inert",
    "legend_below",
    "legend_columns",
    "legend_inches",
    "log_decades",
    "row_axis",
]

_ROOM_POINTS = 245
_HANDLE_POINTS = 26
_SIGN_POINTS = 3.9
_ROW_INCHES = 0.14
_BELOW_POINTS = 27
"""From the axis to a legend: past the numbers and the label of the axis."""


class Labelled(Protocol):
    """What an entry of a legend is made from."""

    @property
    def arm(self) -> str:
        """Name of the arm."""

    @property
    def seed(self) -> int | None:
        """Seed, or None."""


def counts_text(items: int, families: int) -> str:
    """Say what a panel rests on.

    Example:
        >>> counts_text(324, 162)
        'n = 324 items, 162 families'
    """
    return f"n = {items:,} items, {families:,} families"


def headed(ax: Axes, title: str, below: str = "", *, wide: bool = False) -> None:
    """Write a title, and under it in grey what the panel rests on; none where it is empty.

    Args:
        ax: the panel.
        title: in bold.
        below: in grey.
        wide: begin at the left end of the figure, for panels with much room taken by labels.
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
    """Return how many columns of a legend fit under a figure, 1 to `most`.

    Example:
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
    """Add a legend of these entries alone, under the axis where it hides no data."""
    # Results are computed without matplotlib: only who draws has it.
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


def arms_and_seeds(ax: Axes, runs: Sequence[Labelled], styles: RunStyles) -> None:
    """Add a legend of the arms by colour and marker, and of several seeds by line style."""
    handles, labels = [], []
    for arm in dict.fromkeys(run.arm for run in runs):
        style = styles.arms[arm]
        handles.append(ax.plot([], [], color=style.colour, marker=style.marker)[0])
        labels.append(shown(arm, 20))
    seeds = sorted({run.seed for run in runs if run.seed is not None})
    for seed in seeds if len(seeds) > 1 else ():
        handles.append(ax.plot([], [], color=INK, linestyle=styles.dash(seed))[0])
        labels.append(f"seed {seed}")
    legend_below(ax, handles, labels, ncols=2)


def log_decades(axis: Any, *, percent: bool = False) -> None:
    """Write the decades of a log axis as plain numbers, without mathtext."""
    scale = 100.0 if percent else 1.0
    axis.set_major_formatter(lambda value, _: f"{value * scale:g}")
    axis.set_minor_formatter(lambda _value, _position: "")


def row_axis(ax: Axes, labels: Sequence[str]) -> None:
    """Write labels beside the rows of a panel, the first on top."""
    ax.set_yticks(np.arange(len(labels)), labels=list(labels))
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def inert(ax: Axes) -> Axes:
    """Keep `$` in all text of a panel from being read as mathematics; return the panel.

    The style says so for what is drawn with it; this is for axes made without it.
    """
    # Ticks are made when they are first asked for.
    texts = [*ax.get_xticklabels(), *ax.get_yticklabels(), *ax.texts, ax.title, ax.xaxis.label]
    texts.append(ax.yaxis.label)
    found = ax.get_legend()
    if found is not None:
        texts += [*found.get_texts(), found.get_title()]
    for text in texts:
        text.set_parse_math(False)
    return ax
