"""How tables are made: lines for terminals, ASCII for pipes, and nothing cut where it is narrow."""

from __future__ import annotations

from rich.box import ASCII2, SIMPLE_HEAD
from rich.table import Table

from pact_reports.plain_text import cell

__all__ = ["new_table", "whole"]


def new_table(*columns: str, plain: bool, title: str | None = None) -> Table:
    """Return a table without rows.

    Args:
        columns: titles of the first columns; more may be added.
        plain: ASCII rules instead of lines, for output that is piped.
        title: stands above it, as one line of text from data.
    """
    table = Table(
        box=ASCII2 if plain else SIMPLE_HEAD,
        pad_edge=False,
        header_style="bold",
        title=None if title is None else cell(title, style="italic"),
        title_justify="left",
    )
    for column in columns:
        table.add_column(column)
    return table


def whole(table: Table) -> Table:
    """Return a table whose cells go on in the next line where the terminal is too narrow for them.

    Without this a number would end in an ellipsis there, and another number would be read.
    """
    for column in table.columns:
        column.overflow = "fold"
    return table
