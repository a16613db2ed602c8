"""Tables as LaTeX that compiles with booktabs alone."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from pact_eval.plain_text import one_line
from pact_reports.table import Cell, Column, Mark, Table

_ESCAPES: Final = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # The straight quote needs an encoding that classes do not load.
    '"': r"\textquotedblright{}",
}


_WORDS: Final = r"""
    – \textendash       — \textemdash         ‘ \textquoteleft       ’ \textquoteright
    “ \textquotedblleft ” \textquotedblright  … \ldots               § \S
    © \copyright        ß \ss                 æ \ae     Æ \AE        ø \o      Ø \O
    å \aa      Å \AA    œ \oe      Œ \OE      ł \l      Ł \L         ı \i
"""
_SYMBOLS: Final = r"""
    − -        ± \pm       × \times     ÷ \div          · \cdot        ° {}^{\circ}
    ↑ \uparrow ↓ \downarrow             → \rightarrow   ← \leftarrow
    ≤ \leq     ≥ \geq      ≠ \neq       ≈ \approx       ∞ \infty
    † \dagger  ‡ \ddagger  √ \surd      ∈ \in           ∂ \partial     ∑ \sum
    λ \lambda  α \alpha    β \beta      γ \gamma        δ \delta       ε \varepsilon
    η \eta     θ \theta    κ \kappa     μ \mu           µ \mu          π \pi
    ρ \rho     σ \sigma    τ \tau       φ \varphi       χ \chi         ψ \psi
    ω \omega   Γ \Gamma    Δ \Delta     Θ \Theta        Λ \Lambda      Π \Pi
    Σ \Sigma   Φ \Phi      Ψ \Psi       Ω \Omega
    ² {}^{2}   ³ {}^{3}    ¹ {}^{1}     ½ \frac{1}{2}
