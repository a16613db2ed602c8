"""Tables as LaTeX that compiles with booktabs alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pact_reports.documents.latex_text import latex_text
from pact_reports.documents.model import Cell, Column, Mark, Row, Table

__all__ = ["to_latex"]

_ARROW: Final = {1: r"~$\uparrow$", -1: r"~$\downarrow$", 0: ""}
_LETTER: Final = {"left": "l", "right": "r", "center": "c"}
_SIGN: Final[dict[Mark, str]] = {
    "significant": r"$^{\dagger}$",
    "clearly better": "$^{++}$",
    "better": "$^{+}$",
    "worse": "$^{-}$",
    "clearly worse": "$^{--}$",
}
_BOLD: Final[tuple[Mark, ...]] = ("best", "significant")
# More columns than this want both columns of a page.
_NARROW = 6


def to_latex(table: Table) -> str:
    r"""Write a table as a LaTeX float: bold for the best, daggers for significance.

    Compiles with any class and engine where `\usepackage{booktabs}` stands: ASCII alone, no colour,
    no cells over several rows.

    Example:
        >>> from pact_reports.documents.model import Cell, Column, Row, Table
        >>> columns = (Column("Run", "left"), Column("Accuracy", numbers=("accuracy",), better=1))
        >>> rows = (Row((Cell("no_cf"), Cell("84.6", (0.8457,), "best"))),)
        >>> print(to_latex(Table("main", "Main results", "324 items.", columns, rows)), end="")
        % needs \usepackage{booktabs}
        \begin{table}[t]
        \centering
        \caption{Main results. 324 items. \textbf{Bold}: the best of its column.}
        \label{tab:main}
        \footnotesize
        \begin{tabular}{lr}
        \toprule
        Run & Accuracy~$\uparrow$ \\
        \midrule
        no\_cf & \textbf{84.6} \\
        \bottomrule
        \end{tabular}
        \end{table}
    """
    running = any(column.width for column in table.columns)
    wide = running or len(table.columns) > _NARROW
    environment = "table*" if wide else "table"
    reasons = table.reasons
    lines = [
        r"% needs \usepackage{booktabs}",
        f"\\begin{{{environment}}}[t]",
        r"\centering",
        f"\\caption{{{_caption(table)}}}",
        f"\\label{{tab:{table.name}}}",
        r"\footnotesize",
        f"\\begin{{tabular}}{{{''.join(map(_specification, table.columns))}}}",
        r"\toprule",
        _line(_head(column) for column in table.columns),
        r"\midrule",
        *(line for at, row in enumerate(table.rows) for line in _row(row, reasons, first=at == 0)),
        r"\bottomrule",
        r"\end{tabular}",
        *_below(table),
        f"\\end{{{environment}}}",
    ]
    return "\n".join(lines) + "\n"


def _caption(table: Table) -> str:
    parts = [f"{latex_text(table.title)}.", *([latex_text(table.caption)] if table.caption else [])]
    signs = {"best": r"\textbf{Bold}", **_SIGN}
    said = [f"{signs[mark]}: {latex_text(table.meaning(mark))}" for mark in table.marks]
    return " ".join([*parts, *([f"{'; '.join(said)}."] if said else [])])


def _specification(column: Column) -> str:
    if column.width is None:
        return _LETTER[column.align]
    return f"p{{{column.width:g}\\linewidth}}"


def _head(column: Column) -> str:
    return latex_text(column.title) + _ARROW[column.better]


def _line(cells: Iterable[str]) -> str:
    line = " & ".join(cells)
    # A bracket or a star after the end of a line would be taken for its argument.
    return f"{'{}' if line.startswith(('[', '*')) else ''}{line} \\\\"


def _row(row: Row, reasons: tuple[str, ...], *, first: bool) -> list[str]:
    rule = [r"\midrule"] if row.rule and not first else []
    return [*rule, _line(_cell(cell, reasons) for cell in row.cells)]


def _cell(cell: Cell, reasons: tuple[str, ...]) -> str:
    text = latex_text(cell.text)
    if cell.mark in _BOLD:
        text = f"\\textbf{{{text}}}"
    if cell.mark is not None:
        text += _SIGN.get(cell.mark, "")
    if cell.reason is not None:
        text += f"$^{{{_letter(reasons.index(cell.reason))}}}$"
    return text


def _below(table: Table) -> list[str]:
    lines = [f"$^{{{_letter(at)}}}${latex_text(reason)}" for at, reason in enumerate(table.reasons)]
    lines += [latex_text(note) for note in table.notes]
    if not lines:
        return []
    ended = [line if line.endswith(".") else f"{line}." for line in lines]
    return (
        [r"\par\smallskip", r"\begin{minipage}{\linewidth}\scriptsize\raggedright"]
        + [f"{line}\\par" for line in ended]
        + [r"\end{minipage}"]
    )


def _letter(number: int) -> str:
    return str(number + 1)
