"""Reports in a terminal: tables with borders, in ASCII if piped, wrapped if narrow."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from rich import box
from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from pact_eval.plain_text import one_line, visible
from pact_reports.table import Cell, Column, Legend, Line, Mark, Part, Row, Table, Tone

_ARROW: Final = {1: " ↑", -1: " ↓", 0: ""}
_SIGN: Final[dict[Mark, str]] = {
    "best": "^",
    "tied": "~",
    "significant": "*",
    "clearly better": "++",
    "better": "+",
    "worse": "-",
    "clearly worse": "--",
}
_STYLE: Final[dict[Tone, str]] = {
    "good": "bold green",
    "bad": "bold red",
    "caution": "bold yellow",
    "info": "bold cyan",
    "faint": "dim",
    "strong": "bold",
}
_SUPERSCRIPT: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
# What stays on one line while it fits there: words, brackets with what is in them, "84.6 ± 2.8".
_PIECE: Final = re.compile(r"(?:\[[^\[\]]*\]|\S)+(?: [±=<] \S+)?")
_PADDING: Final = 3  # of a column: a border and a blank on either side of the cells
_DOTS: Final = "..."
_GAP: Final = "  "  # before each column of a bare table
_CUT: Final = 8  # columns of a cell that may be cut
_READABLE: Final = 24  # cells that running text is not wrapped below while other columns can shrink


def show(console: Console, parts: Iterable[Part]) -> None:
    """Print parts of a report; a blank line separates a table from what is next to it.

    Args:
        console: where to print; if it is not a terminal, borders are ASCII.
        parts: in reading order.
    """
    before: Part | None = None
    for part in parts:
        if before is not None and not (_running(part) and _running(before)):
            console.print()
        unbroken = isinstance(part, Line) and part.unbroken
        for renderable in renderables(part, width=console.width, plain=not console.is_terminal):
            console.print(renderable, soft_wrap=unbroken)
        before = part


def _running(part: Part) -> bool:
    """Return whether a part has no blank line between it and a line of text."""
    return isinstance(part, Line) or (isinstance(part, Table) and part.bare)


def to_text(*parts: Part, width: int = 120) -> str:
    """Write parts of a report as text with ASCII borders.

    Args:
        parts: in reading order.
        width: number of columns that lines may take.

    Example:
        >>> columns = (Column("Run", "left"), Column("Accuracy", numbers=("accuracy",), better=1))
        >>> rows = (Row((Cell("no_cf"), Cell("84.6", (0.8457,), "best", interval="[79, 89]"))),)
        >>> print(to_text(Table("main", "Main results", "", columns, rows)), end="")
        Main results
        +-------+-----------------+
        | Run   |      Accuracy ↑ |
        +-------+-----------------+
        | no_cf | 84.6 [79, 89] ^ |
        +-------+-----------------+
        ^: the best of its column.
    """
    file = io.StringIO()
    show(Console(file=file, width=width, highlight=False, color_system=None), parts)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def renderables(part: Part, *, width: int, plain: bool) -> Iterator[RenderableType]:
    """Lay out one part of a report for rich.

    Args:
        part: what to lay out.
        width: number of columns that lines may take.
        plain: ASCII borders instead of box drawing.

    Yields:
        Texts and tables; text from data is neither markup nor control characters in them.
    """
    if isinstance(part, Line):
        text = one_line(part.text) if part.unbroken else visible(part.text)
        yield Text(text, style="" if part.tone is None else _STYLE[part.tone])
        return
    if isinstance(part, Legend):
        marks = f"{_end(_marks(part.marks))} " if part.marks else ""
        yield Text(visible(marks + part.text), style="dim")
        return
    if part.title:
        yield Text(one_line(part.title), style="bold")
    if part.caption_with_brackets:
        yield Text(visible(part.caption_with_brackets))
    columns = [_Column.of(part, at) for at in range(len(part.columns))]
    if part.bare:
        yield from _bare(part, columns, width)
        return
    for block in _blocks(columns, part.keys, width):
        yield _border([(part.columns[at], columns[at]) for at in block], part.rows, width, plain)
    if part.meanings:
        yield Text(_end(visible(_marks(part.meanings))), style="dim")
    for number, reason in enumerate(part.reasons, start=1):
        yield Text(f"{_superscript(number)} {_end(visible(reason))}", style="dim")
    for note in part.notes:
        yield Text(visible(note))


def _marks(meanings: Sequence[tuple[Mark, str]]) -> str:
    return "; ".join(f"{_SIGN[mark]}: {meaning}" for mark, meaning in meanings)


@dataclass(frozen=True)
class _Column:
    """The contents of one column, in pieces that are wrapped between and not within.

    Attributes:
        head: pieces of the title.
        below: pieces of the head's second line.
        cells: of each row, its pieces and those of its second line.
        tones: of each row.
        running: whether the cells are running text.
        cut: whether what does not fit on one line is cut.
    """

    head: tuple[str, ...]
    below: tuple[str, ...]
    cells: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    tones: tuple[str, ...]
    running: bool
    cut: bool

    @classmethod
    def of(cls, table: Table, at: int) -> _Column:
        column = table.columns[at]
        reasons = table.reasons
        return cls(
            head=_pieces(column.title + _ARROW[column.better]),
            below=_pieces(column.below),
            cells=tuple(_contents(row.cells[at], reasons) for row in table.rows),
            tones=tuple(_tone(row.cells[at]) for row in table.rows),
            running=column.width is not None,
            cut=column.cut,
        )

    @property
    def _lines(self) -> Iterator[tuple[str, ...]]:
        yield from (self.head, self.below)
        for cell in self.cells:
            yield from cell

    @property
    def natural(self) -> int:
        """Width at which nothing is wrapped."""
        return max(1, *(cell_len(" ".join(pieces)) for pieces in self._lines))

    @property
    def least(self) -> int:
        """Width at which no piece is broken; of cells that may be cut, that of a word or two."""
        if self.cut:
            return min(self.natural, max(_CUT, *map(cell_len, (*self.head, ""))))
        least = max(1, *(cell_len(piece) for pieces in self._lines for piece in pieces), 1)
        return max(least, min(self.natural, _READABLE)) if self.running else least


def _pieces(text: str) -> tuple[str, ...]:
    return tuple(_PIECE.findall(one_line(text)))


def _contents(cell: Cell, reasons: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    note = "" if cell.reason is None else _superscript(reasons.index(cell.reason) + 1)
    pieces = _pieces(cell.text) or (("",) if not note else ())
    pieces = (*pieces, *_pieces(cell.interval))
    pieces = (*pieces[:-1], pieces[-1] + note) if pieces else (note,)
    sign = () if cell.mark is None else (_SIGN[cell.mark],)
    return (*pieces, *sign), _pieces(cell.below)


def _tone(cell: Cell) -> str:
    if cell.tone is not None:
        return _STYLE[cell.tone]
    return "bold" if cell.mark == "best" else ""


def _blocks(columns: Sequence[_Column], keys: int, width: int) -> list[list[int]]:
    """Divide columns into tables that fit, each beginning with the columns that name a row."""
    everything = list(range(len(columns)))
    natural = [column.natural for column in columns]
    least = [column.least for column in columns]
    if _total_width(natural) <= width or (keys == 0 and _total_width(least) <= width):
        return [everything]
    widths = natural if keys else least
    first = max(keys, 1)
    blocks: list[list[int]] = []
    for at in everything[first:]:
        longer = [*(blocks[-1] if blocks else everything[:first]), at]
        if blocks and _total_width([widths[index] for index in longer]) > width:
            longer = [*everything[:first], at]
            blocks.append(longer)
        elif blocks:
            blocks[-1] = longer
        else:
            blocks.append(longer)
    return blocks or [everything]


def _total_width(widths: Sequence[int]) -> int:
    return sum(widths) + _PADDING * len(widths) + 1


def _fit_widths(columns: Sequence[_Column], width: int) -> list[int]:
    """Return widths that fit: the widest columns are wrapped first, pieces are broken last."""
    widths = [column.natural for column in columns]
    for floors in ([column.least for column in columns], [1] * len(columns)):
        while _total_width(widths) > width:
            spare = [at for at, (has, floor) in enumerate(zip(widths, floors, strict=True))
                     if has > floor]  # fmt: skip
            if not spare:
                break
            widths[max(spare, key=widths.__getitem__)] -= 1
    return widths


def _border(
    columns: Sequence[tuple[Column, _Column]], rows: Sequence[Row], width: int, plain: bool
) -> RichTable:
    table = RichTable(box=box.ASCII2 if plain else box.ROUNDED, header_style="bold")
    widths = _fit_widths([contents for _, contents in columns], width)
    for (column, contents), wide in zip(columns, widths, strict=True):
        title = _wrap_pieces(contents.head, contents.below, wide)
        table.add_column(title, justify=column.align, width=wide, no_wrap=True)
    for number, row in enumerate(rows):
        if row.rule and number:
            table.add_section()
        table.add_row(
            *(
                _wrap_pieces(*_fitting(contents, number, wide), wide, style=contents.tones[number])
                for (_, contents), wide in zip(columns, widths, strict=True)
            )
        )
    return table


def _fitting(contents: _Column, row: int, width: int) -> tuple[Sequence[str], Sequence[str]]:
    """Return the pieces of a cell, cut to one line if its column is cut."""
    pieces, below = contents.cells[row]
    text = " ".join(pieces)
    if not contents.cut or cell_len(text) <= width:
        return pieces, below
    return (f"{set_cell_size(text, max(width - len(_DOTS), 1)).rstrip()}{_DOTS}",), below


def _bare(table: Table, columns: Sequence[_Column], width: int) -> Iterator[Text]:
    """Lay out a table without borders, indented by two columns; the last columns are wrapped first.

    It has neither marks nor reasons: its cells are words that need no legend.
    """
    widths = [contents.natural for contents in columns]
    for at in reversed(range(len(columns))):
        spare = width - sum(widths) - len(_GAP) * len(columns)
        widths[at] = max(min(widths[at], _READABLE), widths[at] + min(0, spare))
    if any(column.title for column in table.columns):
        yield from _bare_row(table, [contents.head for contents in columns], widths, ["bold"])
    for number in range(len(table.rows)):
        cells = [contents.cells[number][0] for contents in columns]
        yield from _bare_row(table, cells, widths, [contents.tones[number] for contents in columns])


def _bare_row(
    table: Table, cells: Sequence[Sequence[str]], widths: Sequence[int], tones: Sequence[str]
) -> Iterator[Text]:
    """Lay out one row in as many lines as its longest cell needs.

    Args:
        table: to which it belongs.
        cells: pieces of each cell.
        widths: of the columns.
        tones: of the cells, or one for all.
    """
    wrapped = [list(_wrap(pieces, wide)) for pieces, wide in zip(cells, widths, strict=True)]
    styles = [*tones, *([tones[-1]] * (len(cells) - len(tones)))]
    for lines in zip_longest(*wrapped, fillvalue=""):
        text = Text()
        for column, line, wide, style in zip(table.columns, lines, widths, styles, strict=True):
            blanks = " " * (wide - cell_len(line))
            text.append(_GAP + (blanks if column.align == "right" else ""))
            text.append(line, style=style)
            text.append("" if column.align == "right" else blanks)
        text.rstrip()
        yield text


def _wrap_pieces(
    pieces: Sequence[str], below: Sequence[str], width: int, *, style: str = ""
) -> Text:
    text = Text("\n".join(_wrap(pieces, width)), style=style)
    if below:
        text.append("\n" + "\n".join(_wrap(below, width)), style="dim")
    return text


def _wrap(pieces: Sequence[str], width: int) -> Iterator[str]:
    line = ""
    for piece in pieces:
        longer = f"{line} {piece}" if line else piece
        if cell_len(longer) <= width:
            line = longer
            continue
        if line:
            yield line
        *full, line = chop_cells(piece, width) or [""]
        yield from full
    yield line


def _superscript(number: int) -> str:
    return str(number).translate(_SUPERSCRIPT)


def _end(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
