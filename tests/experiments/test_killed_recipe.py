"""SIGKILL in the training of a recipe: the files are those of an undisturbed experiment."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from commands import runner
from experiments.contents import contents
from experiments.plans import started, wait_until
from experiments.test_recipe_plans import write_recipe_plan
from training.recipe_bases import write_base

from pact_cli.main import main

pytestmark = [pytest.mark.slow, pytest.mark.posix]

run = runner(main)

# What writes the files of a training, and what reads them.
WORDS = ("--only", "ce", "--stage", "calibrate")
ARM = 'ce = { recipe = "cross_entropy", set = { epochs = 8, checkpoint_seconds = 0 } }'


def write_plan(folder: Path) -> Path:
    """Write a plan of one training with dropout, so that random numbers decide every step."""
    plan = write_recipe_plan(folder, ARM)
    (folder / "base").rmdir()
    write_base(folder / "base")
    return plan


def test_a_kill_in_the_training_leaves_the_files_of_an_undisturbed_experiment(
    tmp_path: Path,
) -> None:
    """The killed processes were started as users do."""
    undisturbed, killed = (write_plan(tmp_path / name) for name in ("undisturbed", "killed"))
    run("experiment", undisturbed, *WORDS)
    adapter = killed.with_suffix("") / "adapters/ce-17"
    driver = started(killed, *WORDS)
    wait_until((adapter / "checkpoint.pt").exists)
    processes = psutil.Process(driver.pid).children(recursive=True)
    for process in processes:
        process.kill()
    driver.wait()
    assert (adapter / "checkpoint.pt").exists()
    assert not (adapter / "training.json").exists()
    logged = len((adapter / "log.jsonl").read_bytes().splitlines())
    run("experiment", killed, *WORDS)
    expected, actual = (contents(plan.with_suffix("")) for plan in (undisturbed, killed))
    log = expected["adapters/ce-17/log.jsonl"]
    assert isinstance(log, bytes)
    assert 0 < logged < len(log.splitlines())
    assert list(actual) == list(expected)
    assert [name for name in expected if actual[name] != expected[name]] == []
