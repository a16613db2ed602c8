"""Experiments on a real Ray cluster of two workers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from experiments.plans import wait_until, write_plan
from experiments.test_running import all_gone
from experiments.test_whole_experiments import odd_plan, steps_of
from messages import assert_says
from ray_cluster import held_cluster, token_of

pytestmark = [pytest.mark.slow, pytest.mark.posix]


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    with held_cluster() as cluster:
        yield cluster


def on_ray(cluster: dict[str, str], plan: Path, *words: str) -> subprocess.Popen[str]:
    """Starts an experiment on the cluster in a process of its own."""
    command = [sys.executable, "-P", "-m", "pact_cli", "experiment", str(plan)]
    return subprocess.Popen(
        [*command, "--ray", cluster["address"], *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | token_of(cluster),
    )


def test_a_step_that_fails_leaves_the_others_running(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    plan = odd_plan(tmp_path, ("works", "fails"))
    process = on_ray(cluster, plan, "--stage", "train", "--jobs", "1", "--json")
    stdout, errors = process.communicate(timeout=600)
    assert process.returncode == 1, errors
    steps = steps_of(stdout)
    assert steps["train-works-17"]["state"] == "done"
    assert steps["train-fails-17"]["why"] == "exit code 7"
    assert steps["train-fails-17"]["log_lines"] == [f"line {number}" for number in range(10, 30)]


def test_the_end_of_the_driver_ends_the_tasks_and_their_commands(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    driver = on_ray(cluster, odd_plan(tmp_path, ("hangs",)), "--stage", "train")
    wait_until((tmp_path / "child.pid").exists)
    driver.terminate()
    _, errors = driver.communicate(timeout=120)
    assert driver.returncode == 1
    assert_says(errors, "interrupted", "same command continues")
    assert all_gone(tmp_path / "child.pid")


def test_a_step_that_no_node_has_room_for_is_refused(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    plan = write_plan(tmp_path)
    plan.write_text(plan.read_text().replace("[train]", "[train]\ngpus = 2\ncpus = 3"))
    process = on_ray(cluster, plan)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert_says(errors, "train needs 3 CPUs and 2 GPUs on one node", "2 CPUs and 0 GPUs")
