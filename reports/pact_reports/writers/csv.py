"""Tables as CSV: all digits, one column per number, and nothing that a spreadsheet could run."""

from __future__ import annotations

import csv
import io
import math

from pact_eval.plain_text import one_line
from pact_reports.table import Number, Table

# What spreadsheets take for the beginning of a formula, in either width.
_FORMULA = tuple("=+-@＝＋－＠")


def to_csv(table: Table) -> str:
    r"""Write a table as CSV (RFC 4180: commas, CRLF, quotes where needed).

    A column whose cells carry numbers becomes one column per number, named with its unit; NaN is an
    empty field. Where cells of a column are marked, `... mark` follows it; where some are
    undefined, `notes` at the end says why. Numbers that are not from runs have a column `source`.

    Example:
        >>> from pact_reports.table import Cell, Column, Row, Table
        >>> columns = (Column("Run", "left"), Column("Accuracy", numbers=("accuracy (fraction)",)))
        >>> rows = (Row((Cell("=1+1"), Cell("84.6", (0.8457,)))),)
        >>> print(to_csv(Table("main", "Main", "", columns, rows)).replace("\r", ""), end="")
        Run,accuracy (fraction)
        '=1+1,0.8457
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    heads: list[str] = []
    fields: list[list[str]] = [[] for _ in table.rows]
    for at, column in enumerate(table.columns):
        cells = [row.cells[at] for row in table.rows]
        marked = any(cell.mark for cell in cells)
        heads += map(csv_text, column.numbers or (column.title,))
        heads += [csv_text(f"{column.title} mark")] if marked else []
        for row, cell in zip(fields, cells, strict=True):
            if column.numbers:
                row += map(_number, cell.numbers or (None,) * len(column.numbers))
            else:
                row.append(csv_text(cell.text if cell.data is None else cell.data))
            row += [cell.mark or ""] if marked else []
    if table.reasons:
        heads.append("notes")
        for row, of_row in zip(fields, table.rows, strict=True):
            pairs = zip(table.columns, of_row.cells, strict=True)
            notes = (
                f"{column.title}: {cell.reason}"
                for column, cell in pairs
                if cell.reason is not None
            )
            row.append(csv_text("; ".join(notes)))
    if table.source:
        heads.append("source")
        for row in fields:
            row.append(csv_text(table.source))
    writer.writerows([heads, *fields])
    return stream.getvalue()


def csv_text(text: str) -> str:
    r"""Return text from data as one field: one line, and no formula.

    What spreadsheets would run gets an apostrophe before it.

    Example:
        >>> csv_text("@cmd"), csv_text("a\nb"), csv_text("no_cf")
        ("'@cmd", 'a\\nb', 'no_cf')
    """
    line = one_line(text)
    return f"'{line}" if line.lstrip().startswith(_FORMULA) else line


def _number(number: Number) -> str:
    return "" if number is None or math.isnan(number) else repr(number)
