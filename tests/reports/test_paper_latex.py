"""The list of numbers in `pact_fixtures.paper.NUMBERS`, against the LaTeX of the paper."""

from __future__ import annotations

import re
import tomllib
from typing import Final

import pytest
from needs import needs
from published import SHARED, printed_cells, shared_path
from reports.test_reproduce import numbers_of

from pact_fixtures.paper import NUMBERS

TABLES: Final = tomllib.loads(NUMBERS.read_text(encoding="utf-8"))
LABELS: Final = {
    "main": "tab:main",
    "k_views": "tab:ensemble",
    "ablations": "tab:ablation",
    "kinds": "tab:kind",
    "calibration": "tab:calibration",
    "cost": "tab:cost",
    "paired": "tab:significance",
    "splits": "tab:data",
    "training_splits": "tab:data",
}
SHADES: Final = {"helpB": "++", "helpA": "+", "hurtA": "-", "hurtB": "--"}

pytestmark = needs(f"the LaTeX of the paper (in {SHARED})", present=(SHARED / "paper.tex").exists())


@pytest.fixture(scope="module")
def latex() -> str:
    text = shared_path("paper.tex").read_text(encoding="utf-8")
    return re.sub(r"\s+", " ", text)


def rows_of(latex: str, label: str) -> list[list[str]]:
    """Return the cells of the rows of a table, without its head and its headings of groups."""
    body = latex.partition(f"\\label{{{label}}}")[2].partition("\\end{tabular}")[0]
    lines = body.split("\\midrule", 1)[1].replace("\\midrule", "").split("\\\\")
    return [line.split("&") for line in lines if "&" in line]


def numbers(text: str) -> list[str]:
    """Return the numbers of LaTeX."""
    plain = text.replace("{,}", "").replace("$", "").replace("--", " to ").replace("\\,", "")
    return numbers_of(re.sub(r"\\pm|\{,\}", " ", plain))


def test_every_table_has_a_label_or_its_words() -> None:
    assert set(TABLES) == {*LABELS} | {name for name, table in TABLES.items() if "latex" in table}


@pytest.mark.parametrize("table", list(LABELS))
def test_a_table_against_its_latex(latex: str, table: str) -> None:
    printed = [
        [number for name, cell in row.items() if name != "arm" for number in numbers_of(cell)]
        for row in printed_cells(table)
    ]
    first = 0 if table == "paired" else 1  # the first column of the others is the arm
    rows = rows_of(latex, LABELS[table])
    in_latex = [[number for cell in row[first:] for number in numbers(cell)] for row in rows]
    if LABELS[table] == "tab:data":
        kept = slice(3, None) if table == "splits" else slice(3)
        in_latex = in_latex[kept]
    assert in_latex == printed


def test_the_shades_of_the_ablations_against_the_latex(latex: str) -> None:
    printed = [
        [cell.partition(" ")[2] for name, cell in row.items() if name != "arm"]
        for row in printed_cells("ablations")
    ]
    shades = [
        [next((SHADES[s] for s in SHADES if f"{{{s}}}" in cell), "") for cell in row[1:]]
        for row in rows_of(latex, "tab:ablation")
    ]
    assert shades == printed


@pytest.mark.parametrize("table", [name for name, content in TABLES.items() if "latex" in content])
def test_numbers_of_the_text_against_its_words(latex: str, table: str) -> None:
    words = TABLES[table]["latex"]
    assert [part for part in words if part not in latex] == []
    in_words = [number for part in words for number in numbers(part)]
    for row in printed_cells(table):
        for name, cell in row.items():
            if name not in ("arm", "seed", "name"):
                assert {n.removeprefix("-") for n in numbers_of(cell)} <= {
                    n.removeprefix("-") for n in in_words
                }, (table, cell)
