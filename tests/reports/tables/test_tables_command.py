"""`pact-eval paper --tables` as a user meets it."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import runner
from messages import assert_says
from preregistration.checks import criteria
from reports.tables.table_runs import run_of, share
from run_frames import edit_run

from pact_cli.main import main
from pact_reports.tables.registry import TABLES

pytestmark = pytest.mark.slow

run = runner(main, "paper", "--tables", "all")


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [
        run_of(tmp_path / f"{arm}-17", share(right, 60), arm=arm, seed=17, k=2)
        for arm, right in (("a", 45), ("b", 30))
    ]


def test_every_format_and_one_report(folders: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "made" / "tables"
    result = run(*folders, "-o", out)
    left_out = ("scorecard", "calibration", "gates", "costs", "selection", "tuning")
    names = [name for name in TABLES if name not in left_out]
    files = {f"{name}{ending}" for name in names for ending in (".tex", ".md", ".csv")}
    assert {path.name for path in out.iterdir()} == files | {"report.md"}
    assert result.stdout.split() == [
        str(out / f"{name}{ending}") for name in names for ending in (".tex", ".md", ".csv")
    ] + [str(out / "report.md")]
    assert_says(result.stderr, "scorecard: left out", "no criteria")
    assert_says(result.stderr, "calibration: left out", "no run", "calibrator")
    report = (out / "report.md").read_text(encoding="utf-8")
    lines = [line for line in report.splitlines() if line]
    assert lines[:4] == ["# Report", "## Runs", "- a: seed 17", "- b: seed 17"]
    for name in names:  # the report has each note once, so only the rows are those of the file
        lines = (out / f"{name}.md").read_text(encoding="utf-8").splitlines()
        table = [line for line in lines if line.startswith("|")]
        assert "\n".join(table) in report
    assert "## Left out\n\n- scorecard: " in report
    with (out / "paired.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["only A right (items)"] == "15"
    assert float(row["A - B (fraction, single)"]) == 0.25


def test_only_some_in_one_format(folders: list[Path], tmp_path: Path) -> None:
    run(*folders, "-o", tmp_path / "out", "--tables", "main, paired", "--format", "csv")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"main.csv", "paired.csv"}


def test_json_alone_on_stdout(folders: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(*folders, "-o", out, "--tables", "main,scorecard", "--format", "latex", "--json")
    value = json.loads(result.stdout)
    assert value.pop("answer")["data"]["status"] == "not checked"
    assert_says(
        value["skipped"].pop("table scorecard"), "no criteria", "--criteria HYPOTHESES.toml"
    )
    assert value == {
        "files": {"tables": {"main": [str(out / "main.tex")]}},
        "skipped": {},
        "notes": {},
        "warnings": [],
    }


def test_the_scorecard_and_a_registration_that_came_too_late(
    folders: list[Path], tmp_path: Path
) -> None:
    path, out = tmp_path / "h.toml", tmp_path / "out"
    path.write_text(criteria())
    options = ("-o", out, "--tables", "scorecard", "--criteria", path)
    run(*folders, *options)
    text = (out / "scorecard.md").read_text(encoding="utf-8")
    (row,) = (line for line in text.splitlines() if line.startswith("| H1 |"))
    *_, check, verdict, shown, _ = (cell.strip() for cell in row.split("|"))
    assert (verdict, shown) == ("SUPPORTED", "shown")
    assert re.search(r"\(\+25.0 \\\[\+\d+.\d, \+\d+.\d\\\] at seed 17", check)
    assert_says(check, "accuracy is higher", "holds, shown", "points", "items", "families")
    assert_says(text, "95% score interval", "differences of rates")
    assert "Registration: NOT REGISTERED" in text
    runner(main)("register", path)
    for folder in folders:
        edit_run(folder, source="score", created="2001-01-01T00:00:00+00:00")
    late = run(*folders, *options, code=5)
    assert "REGISTERED AFTER THE RUNS" in late.stderr
    assert "REGISTERED AFTER THE RUNS" in (out / "scorecard.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--tables", "mian"), 2, "--tables: expected one or more of splits, main, paired,"),
        (("--tables", ""), 2, "got none"),
        (
            ("--format", "pdf"),
            2,
            "--format: expected one or more of latex, markdown, csv; got 'pdf'",
        ),
        (
            ("--tables", "calibration"),
            1,
            "no table could be made\ntable calibration: left out: no run",
        ),
        (("--method", "c"), 1, "no run of arm 'c'; there are a, b"),
        (("--criteria", "none.toml"), 1, "none.toml: no such file"),
        (("--data", "nowhere"), 1, "nowhere: no such folder"),
    ],
)
def test_what_cannot_be_done_is_said(
    folders: list[Path], tmp_path: Path, options: tuple[str, ...], code: int, message: str
) -> None:
    result = run(*folders, "-o", tmp_path / "out", *options, code=code)
    assert message in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_place_of_the_folder(folders: list[Path], tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    result = run(*folders, "-o", tmp_path / "out", "--tables", "main", code=1)
    assert_says(result.stderr, "expected a folder", "got a file")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from pact_cli.main import main\n"
        "try:\n    main(['paper', '--help-all'])\nexcept SystemExit:\n    pass\n"
        "assert not {'numpy', 'polars', 'scipy'} & set(sys.modules), 'heavy'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--criteria" in done.stdout
