"""Grid of panels: axes of equal size, with the room that their labels need around them.

Labels are measured once, and again only if the ticks or the size of a panel change. Constrained
layout of matplotlib measures them twice with a solver, and takes three times as long. All lengths
are inches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from matplotlib.spines import Spine

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import BboxBase

    from pact_eval._typing import FloatArray

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
