"""Experiments on one machine, with real trainers, as a user meets them."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import runner
from experiments.plans import COMMAND, started, wait_until, write_plan, write_whole_plan
from experiments.test_running import all_gone
from messages import assert_says

from pact_cli.main import main
from pact_eval.preregistration.registration import lock_path, register

pytestmark = [pytest.mark.slow, pytest.mark.posix]

run = runner(main)

ODD = COMMAND.replace("train.py", "odd_trainer.py")
ARMS = ("works", "breaks", "fails", "leaks")


def steps_of(stdout: str) -> dict[str, dict[str, Any]]:
    return {step["step"]: step for step in json.loads(stdout)["steps"]}


def odd_plan(folder: Path, arms: tuple[str, ...]) -> Path:
    plan = write_plan(folder, arms=[f"{arm} = {{}}" for arm in arms], command=ODD)
    shutil.copy(Path(__file__).with_name("odd_trainer.py"), folder)
    return plan


def test_each_trainer_that_fails_leaves_the_others_running(tmp_path: Path) -> None:
    plan = odd_plan(tmp_path, ARMS)
    words = ("experiment", plan, "--stage", "check", "--jobs", 2, "--json")
    steps = steps_of(run(*words, code=3).stdout)  # a leak is graver than a failure
    checks = {arm: steps[f"check-{arm}-17"]["state"] for arm in ARMS}
    assert checks == {"works": "done", "breaks": "failed", "fails": "not run", "leaks": "failed"}
    failed = steps["train-fails-17"]
    assert (failed["why"], failed["exit_code"]) == ("exit code 7", 1)
    assert failed["log_lines"] == [f"line {number}" for number in range(10, 30)]
    assert steps["check-fails-17"]["why"] == "needs train-fails-17"
    assert "12 families" in " ".join(map(str, steps["check-leaks-17"]["log_lines"]))
    text = run("experiment", plan, "--only", "fails", code=1).stdout
    assert_says(text, "Not run (needs train-fails-17)", "score-fails-17-holdout")


def test_an_audit_that_fails_stops_the_experiment(tmp_path: Path) -> None:
    plan = write_plan(tmp_path)
    holdout = tmp_path / "data/holdout.jsonl"
    holdout.write_bytes(b"no record\n" + holdout.read_bytes())
    steps = steps_of(run("experiment", plan, "--json", code=3).stdout)
    assert steps.pop("audit")["state"] == "failed"
    assert {step["state"] for step in steps.values()} == {"not run"}


def test_a_registration_of_the_holdout_alone_says_what_it_lacks(tmp_path: Path) -> None:
    arms = ("mine = {}", "weak = {}")
    plan = write_plan(tmp_path, arms=arms, hypotheses=True, ablated=True)
    holdout = tmp_path / "data/holdout.jsonl"
    now = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    lock = register(tmp_path / "hypotheses.toml", data=[holdout], now=now)
    words = ("experiment", plan, "--stage", "register", "--json")
    log = " ".join(steps_of(run(*words, code=1).stdout)["register"]["log_lines"])
    assert "without ablated.jsonl" in log
    assert f"registered data: holdout.jsonl {lock.data[0].sha256[:12]}" in log
    # Without ablated contexts, the lock covers all that is judged, and is kept.
    plan.write_text(plan.read_text().replace("ablated = true", "ablated = false"))
    before = lock_path(tmp_path / "hypotheses.toml").read_bytes()
    run(*words)
    assert lock_path(tmp_path / "hypotheses.toml").read_bytes() == before


def test_an_interrupted_training_finds_its_checkpoint(tmp_path: Path) -> None:
    weights = []
    for name in ("undisturbed", "interrupted"):
        plan = write_whole_plan(tmp_path / name)
        adapter = plan.with_suffix("") / "adapters/mine-17"
        if name == "interrupted":
            driver = started(plan, "--stage", "train", "--only", "mine")
            wait_until((adapter / "checkpoint.json").exists)
            driver.terminate()
            assert driver.wait(60) == 1
            assert not (adapter / "adapter_model.safetensors").exists()
        run("experiment", plan, "--stage", "check", "--only", "mine")
        weights.append((adapter / "adapter_model.safetensors").read_bytes())
    assert weights[0] == weights[1]


def test_a_trainer_without_an_import_of_ours_is_enough(whole: Path) -> None:
    for script in ("train.py", "slow_train.py"):
        assert "pact" not in whole.with_name(script).read_text().split('"""')[2]
    folder = whole.with_suffix("")
    for name in ("runs/base", "runs/mine-17", "runs/weak-17", "ablated/base", "ablated/weak-17"):
        assert (folder / name / "predictions.parquet").is_file()
    calibrators = sorted(path.parent.name for path in (folder / "runs").glob("*/calibration.json"))
    assert calibrators == ["mine-17", "weak-17"]
    assert_says((folder / "scorecard.txt").read_text(), "REGISTERED BEFORE THE RUNS", "H1")
    assert (folder / "page.html").is_file()
    assert list((folder / "paper").glob("*.svg"))


def test_a_repeated_command_only_compares_the_lock(whole: Path) -> None:
    steps = steps_of(run("experiment", whole, "--json").stdout)
    assert steps.pop("register")["state"] == "done"
    assert {step["state"] for step in steps.values()} == {"up to date"}


def test_a_new_arm_repeats_what_compares_all_arms(whole: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(whole.parent, tmp_path / "copy", symlinks=True) / whole.name
    copy.write_text(copy.read_text().replace("mine = {}", "mine = {}\nnew = {}"))
    steps = steps_of(run("experiment", copy, "--dry-run", "--json").stdout)
    again = [name for name, step in steps.items() if step["why"] == "its command changed"]
    assert again == ["scorecard", "page", "paper"]
    copy.write_text(copy.read_text().replace("k = 2", "k = 1"))
    steps = steps_of(run("experiment", copy, "--dry-run", "--json", code=1).stdout)
    assert_says(steps["score-mine-17-holdout"]["why"], "runs/mine-17", "remove it")


def test_the_end_of_the_command_ends_the_trainer_and_its_children(tmp_path: Path) -> None:
    driver = started(odd_plan(tmp_path, ("hangs",)), "--stage", "train")
    wait_until((tmp_path / "child.pid").exists)
    driver.terminate()
    assert driver.wait(60) == 1
    assert all_gone(tmp_path / "child.pid")
