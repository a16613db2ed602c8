"""`pact-eval paper --tables` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import runner
from messages import assert_says
from preregistration.checks import criteria
from reports.tables.table_runs import run_of, share
from run_frames import edit_run

from pact_cli.main import main

run = runner(main, "paper", "--tables", "all")


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [
        run_of(tmp_path / f"{arm}-17", share(right, 60), arm=arm, seed=17, k=2)
        for arm, right in (("a", 45), ("b", 30))
    ]


def test_the_scorecard_and_a_registration_that_came_too_late(
    folders: list[Path], tmp_path: Path
) -> None:
    path, out = tmp_path / "h.toml", tmp_path / "out"
    path.write_text(criteria())
    options = ("-o", out, "--tables", "scorecard", "--criteria", path)
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
