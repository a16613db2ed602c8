"""Figures: what runs show, drawn for print at the width of a column.

`pact_eval.evaluation.curves` computes the results; a function here draws one of them into given
axes (`draw_x(result, ax)`). Nothing here but `files` imports matplotlib.
"""

from pact_reports.figures.figure import Built, FigureFile, FigureSpec, Panel, reason
from pact_reports.figures.registry import FIGURES
from pact_reports.figures.style import NEUTRAL, ArmStyle, Looks, Palette, read_palette, with_arms

__all__ = [
    "FIGURES",
    "NEUTRAL",
    "ArmStyle",
    "Built",
    "FigureFile",
    "FigureSpec",
    "Looks",
    "Palette",
    "Panel",
    "read_palette",
    "reason",
    "with_arms",
]
