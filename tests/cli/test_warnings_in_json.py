"""Warnings in `--json`. Source of truth: the warnings that the same command prints to stderr."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from run_frames import edit_run, other_items, rows, write_run

from pact_cli.main import main
from pact_eval.calibration.temperatures import Calibrator, Weights, write_calibrator

RESAMPLES = ("--resamples", "100")
CRITERIA = Path(__file__).parents[2] / "pact_eval" / "preregistration" / "example.toml"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs on two datasets with calibrators of unknown runs, one run of another role, one file."""
    monkeypatch.chdir(tmp_path)
    for seed, arm in enumerate(("method", "baseline")):
        folder = write_run(tmp_path / arm, rows(seed, families=9, k=2), arm=arm, seed=1)
        edit_run(folder, source="score", settings={"data": {"sha256": str(seed) * 64}})
        weights = Weights((1.0, 1.0, 1.0), 0.0, 0.0)
        write_calibrator(folder / "calibration.json", Calibrator("scalar", weights, None))
    fitted = write_run(tmp_path / "fitted", other_items(rows(9, families=9, k=2)), arm="c", seed=1)
    edit_run(fitted, role="calibration")
    (tmp_path / "page.html").write_text("")
    return tmp_path


ALLOW = ("--allow", "other-data")
COMMANDS = {
    "report": (("report", "method", "--calibration", "method/calibration.json"), {"UnknownRun"}),
    "report of several": (("report", "method", "fitted", "page.html"), {"SkippedRun"}),
    "report of one and a file": (("report", "method", "page.html"), set()),
    "compare": (("compare", "method", "baseline", *ALLOW), {"Incompatibility"}),
    "calibrated": (
        ("compare", "method", "baseline", *ALLOW, "--calibration", "own"),
        {"UnknownRun"},
    ),
    "arms": (("compare", "a=method", "b=baseline", *ALLOW), {"Incompatibility"}),
    "views": (
        ("sweep", "method", "--calibration", "method/calibration.json"),
        {"UnknownRun"},
    ),
    "scorecard": (("scorecard", str(CRITERIA), "method", "baseline", *ALLOW), {"Incompatibility"}),
    "figures": (
        ("paper", "method", "fitted", "page.html", "--out", "figures", "--figures", "reliability"),
        {"SkippedRun", "UnknownRun"},
    ),
    "tables": (
        ("paper", "method", "fitted", "page.html", "--out", "tables", "--tables", "main"),
        {"SkippedRun", "UnknownRun"},
    ),
    "page": (("report", "method", "fitted", "--html", "out.html"), {"SkippedRun"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_json_has_every_warning_of_stderr(home: Path, name: str) -> None:
    command, kinds = COMMANDS[name]
    result = CliRunner().invoke(main, [*command, *RESAMPLES, "--json"])
    assert result.exit_code == 0, result.output
    output = json.loads(result.stdout)
    warnings = list(warnings_of(output))
    printed = warned(result)
    assert sorted(warning["text"] for warning in warnings) == sorted(printed)
    assert printed
    assert kinds <= {warning["kind"] for warning in warnings}
    if "page.html" in command:
        assert "SkippedFile" in {warning["kind"] for warning in warnings}


def warned(result: Result) -> list[str]:
    """Returns the warnings on stderr; progress bars are there too."""
    start = "Warning: "
    lines = result.stderr.splitlines()
    return [line.removeprefix(start) for line in lines if line.startswith(start)]


def warnings_of(output: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the warnings of an output, and those of each of its runs."""
    yield from output["warnings"]
    for run in output.get("runs", ()):
        yield from run["warnings"]
