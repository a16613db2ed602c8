"""Reports in terminals of any width: real borders, ASCII if piped, nothing lost, nothing obeyed."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from pact_reports.table import Cell, Column, Line, Part, Row, Table
from pact_reports.writers.terminal import show, to_text

GROUPS = ("all", "choice", "score")


def metrics(**options: Any) -> Table:
    columns = [Column("", "left")]
    columns += [Column(name, "left", below="324 items, 162 fam.") for name in GROUPS]
    accuracy = [Cell("64.8", interval="[59.3, 70.1]") for _ in GROUPS]
    pairs = [Cell("43.2", interval="[35.8, 50.6]", below="of 162 pairs") for _ in GROUPS]
    mae = [Cell("–", reason="no score items"), *[Cell("0.2", mark="best") for _ in GROUPS[1:]]]
    rows = [
        Row((Cell(name), *cells))
        for name, cells in zip(
            ("Accuracy ↑", "Pair accuracy ↑", "MAE ↓"), (accuracy, pairs, mae), strict=True
        )
    ]
    return Table("t", "Metrics", "Of one run.", tuple(columns), tuple(rows), **options)


def shown(*parts: Part, width: int = 120, terminal: bool = True) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=terminal, highlight=False)
    show(console, parts)
    return file.getvalue()


@pytest.mark.parametrize("keys", [0, 1])
@pytest.mark.parametrize("width", [12, 20, 30, 45, 80, 120, 200])
def test_nothing_is_lost_in_a_narrow_terminal(width: int, keys: int) -> None:
    text = to_text(metrics(keys=keys), width=width)
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert "…" not in text
    counted = [len(re.findall(re.escape(sign), text)) for sign in "[]^"]
    # Every interval and mark; one star more in the legend, and brackets in nothing else.
    assert counted == [6, 6, 3]


@given(st.lists(st.text(max_size=12), min_size=2, max_size=2), st.integers(16, 90))
def test_text_from_data_is_neither_markup_nor_control(texts: list[str], width: int) -> None:
    name, value = texts
    table = Table(
        "t",
        name,
        value,
        (Column(name),),
        (Row((Cell(value, reason=name or "x"),)),),
        notes=(value,),
    )
    text = shown(table, Line(value), width=width, terminal=False)
    assert all(sign.isprintable() or sign in "\n\t" for sign in text)


def test_markup_is_shown_as_it_is() -> None:
    table = Table("t", "[red]a\nb", "", (Column("[/x]"),), (Row((Cell("[bold]x"),)),))
    text = to_text(table, Line("[red]line", "bad"))
    assert "[red]a\\nb" in text
    assert "[/x]" in text
    assert "[bold]x" in text
    assert "[red]line" in text


def test_wide_letters_keep_the_borders_in_line() -> None:
    table = Table("t", "", "", (Column("a", "left"),), (Row((Cell("日本語の回答です"),)),))
    for width in (9, 12, 40):
        lines = to_text(table, width=width).splitlines()
        assert len({cell_len(line) for line in lines}) == 1
        assert "".join(line.strip("|+- ") for line in lines[3:-1]) == "日本語の回答です"
