"""Paper tables: what runs show, computed once and written as LaTeX, Markdown and CSV.

Every table is computed into a frozen result, laid out as a neutral `Table`, and written by one of
three writers: `to_latex`, `to_markdown`, `to_csv`.
"""

from pact_reports.table import MARKS, Cell, Column, Mark, Row, Table
from pact_reports.tables.registry import TABLES
from pact_reports.tables.request import TableRequest, TableSpec
from pact_reports.writers.csv import to_csv
from pact_reports.writers.files import (
    FORMATS,
    BuiltTables,
    build_tables,
    markdown_report,
    write_tables,
)
from pact_reports.writers.latex import to_latex
from pact_reports.writers.markdown import to_markdown

__all__ = [
    "FORMATS",
    "MARKS",
    "TABLES",
    "BuiltTables",
    "Cell",
    "Column",
    "Mark",
    "Row",
    "Table",
    "TableRequest",
    "TableSpec",
    "build_tables",
    "markdown_report",
    "to_csv",
    "to_latex",
    "to_markdown",
    "write_tables",
]
