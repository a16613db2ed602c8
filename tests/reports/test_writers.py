"""The writers: what data can put into a cell stays a cell."""

from __future__ import annotations

import csv
import io
import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pact_eval.plain_text import one_line
from pact_reports.table import MARKS, Cell, Column, Mark, Row, Table
from pact_reports.writers.csv import csv_text, to_csv
from pact_reports.writers.latex import latex_text, to_latex
from pact_reports.writers.markdown import to_markdown

HOSTILE = (
    "",
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "＝1",
    "a|b",
    "\\",
    "\\|",
    "a\\",
    "`x|y`",
    "[a](http://b)",
    "![a](b)",
    "<script>alert(1)</script>",
    "&lt;",
    "&#124;",
    "**bold** _it_ ~~no~~",
    "line\nbreak\r\n\u2028x",
    "$x_1^2$ 100% #1 {a} ~",
    "\\end{table} \\input{x}",
    "--- ``a'' ?`",
    "≤ ↑ – é Å ı 中 \U0001f600 \u202e",
    "\ud800",
    "www.example.org http://example.org a@b.c @user",
    'say "x", y',
    "'",
)
ANY_TEXT = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(),
    st.text(alphabet="\\|`*_{}[]()<>&$%#~^\"'=+-@!\n ab"),
)


def table_of(texts: list[list[str]], mark: Mark | None = None) -> Table:
    columns = tuple(Column(f"c{at}", "left") for at in range(len(texts[0])))
    rows = tuple(Row(tuple(Cell(text, mark=mark) for text in row)) for row in texts)
    return Table("t", "Title", "", columns, rows)


GRIDS = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(ANY_TEXT, min_size=width, max_size=width), min_size=1, max_size=3
    )
)


@given(GRIDS)
def test_csv_gives_every_cell_back(texts: list[list[str]]) -> None:
    written = to_csv(table_of(texts))
    assert "\n" not in written.replace("\r\n", "")
    head, *rows = csv.reader(io.StringIO(written, newline=""), strict=True)
    # A row of one empty field is written as such, not as an empty line.
    assert [head, *rows] == [
        [f"c{at}" for at in range(len(texts[0]))],
        *([csv_text(text) for text in row] for row in texts),
    ]


@given(ANY_TEXT)
def test_csv_text_is_no_formula_and_else_unchanged(text: str) -> None:
    field = csv_text(text)
    assert not field.lstrip().startswith(tuple("=+-@＝＋－＠"))
    assert field.removeprefix("'") == one_line(text).removeprefix("'")


@given(GRIDS, st.sampled_from([None, *MARKS]))
@example([["a\\", "\\|"]], None)
def test_markdown_rows_keep_their_columns(texts: list[list[str]], mark: Mark | None) -> None:
    lines = to_markdown(table_of(texts, mark)).split("\n")
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == len(texts) + 2
    for row in rows:
        unescaped = re.findall(r"(?<!\\)(?:\\\\)*\|", row)
        assert len(unescaped) == len(texts[0]) + 1


@given(GRIDS)
def test_markdown_shows_every_cell_as_it_is(texts: list[list[str]]) -> None:
    """A renderer of others reads back what was written."""
    shown = rendered_cells(to_markdown(table_of(texts)))
    assert shown == [[one_line(text).strip(" ") for text in row] for row in texts]


def rendered_cells(text: str) -> list[list[str]]:
    """Returns the cells of the body of a table; fails on any markup or HTML in one."""
    rows: list[list[str]] = []
    inside = False
    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(text):
        if token.type == "tr_open":
            rows.append([])
        inside = {"td_open": True, "td_close": False}.get(token.type, inside)
        if token.type == "inline" and inside:
            children = token.children or []
            assert {child.type for child in children} <= {"text", "text_special"}
            rows[-1].append("".join(child.content for child in children).replace("\u200b", ""))
    return [row for row in rows if row]


LATEX_TOKENS = re.compile(
    r"""(?: [A-Za-z0-9 .,:;!?()\[\]/*+='`@-]
        | \\[&%$\#_{}]
        | \\[A-Za-z]+\{\}
        | \$(?:\\[A-Za-z]+|-|\{\}\^\{(?:\\circ|[0-9])\}|\\frac\{1\}\{2\})\$
        | \\[`'^~=u.vHrc"]\{(?:[A-Za-z]|\\[ij])\}
        | \{\}
    )*""",
    re.VERBOSE,
)


