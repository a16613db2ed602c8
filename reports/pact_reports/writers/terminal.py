"""Reports in a terminal: tables with borders, in ASCII if piped, wrapped if narrow."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, TypeAlias

from rich import box
from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from pact_eval.plain_text import one_line, visible
from pact_reports.table import Column, Legend, Line, Mark, Part, Row, Table, Tone

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

_Pieces: TypeAlias = tuple[list[str], list[str]]
"""Of a cell: those of its text, and of its second line."""


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
        >>> from pact_reports.table import Cell
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
        head: pieces of the title, and of the head's second line.
        cells: of each row, its pieces and those of its second line.
        tones: of each row.
        natural: width at which nothing is wrapped.
        least: width at which no piece is broken; of cells that may be cut, that of a word or two.
        cut: whether what does not fit on one line is cut.
    """

    head: _Pieces
    cells: tuple[_Pieces, ...]
    tones: tuple[str, ...]
    natural: int
    least: int
    cut: bool

    @classmethod
    def of(cls, table: Table, at: int) -> _Column:
        column, reasons = table.columns[at], table.reasons
        head = (_pieces(column.title + _ARROW[column.better]), _pieces(column.below))
        cells, tones = [], []
        for cell in (row.cells[at] for row in table.rows):
            note = "" if cell.reason is None else _superscript(reasons.index(cell.reason) + 1)
            texts = [*(_pieces(cell.text) or ([] if note else [""])), *_pieces(cell.interval)]
            texts[-1:] = [f"{texts[-1] if texts else ''}{note}"]
            texts += [] if cell.mark is None else [_SIGN[cell.mark]]
            cells.append((texts, _pieces(cell.below)))
            best = "bold" if cell.mark == "best" else ""
            tones.append(best if cell.tone is None else _STYLE[cell.tone])
        lines = [line for both in (head, *cells) for line in both]
        natural = max(1, *(cell_len(" ".join(pieces)) for pieces in lines))
        least = max(1, *(cell_len(piece) for pieces in lines for piece in pieces), 1)
        if column.cut:
            least = min(natural, max(_CUT, *map(cell_len, (*head[0], ""))))
        elif column.width is not None:  # running text
            least = max(least, min(natural, _READABLE))
        return cls(head, tuple(cells), tuple(tones), natural, least, column.cut)


def _pieces(text: str) -> list[str]:
    return _PIECE.findall(one_line(text))


def _blocks(columns: Sequence[_Column], keys: int, width: int) -> list[list[int]]:
    """Divide columns into tables that fit, each beginning with the columns that name a row."""
    everything = [*range(len(columns))]
    natural = [column.natural for column in columns]
    least = [column.least for column in columns]
    if _total_width(natural) <= width or (keys == 0 and _total_width(least) <= width):
        return [everything]
    widths, first = natural if keys else least, max(keys, 1)
    blocks: list[list[int]] = []
    for at in everything[first:]:
        if blocks and _total_width([widths[index] for index in (*blocks[-1], at)]) <= width:
            blocks[-1].append(at)
        else:
            blocks.append([*everything[:first], at])
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
        title = _wrap_pieces(contents.head, wide)
        table.add_column(title, justify=column.align, width=wide, no_wrap=True)
    for number, row in enumerate(rows):
        if row.rule and number:
            table.add_section()
        texts = []
        for (_, contents), wide in zip(columns, widths, strict=True):
            pieces, below = contents.cells[number]
            text = " ".join(pieces)
            if contents.cut and cell_len(text) > wide:
                pieces = [f"{set_cell_size(text, max(wide - len(_DOTS), 1)).rstrip()}{_DOTS}"]
            texts.append(_wrap_pieces((pieces, below), wide, style=contents.tones[number]))
        table.add_row(*texts)
    return table


def _bare(table: Table, columns: Sequence[_Column], width: int) -> Iterator[Text]:
    """Lay out a table without borders, indented by two columns; the last columns are wrapped first.

    It has neither marks nor reasons: its cells are words that need no legend.
    """
    widths = [contents.natural for contents in columns]
    for at in reversed(range(len(columns))):
        spare = width - sum(widths) - len(_GAP) * len(columns)
        widths[at] = max(min(widths[at], _READABLE), widths[at] + min(0, spare))
    rows = [[(one.cells[at][0], one.tones[at]) for one in columns] for at in range(len(table.rows))]
    if any(column.title for column in table.columns):
        rows.insert(0, [(contents.head[0], "bold") for contents in columns])
    for row in rows:
        wrapped = [[*_wrap(pieces, wide)] for (pieces, _), wide in zip(row, widths, strict=True)]
        for lines in zip_longest(*wrapped, fillvalue=""):
            text = Text()
            cells = zip(table.columns, lines, widths, row, strict=True)
            for column, line, wide, (_, style) in cells:
                blanks = " " * (wide - cell_len(line))
                text.append(_GAP + (blanks if column.align == "right" else ""))
                text.append(line, style=style)
                text.append("" if column.align == "right" else blanks)
            text.rstrip()
            yield text


def _wrap_pieces(pieces: _Pieces, width: int, *, style: str = "") -> Text:
    """Lay out a cell; its second line is faint."""
    text = Text("\n".join(_wrap(pieces[0], width)), style=style)
    if pieces[1]:
        text.append("\n" + "\n".join(_wrap(pieces[1], width)), style="dim")
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
