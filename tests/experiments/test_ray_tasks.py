"""Experiments on a real Ray cluster of two workers: whoever is killed, the files are the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import runner
from experiments.contents import contents
from experiments.plans import wait_until, write_plan
from experiments.test_running import gone, odd_plan, steps_of
from messages import assert_says
from ray_cluster import held_cluster, token_of

from pact_cli.main import main
from pact_eval.experiments.ray_tasks import MAX_RETRIES

pytestmark = [pytest.mark.slow, pytest.mark.posix]

run = runner(main)

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    with held_cluster() as cluster:
        yield cluster


def on_ray(
    cluster: dict[str, str], plan: str | Path, *words: str, cwd: Path | None = None
) -> subprocess.Popen[str]:
    """Starts an experiment on the cluster in a process of its own."""
    command = [sys.executable, "-P", "-m", "pact_cli", "experiment", str(plan)]
    return subprocess.Popen(
        [*command, "--ray", cluster["address"], *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=os.environ | token_of(cluster),
    )


def events_of(plan: Path) -> list[dict[str, object]]:
    file = plan.with_suffix("") / "events.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def starts(plan: Path, step: str) -> list[dict[str, object]]:
    """The events of the starts of a step."""
    return [
        event
        for event in events_of(plan)
        if (event["event"], event.get("step")) == ("started", step)
    ]


def kill_worker(plan: Path, step: str, attempt: int) -> None:
    """Kills the process of Ray that runs an attempt of a step, once the attempt has started."""
    wait_until(lambda: len(starts(plan, step)) == attempt)
    last = starts(plan, step)[-1]
    assert last["attempt"] == attempt
    os.kill(int(str(last["pid"])), signal.SIGKILL)


def test_a_step_that_fails_or_is_lost_leaves_the_others_running(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    plan = odd_plan(tmp_path, ("hangs", "works", "fails"))
    process = on_ray(cluster, plan, "--stage", "train", "--json")
    for attempt in range(1, 2 + MAX_RETRIES):
        wait_until((tmp_path / "child.pid").exists)
        pids = (tmp_path / "child.pid").read_text().split()
        (tmp_path / "child.pid").unlink()
        kill_worker(plan, "train-hangs-17", attempt)
        assert all(gone(int(pid)) for pid in pids)
    stdout, _ = process.communicate(timeout=600)
    assert process.returncode == 1
    steps = steps_of(stdout)
    assert {name: step["state"] for name, step in steps.items() if step["stage"] == "train"} == {
        "train-hangs-17": "failed",
        "train-works-17": "done",
        "train-fails-17": "failed",
    }
    assert "WorkerCrashedError" in str(steps["train-hangs-17"]["why"])
    assert steps["train-fails-17"]["why"] == "exit code 7"
    assert steps["train-fails-17"]["log_lines"] == [f"line {number}" for number in range(10, 30)]
    # A trainer that fails is not repeated.
    assert [event["attempt"] for event in starts(plan, "train-fails-17")] == [1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_driver_ends_the_tasks_and_their_commands(
    cluster: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    plan = odd_plan(tmp_path, ("hangs",))
    driver = on_ray(cluster, plan, "--stage", "train")
    wait_until((tmp_path / "child.pid").exists)
    wait_until(lambda: bool(starts(plan, "train-hangs-17")))
    pids = (tmp_path / "child.pid").read_text().split()
    driver.send_signal(number)
    _, errors = driver.communicate(timeout=120)
    for pid in pids:
        assert gone(int(pid))
    if number == signal.SIGTERM:
        assert driver.returncode == 1
        assert_says(errors, "interrupted", "same command continues")
        assert [event["event"] for event in events_of(plan)[-2:]] == ["interrupted", "ended"]


def test_a_killed_worker_and_a_killed_driver_leave_the_files_of_an_undisturbed_experiment(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    undisturbed = odd_plan(tmp_path / "undisturbed", ("slow",))
    run("experiment", undisturbed, "--stage", "calibrate", **ONE_THREAD)
    plan = odd_plan(tmp_path / "killed", ("slow",))
    folder = plan.with_suffix("")
    driver = on_ray(cluster, plan, "--stage", "calibrate")
    log = folder / "adapters/slow-17/log.jsonl"
    wait_until(lambda: log.exists() and len(log.read_text().splitlines()) > 5)
    kill_worker(plan, "train-slow-17", 1)
    step = "score-slow-17-holdout"
    wait_until(lambda: bool(starts(plan, step)))
    assert [event["attempt"] for event in starts(plan, "train-slow-17")] == [1, 2]
    driver.kill()
    driver.communicate()
    again = on_ray(cluster, plan, "--stage", "calibrate")
    _, errors = again.communicate(timeout=600)
    assert again.returncode == 0, errors
    expected, actual = contents(undisturbed.with_suffix("")), contents(folder)
    assert list(actual) == list(expected)
    assert not [name for name in expected if actual[name] != expected[name]]
    assert len(starts(plan, "train-slow-17")) == 2  # done before the driver was killed


def test_nodes_without_the_folder_of_the_plan_are_named(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    """A path that leads every process to its own folder: the workers have another one."""
    write_plan(tmp_path)
    process = on_ray(cluster, "/proc/self/cwd/plan.toml", cwd=tmp_path)
    stdout, errors = process.communicate(timeout=300)
    assert (process.returncode, stdout) == (1, "")
    assert_says(errors, "node ", "does not see /proc/self/cwd/plan.toml", "all nodes share")
    assert not (tmp_path / "plan/receipts").exists()
    assert not (tmp_path / "plan/probe").exists()


def test_a_step_that_no_node_has_room_for_is_refused(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    plan = write_plan(tmp_path)
    plan.write_text(plan.read_text().replace("[train]", "[train]\ngpus = 2\ncpus = 3"))
    process = on_ray(cluster, plan)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert_says(errors, "train needs 3 CPUs and 2 GPUs on one node", "(2 CPUs, 0 GPUs)")
