"""A calibrator belongs to one adapter, contract and decoding: every reader refuses another's."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from commands import runner
from messages import assert_says
from preregistration.checks import criteria
from run_frames import edit_run, other_items, rows, write_run

from pact_cli.main import main

run = runner(main)
FAST = ("--resamples", "200")
CONTRACT = {"name": "nimble", "fingerprint": "f" * 64}


def settings(adapter: str) -> dict[str, Any]:
    return {
        "adapter": {"sha256": adapter * 64, "config_sha256": "1" * 64},
        "base": {"sha256": "b" * 64},
        "contract": CONTRACT,
        "prompts_sha256": "c" * 64,
    }


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, Path]:
    """A calibration run and a holdout run of two adapters."""
    made = {}
    for seed, (arm, adapter) in enumerate([("a", "a"), ("b", "9")]):
        fitted = write_run(tmp_path / f"{arm}-cal", other_items(rows(9 + seed, families=60)))
        made[f"{arm}-cal"] = edit_run(fitted, settings=settings(adapter))
        holdout = write_run(tmp_path / arm, rows(1 + seed), arm=arm, seed=17)
        made[arm] = edit_run(holdout, settings=settings(adapter))
    return made


def calibrate(*arguments: object, code: int = 0) -> Result:
    return run("calibrate", *arguments, "--force", "--mode", "scalar", code=code)


def test_a_holdout_of_another_adapter_is_refused_and_keeps_its_calibrator(
    runs: dict[str, Path],
) -> None:
    """The NLL of B rose from 0.722 to 0.766, and the right calibrator of B was overwritten."""
    calibrate(runs["b-cal"], "--holdout", runs["b"])
    right = (runs["b"] / "calibration.json").read_bytes()
    message = calibrate(
        runs["a-cal"], "--holdout", runs["a"], "--holdout", runs["b"], code=1
    ).output
    assert_says(message, "calibrator", "another run")
    assert_says(message, "adapter:", "fitted on aaaaaaaaaaaa", "applied to 999999999999")
    assert "--allow other-adapter" in message
    assert (runs["b"] / "calibration.json").read_bytes() == right
    assert not (runs["a"] / "calibration.json").exists()


def test_what_is_allowed_is_said_and_still_does_not_overwrite(runs: dict[str, Path]) -> None:
    calibrate(runs["b-cal"], "--holdout", runs["b"])
    right = (runs["b"] / "calibration.json").read_bytes()
    arguments = (runs["a-cal"], "--holdout", runs["b"], "--allow", "other-adapter")
    message = calibrate(*arguments, code=1).output
    assert_says(message, "calibrator of another fit")
    assert "--overwrite" in message
    assert (runs["b"] / "calibration.json").read_bytes() == right
    result = calibrate(*arguments, "--overwrite")
    assert_says(result.stderr, "run of another adapter", "allowed")
    assert (runs["b"] / "calibration.json").read_bytes() != right
    assert (
        "--allow other-adapter"
        in run("compare", runs["a"], runs["b"], "--calibration", "own", code=1).output
    )


@pytest.mark.parametrize("content", ["{}", "notes"])
def test_a_file_that_is_not_a_calibrator_is_not_replaced(
    content: str, runs: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "mine.json"
    path.write_text(content)
    assert "holds another file" in calibrate(runs["a-cal"], "--out", path, code=1).output
    assert path.read_text() == content


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "a", "b", "--calibration", "own"),
        ("report", "b", "--calibration", "a/calibration.json"),
        ("report", "b", "--html", "page.html"),
        ("sweep", "b", "--calibration", "a/calibration.json"),
        ("paper", "--figures", "all", "a", "b", "--out", "figures"),
        ("paper", "--tables", "all", "a", "b", "--out", "tables"),
        ("scorecard", "hypotheses.toml", "a", "b"),
    ],
    ids=lambda command: " ".join(command[:1]) + (" --html" if "--html" in command else ""),
)
def test_every_reader_refuses_a_calibrator_of_another_adapter(
    command: tuple[str, ...],
    runs: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    hypotheses = criteria("nll_nats", decoding='"single_calibrated"')
    (tmp_path / "hypotheses.toml").write_text(hypotheses)
    calibrate(runs["a-cal"], "--holdout", runs["a"])
    shutil.copy(runs["a"] / "calibration.json", runs["b"])
    output = run(*command, *FAST, code=1).output
    assert_says(output, "adapter:", "fitted on aaaaaaaaaaaa", "applied to 999999999999")
    assert "--allow other-adapter" in output


@pytest.mark.parametrize(
    ("change", "fact", "words"),
    [
        ({"base": {"sha256": "d" * 64}}, "other-base", "base model: fitted on"),
        ({"prompts_sha256": "d" * 64}, "other-prompts", "probe prompt"),
        (
            {"contract": CONTRACT | {"fingerprint": "d" * 64}},
            "other-contract",
            "prompt contract: fitted on",
        ),
        (
            {"adapter": {"sha256": "a" * 64, "config_sha256": "2" * 64}},
            "other-adapter",
            "adapter: fitted on configuration 1",
        ),
        ({"adapter": None}, "other-adapter", "applied to none"),
    ],
)
def test_every_fact_is_compared_and_can_be_allowed(
    change: dict[str, Any], fact: str, words: str, runs: dict[str, Path]
) -> None:
    edit_run(runs["a"], settings=settings("a") | change)
    arguments = (runs["a-cal"], "--holdout", runs["a"])
    message = calibrate(*arguments, code=1).output
    assert words in message
    assert f"--allow {fact}" in message
    assert "as allowed" in calibrate(*arguments, "--allow", fact).stderr
