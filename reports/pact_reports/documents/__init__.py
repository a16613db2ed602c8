"""Paper tables: what runs show, computed once and written as LaTeX, Markdown and CSV.

Every table is computed into a frozen result, laid out as a neutral `Table`, and written by one of
three writers: `to_latex`, `to_markdown`, `to_csv`.
"""

from pact_reports.documents.csv_writer import to_csv
from pact_reports.documents.files import (
    FORMATS,
    BuiltTables,
    build_tables,
    markdown_report,
    write_tables,
)
from pact_reports.documents.latex_writer import to_latex
from pact_reports.documents.markdown_writer import to_markdown
from pact_reports.documents.model import MARKS, Cell, Column, Mark, Row, Table
from pact_reports.documents.registry import TABLES
from pact_reports.documents.request import TableRequest, TableSpec

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