"""
_UNICODE: Final = {
    sign: form.format(command)
    for table, form in ((_WORDS.split(), "{}{{}}"), (_SYMBOLS.split(), "${}$"))
    for sign, command in zip(table[::2], table[1::2], strict=True)
}
# Combining marks: grave, acute, circumflex, tilde, macron, breve, dot, diaeresis, ring, double
# acute, caron, cedilla.
_MARKS: Final = "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327"
_ACCENTS: Final = dict(zip(_MARKS, "`'^~=u.\"rHvc", strict=True))
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 .,:;!?()\[\]/*+='`@-]")
# Ligatures that would show other signs than the data have.
_LIGATURES = re.compile(r"(?<=-)(?=-)|(?<=[`'])(?=[`'])|(?<=[?!])(?=`)")


def latex_text(text: str) -> str:
    r"""Escape text from data for LaTeX: in ASCII, nothing that acts, one line.

    Signs that LaTeX has a command for become it, accented letters too; others are named by their
    code point, since what a document's fonts have is not known here.

    Example:
        >>> print(latex_text("50% of a_b ≤ {2} – naïve \\end 中"))
        50\% of a\_b $\leq$ \{2\} \textendash{} na\"{\i}ve \textbackslash{}end [U+4E2D]
    """
    parted = _LIGATURES.sub("\0", one_line(text))
    return _NOT_PLAIN.sub(lambda match: _sign(match[0]), parted)


def _sign(sign: str) -> str:
    if sign == "\0":
        return "{}"
    replacement = _ESCAPES.get(sign) or _UNICODE.get(sign)
    if replacement is not None:
        return replacement
    letter, *marks = tuple(unicodedata.normalize("NFD", sign))
    if letter.isascii() and letter.isalpha() and len(marks) == 1 and marks[0] in _ACCENTS:
        base = f"\\{letter}" if letter in "ij" and marks[0] != "\u0327" else letter
        return f"\\{_ACCENTS[marks[0]]}{{{base}}}"
    return f"[U+{ord(sign):04X}]"


_ARROW: Final = {1: r"~$\uparrow$", -1: r"~$\downarrow$", 0: ""}
_LETTER: Final = {"left": "l", "right": "r"}
_SIGN: Final[dict[Mark, str]] = {
    "tied": r"$^{\sim}$",
    "significant": r"$^{\dagger}$",
    "clearly better": "$^{++}$",
    "better": "$^{+}$",
    "worse": "$^{-}$",
    "clearly worse": "$^{--}$",
}
_BOLD: Final[tuple[Mark, ...]] = ("best", "significant")
# Signs of eight-point text that a column of a two-column page holds, and the whole page; signs of
# seven-point text that the page holds; and how many the space between two columns takes, wide and
# narrow.
_COLUMN_SIGNS = 50
_PAGE_SIGNS = 100
_SMALL_PAGE_SIGNS = 130
_GAP_SIGNS = 3.0
_NARROW_GAP_SIGNS = 1.5
_STACKED_SIGNS = 8
_BREAK = r"\\"
# Digits of five-point Computer Modern are so wide next to those of seven points.
_SMALL_SIGN = 0.85


def to_latex(table: Table) -> str:
    r"""Write a table as a LaTeX float: bold for the best, daggers for significance, notes below.

    The caption is the title alone. What numbers rest on, intervals and marks are explained below
    the table. Intervals stand in small type under their numbers.

    Compiles with any class and engine with `\usepackage{booktabs}`: ASCII only, no colour,
    no cells over several rows. A table too wide for the page continues below, with its first column
    repeated.

    Example:
        >>> from pact_reports.table import Cell, Column, Row, Table
        >>> columns = (Column("Run", "left"), Column("Accuracy", numbers=("accuracy",), better=1))
        >>> rows = (Row((Cell("no_cf"), Cell("84.6", (0.8457,), "best"))),)
        >>> print(to_latex(Table("main", "Main results", "324 items.", columns, rows)), end="")
        % needs \usepackage{booktabs}
        \begin{table}[t]
        \centering
        \caption{Main results.}\smallskip
        \label{tab:main}
        \footnotesize
        \begin{tabular}{lr}
        \toprule
        Run & Accuracy~$\uparrow$ \\
        \midrule
        no\_cf & \textbf{84.6} \\
        \bottomrule
        \end{tabular}
        \par\smallskip
        \begin{minipage}{\linewidth}\scriptsize\raggedright
        324 items.\par
        \textbf{Bold}: the best of its column.\par
        \end{minipage}
        \end{table}
    """
    running = any(column.width for column in table.columns)
    wide = running or _signs(table, stacked=False) > _COLUMN_SIGNS
    parts = [table] if running else _parts(table)
    small = not running and max(_signs(part, stacked=True) for part in parts) > _PAGE_SIGNS
    environment = "table*" if wide else "table"
    tabulars = [_tabular(part, table.reasons, stacked=wide, small=small) for part in parts]
    lines = [
        r"% needs \usepackage{booktabs}",
        f"\\begin{{{environment}}}[t]",
        r"\centering",
        f"\\caption{{{latex_text(table.title)}.}}\\smallskip",
        f"\\label{{tab:{table.name}}}",
        r"\scriptsize" if small else r"\footnotesize",
        *([f"\\setlength{{\\tabcolsep}}{{{2 if small else 3}pt}}"] if wide else []),
        *tabulars[0],
        *(line for below in tabulars[1:] for line in (r"\par\medskip", *below)),
        *_below(table),
        f"\\end{{{environment}}}",
    ]
    return "\n".join(lines) + "\n"


def _parts(table: Table) -> list[Table]:
    """Cut a table that is too wide for small type; both parts have the columns that name a row."""
    keys = max(1, table.keys)
    if _signs(table, stacked=True) <= _SMALL_PAGE_SIGNS or len(table.columns) < keys + 2:
        return [table]
    middle = (keys + len(table.columns) + 1) // 2
    shown = (range(middle), [*range(keys), *range(middle, len(table.columns))])
    return [table.only(places) for places in shown]


def _signs(table: Table, *, stacked: bool) -> float:
    """Estimate the signs that a line of a table takes; further lines of a cell are small."""
    signs = 0.0
    for at, column in enumerate(table.columns):
        lines = _title_lines(column, stacked=stacked)
        widths: list[float] = [max(map(len, lines)) + 2 * bool(column.better)]
        for cell in (row.cells[at] for row in table.rows):
            raised = (cell.mark is not None) + (cell.reason is not None)
            small = (_SMALL_SIGN * len(line) for line in (cell.interval, cell.below))
            widths += [len(cell.text) + raised, *small]
        signs += max(widths) + (_NARROW_GAP_SIGNS if stacked else _GAP_SIGNS)
    return signs


def _title_lines(column: Column, *, stacked: bool) -> list[str]:
    """Return the lines of a column's title: in a wide table two where it is long."""
    title = column.title
    breaks = [at for at, sign in enumerate(title) if sign == " "]
    if not stacked or column.width is not None or len(title) < _STACKED_SIGNS or not breaks:
        return [title]
    middle = min(breaks, key=lambda at: abs(at - len(title) / 2))
    return [title[:middle], title[middle + 1 :]]


