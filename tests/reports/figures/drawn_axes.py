"""Axes to draw into, and what stands in them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from pact_reports.figures.figure import Panel


def drawn(panel: Panel) -> Axes:
    """Draws a panel into axes made without the style of the figures."""
    ax: Axes = Figure().subplots()
    assert panel(ax) is ax
    return ax


def points(line: Line2D) -> npt.NDArray[np.float64]:
    """Returns the x (first row) and y (second row) of a line."""
    return np.array([line.get_xdata(), line.get_ydata()], dtype=np.float64)


def legend_texts(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def all_text(ax: Axes) -> str:
    return "\n".join(text.get_text() for text in ax.findobj(Text) if isinstance(text, Text))
