"""A neutral table: columns, rows, numbers with their text, notes. The writers lay it out.

A report is a list of parts in reading order: tables, and lines of text between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, TypeVar

Align = Literal["left", "right"]
"""Alignment of the cells of a column."""

Mark = Literal["best", "tied", "significant", "clearly better", "better", "worse", "clearly worse"]
"""Why a cell stands out. Writers show a mark as a sign or a weight, never as a colour alone."""

Tone = Literal["good", "bad", "caution", "info", "faint", "strong"]
"""How a text is coloured, in writers that have colours. A tone never carries meaning alone."""

Number: TypeAlias = float | None
"""A number at full precision, rates as fractions; None and NaN if there is none."""

MARKS: Final[dict[Mark, str]] = {
    "best": "the best of its column",
    "tied": "not shown to be worse than the best",
    "significant": "p below 0.05",
    "clearly better": "clearly better",
    "better": "slightly better",
    "worse": "slightly worse",
    "clearly worse": "clearly worse",
}
"""What the marks mean in a table whose legend does not say otherwise."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        title: its head.
        align: of its cells.
        numbers: names of the numbers that each of its cells carries, units in brackets; empty if
            its cells are text.
        better: 1 higher, -1 lower, 0 neither: an arrow in the head.
        width: share of the line to which running text is wrapped; None for short cells.
        below: a second line of the head, such as the number of items.
        cut: whether a terminal cuts what does not fit on one line, instead of wrapping it.
    """

    title: str
    align: Align = "right"
    numbers: tuple[str, ...] = ()
    better: Literal[-1, 0, 1] = 0
    width: float | None = None
    below: str = ""
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: as readers see it.
        numbers: those behind the text, one for each of its column's; empty if none is known.
        mark: why it stands out, or None.
        reason: why it is undefined or qualified; becomes a footnote.
        interval: shown after the text, or in small type below it in LaTeX.
        below: a second line, such as what the number rests on; shown as `interval` is.
        tone: colour, in writers that have colours.
        data: what CSV has instead of the text, such as the key of an arm; None for the text.
    """

    text: str
    numbers: tuple[Number, ...] = ()
    mark: Mark | None = None
    reason: str | None = None
    interval: str = ""
    below: str = ""
    tone: Tone | None = None
    data: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table.

    Attributes:
        cells: one per column.
        rule: whether a rule separates it from the row above.
    """

    cells: tuple[Cell, ...]
    rule: bool = False


def table_row(*cells: Cell | str | int, rule: bool = False) -> Row:
    """Return a row; a text is a cell without numbers, as is a count.

    Example:
        >>> table_row("pact", Cell("84.6", (0.8457,))).cells[0].text
        'pact'
    """
    return Row(tuple(map(_cell, cells)), rule)


def _cell(cell: Cell | str | int) -> Cell:
    if isinstance(cell, int):
        return Cell(f"{cell:,}")
    return Cell(cell) if isinstance(cell, str) else cell


@dataclass(frozen=True, slots=True)
class Line:
    """Text of one or more lines between tables.

    Attributes:
        text: the lines.
        tone: colour, in writers that have colours.
        unbroken: whether it is one line by its nature, such as a path, which no writer wraps.
    """

    text: str
    tone: Tone | None = None
    unbroken: bool = False


@dataclass(frozen=True)
class Table:
    """A table, ready to be written.

    Attributes:
        name: of its files and labels: letters, digits and dashes.
        title: what it shows, in a few words; may be empty in a terminal report.
        caption: decoding, n and clusters of what it shows, in sentences.
        columns: from left to right.
        rows: from top to bottom.
        legend: what marks mean here, if `MARKS` does not say it well; "" if a `Legend` of the
            report says it.
        notes: shown below it.
        brackets: what the intervals of its cells are; part of the caption if there are any.
        keys: number of leading columns that name a row. A terminal too narrow for the table repeats
            them and continues with the other columns below; with 0, cells wrap first.
        source: what the numbers are from, if not from runs; CSV, which has no notes, has it in a
            column.
        bare: whether a terminal shows it without borders and indented, as part of the lines around
            it; without titles of columns, it has no head.

    Raises:
        ValueError: a row has more or fewer cells than there are columns, or a cell other numbers
            than its column.

    Example:
        >>> columns = (Column("Run", "left"), Column("Accuracy", numbers=("accuracy (fraction)",)))
        >>> row = Row((Cell("pact"), Cell("84.6", (0.8457,), "best")))
        >>> table = Table("main", "Main results", "324 items.", columns, (row,))
        >>> table.marks, table.reasons
        (('best',), ())
    """

    name: str
    title: str = ""
    caption: str = ""
    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    legend: tuple[tuple[Mark, str], ...] = ()
    notes: tuple[str, ...] = ()
    brackets: str = ""
    keys: int = 0
    source: str = ""
    bare: bool = False

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows, start=1):
            if len(row.cells) != len(self.columns):
                expected = len(self.columns)
                raise ValueError(f"row {number}: expected {expected} cells, got {len(row.cells)}")
            for column, cell in zip(self.columns, row.cells, strict=True):
                if cell.numbers and len(cell.numbers) != len(column.numbers):
                    raise ValueError(
                        f"row {number}, {column.title}: expected {len(column.numbers)} numbers, "
                        f"got {len(cell.numbers)}"
                    )

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The marks that occur, each once, in the order of `MARKS`."""
        marks = {cell.mark for row in self.rows for cell in row.cells}
        return tuple(mark for mark in MARKS if mark in marks)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons for undefined cells, each once, in the order of the cells."""
        return unique(cell.reason for row in self.rows for cell in row.cells)

    @property
    def caption_with_brackets(self) -> str:
        """The caption; if there are intervals, it says what they are."""
        shown = any(cell.interval for row in self.rows for cell in row.cells)
        return f"{self.caption} {self.brackets}".strip() if shown else self.caption

    @property
    def meanings(self) -> tuple[tuple[Mark, str], ...]:
        """The marks that occur and are explained below the table, with their meanings."""
        pairs = ((mark, self.meaning(mark)) for mark in self.marks)
        return tuple((mark, meaning) for mark, meaning in pairs if meaning)

    def only(self, places: Sequence[int]) -> Table:
        """Return the table with some of its columns, by their places."""
        rows = (replace(row, cells=tuple(row.cells[at] for at in places)) for row in self.rows)
        columns = tuple(self.columns[at] for at in places)
        return replace(self, columns=columns, rows=tuple(rows))

    def meaning(self, mark: Mark) -> str:
        """Return what a mark means in this table; "" if a `Legend` of the report says it."""
        return dict(self.legend).get(mark, MARKS[mark])


Item = TypeVar("Item")
ColumnOf: TypeAlias = tuple[Column | str, Callable[[Item], Cell | str | int]]
"""A column, and the function that makes its cell of an item."""


def make_table(
    name: str,
    items: Iterable[Item],
    *columns: ColumnOf[Item],
    rule: Callable[[Item], object] | None = None,
    **options: Any,
) -> Table:
    """Lay out items, one row each.

    Args:
        name: of the table.
        items: what the rows show.
        columns: each with the function that makes its cell of an item; a text is the title of a
            column of numbers.
        rule: a rule separates items for which this differs; None for no rules.
        options: the other attributes of the table.

    Example:
        >>> word = (Column("word", "left"), str.upper)
        >>> table = make_table("words", ["pact"], word, ("n", len), caption="A word.")
        >>> [cell.text for cell in table.rows[0].cells], table.caption
        (['PACT', '4'], 'A word.')
    """
    rows: list[Row] = []
    before: object = None
    for item in items:
        key = None if rule is None else rule(item)
        rows.append(table_row(*(cell(item) for _, cell in columns), rule=key != before))
        before = key
    heads = (Column(head) if isinstance(head, str) else head for head, _ in columns)
    return Table(name, columns=tuple(heads), rows=tuple(rows), **options)


@dataclass(frozen=True)
class Legend:
    """Meanings of the marks in all tables of a report, and the units of its numbers.

    Attributes:
        marks: every mark that may occur, with its meaning.
        text: the units, in sentences.
    """

    marks: tuple[tuple[Mark, str], ...]
    text: str


Part: TypeAlias = Table | Line | Legend
"""One part of a report."""


def unique(texts: Iterable[str | None]) -> tuple[str, ...]:
    """Return the texts that are not None, each once, in order."""
    return tuple(dict.fromkeys(text for text in texts if text is not None))
