"""The page "Reproduce the paper": its commands as typed, against the numbers that the paper prints.

They run on a made result folder in a plain clone, and on the published records where these are.
"""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from published import printed_cells
from released_results import write_result_folder

from pact_cli.main import main

_REPOSITORY = Path(__file__).resolve().parents[2]


def commands() -> list[list[str]]:
    page = (_REPOSITORY / "docs" / "reproduce.md").read_text(encoding="utf-8")
    block = page.partition("<!-- reproduce -->")[2].partition("<!-- /reproduce -->")[0]
    return [shlex.split(line) for line in block.strip().splitlines()]


@pytest.fixture(scope="module")
def made(experiment_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which both commands of the page have run."""
    home = tmp_path_factory.mktemp("reproduce")
    write_result_folder(experiment_files, home / "paper" / "results")
    (home / "fixtures").symlink_to(_REPOSITORY / "fixtures")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        for program, *words in commands():
            assert program == "pact-eval"
            result = CliRunner().invoke(main, words, catch_exceptions=False)
            assert result.exit_code == 0, result.output
    return home


def rows_of(made: Path, table: str) -> dict[tuple[str, ...], dict[str, str]]:
    """Return the cells of a Markdown table by its first columns that are no numbers."""
    lines = [
        line
        for line in (made / "paper-tables" / f"{table}.md").read_text().splitlines()
        if line.startswith("|")
    ]
    head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {
        tuple(cells[:2]): dict(zip(head, (plain(cell) for cell in cells), strict=True))
        for cells in body
    }


def plain(cell: str) -> str:
    """Return a cell without bold, notes and escapes."""
    return re.sub(r"<sup>.*?</sup>|\*\*|\\", "", cell).strip()


COLUMNS = {
    "main": {
        "accuracy": "Accuracy ↑",
        "pair_accuracy": "Pair accuracy ↑",
        "nll": "NLL ↓",
        "brier": "Brier ↓",
        "ece": "ECE ↓",
        "ece_after": "ECE after T(x) ↓",
        "aurc": "AURC ↓",
        "score_mae": "Score MAE ↓",
    },
    "k_views": {
        "accuracy": "Accuracy ↑",
        "pair_accuracy": "Pair accuracy ↑",
        "flips": "Flips ↓",
    },
}


@pytest.mark.parametrize("table", list(COLUMNS))
def test_the_tables_of_arms_against_the_paper(made: Path, table: str) -> None:
    found = rows_of(made, "views" if table == "k_views" else table)
    by_arm = {plain(arm): cells for (arm, _), cells in found.items()}
    compared = 0
    for printed in printed_cells(table):
        for name, title in COLUMNS[table].items():
            if printed[name] not in ("–", ""):
                assert by_arm[printed["arm"]][title] == printed[name], (printed["arm"], name)
                compared += 1
    assert compared >= 3 * len(by_arm)


def test_every_table_and_figure_of_the_page_is_made(made: Path) -> None:
    page = (_REPOSITORY / "docs" / "reproduce.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| [^|]+ \| `([a-z-]+)` \|", page, re.MULTILINE)
    assert len(listed) == 8
    for name in listed[:6]:
        for ending in ("tex", "md", "csv"):
            assert (made / "paper-tables" / f"{name}.{ending}").stat().st_size > 100
    for name in listed[6:]:
        assert list((made / "paper-figures").glob(f"{name}*.svg"))


def test_the_verdicts_of_the_paper(made: Path) -> None:
    with (made / "paper-tables" / "scorecard.csv").open(encoding="utf-8", newline="") as file:
        verdicts = {row["H"]: row["Verdict"] for row in csv.DictReader(file)}
    assert verdicts == {
        "H1": "INCONCLUSIVE",
        "H2": "SUPPORTED",
        "H3": "PARTLY TESTED",
        "H4": "PARTLY SUPPORTED",
        "H5": "SUPPORTED",
    }
