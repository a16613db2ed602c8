"""Tables in narrow terminals, against the text they were made of."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from pact_reports.writers.terminal import new_table, whole

CELLS = ("pact_full", "-0.153 [-0.241, -0.069] *", "p = 0.522")


@pytest.mark.parametrize("width", [20, 30, 45, 120])
def test_every_sign_of_every_cell_is_there(width: int) -> None:
    table = new_table("arm", "A - B", "McNemar", plain=True)
    table.add_row(*CELLS)
    file = io.StringIO()
    Console(file=file, width=width).print(whole(table))
    lines = [line for line in file.getvalue().splitlines() if line.startswith("|")]
    columns = zip(*(line.strip("|").split("|") for line in lines), strict=True)
    for title, text, column in zip(("arm", "A - B", "McNemar"), CELLS, columns, strict=True):
        shown = "".join(part.replace(" ", "") for part in column)
        assert shown == (title + text).replace(" ", "")


def test_titles_are_one_line_and_no_markup() -> None:
    table = new_table("a column that is wide", plain=True, title="[red]a\nb")
    file = io.StringIO()
    Console(file=file, width=60).print(table)
    assert file.getvalue().splitlines()[0].strip() == "[red]a\\nb"
