"""Figures of runs, drawn for print at the width of a column.

`pact_eval.evaluation.curves` computes the results; a function here draws one of them into given
axes (`draw_x(result, ax)`). Nothing here but `layout` and `files` imports matplotlib at once.
"""
