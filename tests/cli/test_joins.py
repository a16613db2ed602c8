"""Runs that do not belong together. Source of truth: the facts that a comparison holds fixed.

The same ids on emptied contexts gave 25 points of accuracy, with exit code 0.
"""

from __future__ import annotations

import json
import shutil
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from commands import runner
from run_frames import edit_run, rows, write_run

from pact_cli.main import main

run = runner(main)
SETTINGS: dict[str, Any] = {
    "data": {"sha256": "d" * 64},
    "adapter": {"sha256": "a" * 64, "config_sha256": "c" * 64},
    "base": {"sha256": "b" * 64, "config_sha256": "c" * 64},
    "contract": {"name": "nimble", "fingerprint": "f" * 64},
    "prompts_sha256": "e" * 64,
}
OTHER: dict[str, dict[str, Any]] = {
    "other-data": {"data": {"sha256": "0" * 64}},
    "other-base": {"base": {"sha256": "0" * 64}},
    "other-contract": {"contract": {"name": "nimble", "fingerprint": "0" * 64}},
    "other-prompts": {"prompts_sha256": "0" * 64},
}
CRITERIA = Path(__file__).parents[2] / "pact_eval" / "preregistration" / "example.toml"


def folders(home: Path, change: dict[str, Any]) -> tuple[Path, Path]:
    a, b = (
        write_run(home / arm, rows(seed, families=9, k=3), arm=arm, seed=1)
        for seed, arm in enumerate(("method", "baseline"))
    )
    edit_run(a, source="score", settings=SETTINGS)
    edit_run(b, source="score", settings=SETTINGS | {"adapter": {"sha256": "9" * 64}} | change)
    return a, b


def test_another_adapter_and_k_are_no_reason_to_refuse(tmp_path: Path) -> None:
    run("compare", *folders(tmp_path, {}), "--resamples", 100)


@pytest.mark.parametrize("allowance", OTHER)
def test_runs_that_do_not_belong_together_are_refused(tmp_path: Path, allowance: str) -> None:
    a, b = folders(tmp_path, OTHER[allowance])
    message = run("compare", a, b, "--resamples", 100, code=1).stderr
    assert "do not belong together" in message
    assert f"--allow {allowance}" in message


def test_what_is_allowed_is_compared_with_a_caution(tmp_path: Path) -> None:
    a, b = folders(tmp_path, OTHER["other-data"])
    result = run("compare", a, b, "--resamples", 100, "--allow", "other-data")
    assert "Caution: " in result.stdout
    assert ", as allowed" in result.stdout


@pytest.mark.parametrize("twin", ["itself", "a copy", "a copy under another name and seed"])
def test_a_run_next_to_its_own_predictions_is_called_one_run(tmp_path: Path, twin: str) -> None:
    a = write_run(tmp_path / "a", rows(1, families=9, k=3), arm="method", seed=1)
    b = a if twin == "itself" else Path(shutil.copytree(a, tmp_path / "b"))
    if "seed" in twin:
        edit_run(b, arm="baseline", seed=2)
    words = ("compare", a, b, "--resamples", 100)
    (warning,) = json.loads(run(*words, "--json").stdout)["warnings"]
    assert (warning["kind"], warning["first"], warning["other"]) == ("SameRun", str(a), str(b))
    gate = run(*words, "--gate", "--margin", "0.5", "--json")
    assert [one["kind"] for one in json.loads(gate.stdout)["warnings"]] == ["SameRun"]


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "{a}", "{b}"),
        ("compare", "x={a}", "y={b}"),
        ("scorecard", CRITERIA, "{a}", "{b}"),
        ("paper", "--tables", "all", "{a}", "{b}", "--out", "{out}"),
        ("paper", "--figures", "all", "{a}", "{b}", "--out", "{out}"),
        ("report", "{a}", "{b}", "--html", "{out}.html"),
    ],
)
def test_every_command_that_joins_runs_refuses(tmp_path: Path, command: tuple[object, ...]) -> None:
    a, b = folders(tmp_path, OTHER["other-data"])
    words = [str(word).format(a=a, b=b, out=tmp_path / "out") for word in command]
    assert "--allow other-data" in run(*words, "--resamples", 100, code=1).stderr
    assert not (tmp_path / "out").exists()


def test_an_import_does_not_know_its_dataset(tmp_path: Path) -> None:
    a, b = folders(tmp_path, OTHER["other-data"])
    edit_run(b, source="import")
    run("compare", a, b, "--resamples", 100)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_run_that_records_less_opens_no_door(tmp_path: Path, order: tuple[int, ...]) -> None:
    # With an import in front, two runs on different data were compared: H1 SUPPORTED, exit code 0.
    a, b = folders(tmp_path, OTHER["other-data"])
    third = edit_run(
        write_run(tmp_path / "import", rows(5, families=9, k=3), arm="third", seed=1),
        source="import",
    )
    runs = [(a, b, third)[place] for place in order]
    words = [f"{name}={folder}" for name, folder in zip("xyz", runs, strict=True)]
    message = run("compare", *words, "--resamples", 100, code=1).stderr
    assert "--allow other-data" in message
