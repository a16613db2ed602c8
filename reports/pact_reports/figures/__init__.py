"""Figures: what runs show, drawn for print at the width of a column.

`pact_eval.evaluation.curves` computes the results; a function here draws one of them into given
axes (`draw_x(result, ax)`). Nothing here but `layout` and `files` imports matplotlib at once.
"""

from pact_reports.figures.canvas import STYLES, Canvas, PageStyle, Width
from pact_reports.figures.figure import Built, FigureFile, FigureSpec, Panel, reason
from pact_reports.figures.registry import FIGURES
from pact_reports.figures.style import NEUTRAL, ArmStyle, Looks, Palette, read_palette, with_arms

__all__ = [
    "FIGURES",
    "NEUTRAL",
    "STYLES",
    "ArmStyle",
    "Built",
    "Canvas",
    "FigureFile",
    "FigureSpec",
    "Looks",
    "PageStyle",
    "Palette",
    "Panel",
    "Width",
    "read_palette",
    "reason",
    "with_arms",
]
