"""Paper tables of runs, computed once and written as LaTeX, Markdown and CSV.

Every table is computed into a frozen result, laid out as a neutral `Table`, and written by one of
three writers: `to_latex`, `to_markdown`, `to_csv`.
"""
