"""Tables as CSV: all digits, one column per number, and nothing that a spreadsheet could run."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator

from pact_eval.plain_text import one_line
from pact_reports.table import Cell, Column, Number, Row, Table

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
    marked = [any(row.cells[at].mark for row in table.rows) for at in range(len(table.columns))]
    heads = [
        head
        for column, with_mark in zip(table.columns, marked, strict=True)
        for head in _heads(column, with_mark=with_mark)
    ]
    has_notes = bool(table.reasons)
    has_source = bool(table.source)
    writer.writerow([*heads, *["notes"] * has_notes, *["source"] * has_source])
    for row in table.rows:
        fields = [
            field
            for column, cell, with_mark in zip(table.columns, row.cells, marked, strict=True)
            for field in _fields(column, cell, with_mark=with_mark)
        ]
        notes, source = [_notes(table, row)] * has_notes, [csv_text(table.source)] * has_source
        writer.writerow([*fields, *notes, *source])
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


def _heads(column: Column, *, with_mark: bool) -> Iterator[str]:
    yield from map(csv_text, column.numbers or (column.title,))
    if with_mark:
        yield csv_text(f"{column.title} mark")


def _fields(column: Column, cell: Cell, *, with_mark: bool) -> Iterator[str]:
    if not column.numbers:
        yield csv_text(cell.text if cell.data is None else cell.data)
    else:
        yield from map(_number, cell.numbers or (None,) * len(column.numbers))
    if with_mark:
        yield cell.mark or ""


def _number(number: Number) -> str:
    return "" if number is None or math.isnan(number) else repr(number)


def _notes(table: Table, row: Row) -> str:
    notes = [
        f"{column.title}: {cell.reason}"
        for column, cell in zip(table.columns, row.cells, strict=True)
        if cell.reason is not None
    ]
    return csv_text("; ".join(notes))
