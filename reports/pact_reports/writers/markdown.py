"""Tables as Markdown, as GitHub renders it."""

from __future__ import annotations

import re
from typing import Final

from pact_eval.plain_text import one_line
from pact_reports.table import Cell, Mark, Table

_ARROW: Final = {1: " ↑", -1: " ↓", 0: ""}
_RULES: Final = {"left": ":---", "right": "---:"}
_SIGN: Final[dict[Mark, str]] = {
    "tied": " ~",
    "significant": "†",
    "clearly better": "<sup>++</sup>",
    "better": "<sup>+</sup>",
    "worse": "<sup>−</sup>",
    "clearly worse": "<sup>−−</sup>",
}
_BOLD: Final[tuple[Mark, ...]] = ("best", "significant")
_ESCAPES: Final = {
    **{sign: f"\\{sign}" for sign in "\\`*_{}[]|~$#"},
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
    # A sign of no width keeps names from being told that they were mentioned.
    "@": "@&#8203;",
}
_SPECIAL = re.compile("[" + re.escape("".join(_ESCAPES)) + "]")
_LINKS: Final = re.compile(r"(?=://)|(?<=www)(?=\.)", re.IGNORECASE)


def to_markdown(table: Table) -> str:
    r"""Write a table as Markdown: title, caption, pipes, then legend, footnotes and notes.

    Args:
        table: what to write.

    Example:
        >>> from pact_reports.table import Cell, Column, Row, Table
        >>> columns = (Column("Run", "left"), Column("Accuracy", numbers=("accuracy",), better=1))
        >>> rows = (Row((Cell("a|b"), Cell("84.6", (0.8457,), "best"))),)
        >>> print(to_markdown(Table("main", "Main results", "324 items.", columns, rows)), end="")
        ### Main results
        <BLANKLINE>
        324 items.
        <BLANKLINE>
        | Run | Accuracy ↑ |
        | :--- | ---: |
        | a\|b | **84.6** |
        <BLANKLINE>
        **Bold**: the best of its column.
    """
    reasons = table.reasons
    lines = [f"### {markdown_text(table.title)}", ""]
    if table.caption:
        lines += [markdown_text(table.caption_with_brackets), ""]
    titles = (markdown_text(column.title) + _ARROW[column.better] for column in table.columns)
    rows = [titles, (_RULES[column.align] for column in table.columns)]
    rows += [(_cell(cell, reasons) for cell in row.cells) for row in table.rows]
    lines += [f"| {' | '.join(cells)} |" for cells in rows]
    signs = {"best": "**Bold**", **{mark: sign.strip() for mark, sign in _SIGN.items()}}
    marks = [f"{signs[mark]}: {markdown_text(meaning)}" for mark, meaning in table.meanings]
    below = ["; ".join(marks)] if marks else []
    below += [f"<sup>{at}</sup> {markdown_text(why)}" for at, why in enumerate(reasons, start=1)]
    below += [markdown_text(note) for note in table.notes]
    for paragraph in below:
        lines += ["", paragraph if paragraph.endswith((".", "!", "?")) else f"{paragraph}."]
    return "\n".join(lines) + "\n"


def markdown_text(text: str) -> str:
    r"""Escape text from data: no markup, no HTML, no table, no link, and one line.

    Example:
        >>> print(markdown_text("a|b <i>_c_</i>"))
        a\|b &lt;i&gt;\_c\_&lt;/i&gt;
    """
    escaped = _SPECIAL.sub(lambda match: _ESCAPES[match[0]], one_line(text))
    return _LINKS.sub(r"\\", escaped)


def _cell(cell: Cell, reasons: tuple[str, ...]) -> str:
    text = markdown_text(cell.text)
    if cell.mark in _BOLD and text.strip():
        text = f"**{text.strip()}**"
    text += _SIGN.get(cell.mark, "") if cell.mark is not None else ""
    if cell.interval:
        text += f" {markdown_text(cell.interval)}"
    if cell.below:
        text += f" ({markdown_text(cell.below)})"
    if cell.reason is not None:
        text += f"<sup>{reasons.index(cell.reason) + 1}</sup>"
    return text
