"""What the commands say about runs that were changed, or whose seal was removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from commands import runner
from messages import assert_says
from preregistration.checks import criteria
from run_frames import rows, without_seal, write_run

from pact_cli.main import main

run = runner(main)
FAST = ("--resamples", "100")
COMMANDS = {
    "report": ("report", "{0}", *FAST),
    "compare": ("compare", "{0}", "{1}", *FAST),
    "arms": ("compare", "a={0}", "b={1}", *FAST),
    "sweep": ("sweep", "{0}", *FAST),
    "calibrate": ("calibrate", "{0}", "--force", "--out", "{2}/calibration.json"),
    "tables": ("paper", "--tables", "all", "{0}", "{1}", "--out", "{2}/tables", *FAST),
    "page": ("report", "{0}", "{1}", "--html", "{2}/page.html", *FAST),
    "scorecard": ("scorecard", "{2}/hypotheses.toml", "{0}", "{1}", *FAST),
}


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "hypotheses.toml").write_text(criteria(more="seeds = [1]"))
    return (
        write_run(tmp_path / "one", rows(1, families=9, k=2), arm="a", seed=1),
        write_run(tmp_path / "two", rows(2, families=9, k=2), arm="b", seed=1),
    )


def changed(run: Path) -> None:
    path = run / "predictions.parquet"
    pl.read_parquet(path).head(12).write_parquet(path)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (changed, ("predictions.parquet: changed", "sealed")),
        # A warning on stderr did not reach the page, the tables or JSON.
        pytest.param(without_seal, ("seal", "removed"), marks=pytest.mark.slow),
    ],
)
def test_a_damaged_run_ends_every_command_with_exit_code_5(
    command: str,
    damage: Callable[[Path], object],
    words: tuple[str, ...],
    two: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    damage(two[0])
    arguments = [word.format(*two, tmp_path) for word in COMMANDS[command]]
    assert_says(run(*arguments, code=5).stderr, *words)
