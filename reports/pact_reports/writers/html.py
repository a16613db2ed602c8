"""Tables of documents as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pact_reports.markup import Html, data_text, element, joined
from pact_reports.table import Cell, Column, Legend, Mark, Table

__all__ = ["table_html"]

_ARROW: Final = {1: " ↑", -1: " ↓", 0: ""}
_SIGN: Final[Mapping[Mark, str]] = {
    "tied": " ~",
    "significant": "†",
    "clearly better": " ++",
    "better": " +",
    "worse": " −",
    "clearly worse": " −−",
}
_CLASS: Final[Mapping[Mark, str]] = {
    "best": "best",
    "tied": "tied",
    "significant": "significant",
    "clearly better": "better",
    "better": "better",
    "worse": "worse",
    "clearly worse": "worse",
}


def table_html(table: Table) -> Html:
    """Write a table: its caption above, what marks and footnotes mean below.

    A mark is a sign or a weight as well as a colour, so that it is seen without colours.

    Example:
        >>> from pact_reports.table import Cell, Column, Row, Table
        >>> columns = (Column("Run", "left"), Column("Accuracy", numbers=("accuracy",), better=1))
        >>> rows = (Row((Cell("<b>"), Cell("84.6", (0.8457,), "best"))),)
        >>> "<bdi>&lt;b&gt;</bdi>" in table_html(Table("main", "Main", "", columns, rows)).text
        True
    """
    reasons = table.reasons
    head = element("tr", *(_head(column) for column in table.columns))
    rows = [
        element(
            "tr",
            *(
                _cell(cell, column, reasons, first=at == 0)
                for at, (cell, column) in enumerate(zip(row.cells, table.columns, strict=True))
            ),
            class_="ruled" if row.rule else None,
        )
        for row in table.rows
    ]
    body = element(
        "div",
        element("table", element("thead", head), element("tbody", *rows)),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=table.title,
    )
    caption_text = table.caption_with_brackets
    caption = element("p", caption_text, class_="caption") if caption_text else None
    return element(
        "section",
        element("h3", table.title),
        caption,
        body,
        _notes(table),
        class_="table",
        id=f"table-{table.name}",
    )


def _head(column: Column) -> Html:
    return element(
        "th", data_text(column.title), _ARROW[column.better], scope="col", class_=_class(column)
    )


def _cell(cell: Cell, column: Column, reasons: tuple[str, ...], *, first: bool) -> Html:
    shown = data_text(cell.text)
    if cell.mark == "best":
        shown = element("strong", shown)
    sign = "" if cell.mark is None else _SIGN.get(cell.mark, "")
    note = None
    if cell.reason is not None:
        note = element("sup", str(reasons.index(cell.reason) + 1))
    mark = None if cell.mark is None else _CLASS[cell.mark]
    interval = None
    if cell.interval:
        interval = joined([" ", element("span", cell.interval, class_="interval")])
    below = element("span", cell.below, class_="interval") if cell.below else None
    parts = (shown, sign, note, interval, below)
    if first:
        return element("th", *parts, scope="row", class_=_class(column, mark))
    return element("td", *parts, class_=_class(column, mark))


def _class(column: Column, mark: str | None = None) -> str | None:
    """Return the class of a cell: numbers are right-aligned by default; running text may wrap."""
    align = None if column.align == "right" else column.align
    wide = "wide" if column.width is not None else None
    return " ".join(name for name in (align, mark, wide) if name) or None


def legend_html(legend: Legend) -> Html:
    """Write what the marks of a report mean, and its units."""
    lines = [element("li", line) for line in _marks(legend.marks)]
    return element("ul", *lines, element("li", legend.text), class_="notes")


def _marks(meanings: Sequence[tuple[Mark, str]]) -> list[Html]:
    entries = []
    for mark, meaning in meanings:
        sign: Html | str = _SIGN.get(mark, "").strip()
        if mark == "best":
            sign = element("strong", "Bold")
        entries.append(joined([sign, f": {meaning}"]))
    return entries


def _notes(table: Table) -> Html | None:
    lines = [element("li", line) for line in _marks(table.meanings)]
    lines += [
        element("li", element("sup", str(at)), f" {why}") for at, why in enumerate(table.reasons, 1)
    ]
    lines += [element("li", note) for note in table.notes]
    return element("ul", *lines, class_="notes") if lines else None
