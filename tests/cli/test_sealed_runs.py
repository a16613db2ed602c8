"""What the commands say about runs that were changed, or whose seal was removed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result
from messages import assert_says
from preregistration.checks import criteria
from run_frames import rows, without_seal, write_run

from pact_cli.main import main

COMMANDS = {
    "report": ("report", "{0}", "--resamples", "100"),
    "compare": ("compare", "{0}", "{1}", "--resamples", "100"),
    "arms": ("compare", "--arms", "a={0}", "b={1}", "--resamples", "100"),
    "sweep": ("report", "--views", "{0}", "--resamples", "100"),
    "calibrate": ("calibrate", "{0}", "--force", "--out", "{2}/calibration.json"),
    "tables": (
        "paper",
        "--tables",
        "all",
        "{0}",
        "{1}",
        "--out",
        "{2}/tables",
        "--resamples",
        "100",
    ),
    "page": ("report", "{0}", "{1}", "--html", "{2}/page.html", "--resamples", "100"),
    "scorecard": ("scorecard", "{2}/hypotheses.toml", "{0}", "{1}", "--resamples", "100"),
}


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "hypotheses.toml").write_text(criteria(more="seeds = [1]"))
    return (
        write_run(tmp_path / "one", rows(1, families=9, k=2), arm="a", seed=1),
        write_run(tmp_path / "two", rows(2, families=9, k=2), arm="b", seed=1),
    )


def run(command: str, two: tuple[Path, Path], tmp_path: Path) -> Result:
    words = [word.format(*two, tmp_path) for word in COMMANDS[command]]
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_changed_run_ends_every_command_with_exit_code_5(
    command: str, two: tuple[Path, Path], tmp_path: Path
) -> None:
    path = two[0] / "predictions.parquet"
    pl.read_parquet(path).head(12).write_parquet(path)
    result = run(command, two, tmp_path)
    assert result.exit_code == 5, result.output
    assert_says(result.stderr, "predictions.parquet: changed", "sealed")
    assert "Traceback" not in result.output


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_without_its_seal_is_refused(
    command: str, two: tuple[Path, Path], tmp_path: Path
) -> None:
    # A warning on stderr did not reach the page, the tables or JSON.
    without_seal(two[0])
    result = run(command, two, tmp_path)
    assert result.exit_code == 5, result.output
    assert_says(result.stderr, "seal", "removed")
