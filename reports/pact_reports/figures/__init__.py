"""Figures: what runs show, drawn for print at the width of a column.

Every figure is computed into a frozen result and drawn from it into axes that are given
(`draw_x(result, ax)`). Nothing here but `files` imports matplotlib.
"""

from pact_reports.figures.figure import Built, FigureRequest, FigureSpec, Panel, Plate
from pact_reports.figures.registry import FIGURES

__all__ = ["FIGURES", "Built", "FigureRequest", "FigureSpec", "Panel", "Plate"]