def _tabular(table: Table, reasons: tuple[str, ...], *, stacked: bool, small: bool) -> list[str]:
    """Write the lines of a table; its footnotes are those of `reasons`."""
    specifications, heads = "", []
    for column in table.columns:
        letter = _LETTER[column.align]
        width = f"p{{{column.width or 0:g}\\linewidth}}"
        specifications += letter if column.width is None else width
        titles = [latex_text(line) for line in _title_lines(column, stacked=stacked)]
        titles[-1] += _ARROW[column.better]
        joined = f"\\shortstack[{letter}]{{{_BREAK.join(titles)}}}"
        heads.append(titles[0] if len(titles) == 1 else joined)
    apart = any(cell.interval or cell.below for row in table.rows for cell in row.cells)
    body: list[str] = []
    for at, row in enumerate(table.rows):
        if at and (row.rule or apart):
            body.append(r"\midrule" if row.rule else r"\addlinespace[2pt]")
        body.append(_line(_cell(cell, reasons) for cell in row.cells))
        # The small texts stand below the others.
        below = ([cell.interval for cell in row.cells], [cell.below for cell in row.cells])
        for texts in filter(any, below):
            small_texts = (f"{{\\tiny {latex_text(text)}}}" if text else "" for text in texts)
            body += [_line(small_texts)]
    if small:
        body = [line.replace(r" $\pm$ ", r"$\pm$") for line in body]
    start = [f"\\begin{{tabular}}{{{specifications}}}", r"\toprule", _line(heads), r"\midrule"]
    return [*start, *body, r"\bottomrule", r"\end{tabular}"]


def _line(cells: Iterable[str]) -> str:
    line = " & ".join(cells)
    # A bracket or a star after the end of a line would be taken for its argument.
    return f"{'{}' if line.startswith(('[', '*')) else ''}{line} \\\\"


def _cell(cell: Cell, reasons: tuple[str, ...]) -> str:
    text = latex_text(cell.text)
    if cell.mark in _BOLD:
        text = f"\\textbf{{{text}}}"
    text += "" if cell.mark is None else _SIGN.get(cell.mark, "")
    return text if cell.reason is None else f"{text}$^{{{reasons.index(cell.reason) + 1}}}$"


def _below(table: Table) -> list[str]:
    """Write the notes: what numbers rest on, marks, reasons of gaps, and further notes."""
    signs = {"best": r"\textbf{Bold}", **_SIGN}
    lines = [latex_text(table.caption_with_brackets)] if table.caption_with_brackets else []
    marks = [f"{signs[mark]}: {latex_text(meaning)}" for mark, meaning in table.meanings]
    lines += ["; ".join(marks)] if marks else []
    lines += [f"$^{{{at}}}${latex_text(why)}" for at, why in enumerate(table.reasons, start=1)]
    lines += [latex_text(note) for note in table.notes]
    ended = [f"{line.removesuffix('.')}.\\par" for line in lines]
    start = [r"\par\smallskip", r"\begin{minipage}{\linewidth}\scriptsize\raggedright"]
    return [*start, *ended, r"\end{minipage}"] if ended else []