@given(ANY_TEXT)
def test_latex_text_holds_nothing_that_acts(text: str) -> None:
    written = latex_text(text)
    assert written.isascii()
    assert LATEX_TOKENS.fullmatch(written), written


@given(GRIDS, st.sampled_from([None, *MARKS]))
def test_latex_rows_keep_their_columns_and_braces(
    texts: list[list[str]], mark: Mark | None
) -> None:
    written = to_latex(table_of(texts, mark))
    bodies = [part.split("\\bottomrule")[0] for part in written.split("\\midrule\n")[1:]]
    gaps = []
    for body in bodies:
        plain = re.sub(r"\\[&%$#_{}]", "", body)
        in_rows = [row.count("&") for row in plain.splitlines()]
        assert in_rows == in_rows[:1] * len(texts)
        gaps.append(in_rows[0])
    # A table that continues below repeats its first column.
    assert sum(gaps) == len(texts[0]) - 1
    depth = 0
    for sign in re.sub(r"\\[{}]", "", written):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0
    assert depth == 0
    assert written.isascii()


def test_a_table_wider_than_the_page_continues_below() -> None:
    columns = (Column("Arm", "left"), *(Column(f"m{at}", numbers=("n",)) for at in range(12)))
    cells = (Cell("pact"), *(Cell(f"{at}.123456789", (1.0,)) for at in range(10)))
    last = (Cell("–", reason="no views"), Cell("–", reason="no pairs"))
    table = Table("t", "T", "", columns, (Row((*cells, *last)),))
    latex = to_latex(table)
    assert latex.count("\\begin{table*}") == latex.count("\\caption") == 1
    upper, lower = latex.split("\\begin{tabular}")[1:]
    for part, first in ((upper, 0), (lower, 6)):
        heads = ["Arm", *(f"m{at}" for at in range(first, first + 6))]
        assert f"{' & '.join(heads)} \\\\" in part
    assert "pact & 6.123456789 &" in lower
    assert "$^{1}$ & \\textendash{}$^{2}$ \\\\" in lower
    assert "$^{1}$no views.\\par\n$^{2}$no pairs.\\par" in lower


def test_latex_does_not_take_a_bracket_for_an_argument() -> None:
    """`\\\\` reads a bracket or a star that follows it, over the end of the line."""
    written = to_latex(table_of([["a"], ["[1, 2]"], ["*"]]))
    assert "\n{}[1, 2] \\\\\n{}* \\\\\n" in written


def test_captions_and_heads_are_escaped_too() -> None:
    table = Table(
        "t", "a_b|c", "50% <b>", (Column("x|_y", "left"),), (Row((Cell("–", reason="a_b"),)),)
    )
    assert "\\caption{a\\_b\\textbar{}c.}" in to_latex(table)
    assert "\n50\\% \\textless{}b\\textgreater{}.\\par" in to_latex(table)
    assert "$^{1}$a\\_b.\\par" in to_latex(table)
    markdown = to_markdown(table)
    assert "### a\\_b\\|c\n\n50% &lt;b&gt;\n\n| x\\|\\_y |" in markdown
    assert "| –<sup>1</sup> |" in markdown
    assert "<sup>1</sup> a\\_b." in markdown


def test_csv_numbers_are_whole_and_gaps_are_empty() -> None:
    columns = (Column("n", numbers=("low", "high")), Column("m", numbers=("m",)))
    rows = (
        Row((Cell("0.3", (0.1 + 0.2, math.nan)), Cell("–", reason="no items, =none"))),
        Row((Cell("∞", (math.inf, -0.5)), Cell("3", (3,)))),
    )
    lines = to_csv(Table("t", "T", "", columns, rows)).split("\r\n")
    assert lines[:2] == ["low,high,m,notes", '0.30000000000000004,,,"m: no items, =none"']
    assert lines[2:] == ["inf,-0.5,3,", ""]


def test_rows_that_do_not_fit_are_refused() -> None:
    columns = (Column("n", numbers=("n",)),)
    with pytest.raises(ValueError, match="row 1: expected 1 cells, got 2"):
        Table("t", "T", "", columns, (Row((Cell("1"), Cell("2"))),))
    with pytest.raises(ValueError, match="row 1, n: expected 1 numbers, got 2"):
        Table("t", "T", "", columns, (Row((Cell("1", (1, 2)),)),))
