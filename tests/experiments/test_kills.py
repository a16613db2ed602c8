"""SIGKILL at random moments: the files in the end are those of an undisturbed experiment."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

import psutil
import pytest
from commands import runner
from experiments.contents import contents
from experiments.plans import started, wait_until, write_whole_plan

from pact_cli.main import main

pytestmark = [pytest.mark.slow, pytest.mark.posix]

run = runner(main)

KILLS: Final = 20
KILLS_OF_STEP: Final = 2
STAGES: Final = ("train", "score")
"""Stages whose command is among the victims in any case."""

VICTIMS: Final = ("driver", "supervisor", "command", "command", "driver and supervisor")


def test_twenty_kills_leave_the_files_of_an_undisturbed_experiment(
    whole: Path, tmp_path: Path
) -> None:
    killer, expected = _Killer(_seconds_of_steps(whole)), contents(whole.with_suffix(""))
    while not killer.has_killed_enough:
        plan = write_whole_plan(tmp_path / str(killer.kills))
        killer.disturb(plan)
        run("experiment", plan, "--slots", 2)
        actual = contents(plan.with_suffix(""))
        assert list(actual) == list(expected)
        assert [name for name in expected if actual[name] != expected[name]] == []


def test_a_trainer_dies_with_its_driver_and_its_supervisor(tmp_path: Path) -> None:
    """Otherwise it would outlive the lock of its step, and write beside the next trainer."""
    plan = write_whole_plan(tmp_path)
    log = tmp_path / "plan/adapters/mine-17/log.jsonl"
    driver = started(plan, "--stage", "train")
    wait_until(log.exists)
    step = next(step for step in _running(driver) if step.name == "train-mine-17")
    trainer = step.commands[0]
    step.supervisors[-1].suspend()  # it cannot see that the driver is gone
    driver.kill()
    driver.wait()
    for supervisor in step.supervisors:
        supervisor.kill()
    assert psutil.wait_procs([trainer], timeout=10)[1] == []


def _seconds_of_steps(plan: Path) -> dict[str, float]:
    """Return how long each step of an experiment took."""
    events = (plan.with_suffix("") / "events.jsonl").read_text("utf-8").splitlines()
    done = [event for event in map(json.loads, events) if event["event"] == "done"]
    return {event["step"]: event["seconds"] for event in done}


class _RunningStep:
    """Processes of a step.

    Args:
        leader: the process that the driver has started for it.
    """

    def __init__(self, leader: psutil.Process) -> None:
        words = leader.cmdline()
        self.name = next(Path(word).stem for word in words if word.endswith(".lock"))
        self.since = leader.create_time()
        family = [leader, *leader.children(recursive=True)]
        self.supervisors = [process for process in family if _supervises(process)]
        self.commands = [process for process in family if not _supervises(process)]


def _supervises(process: psutil.Process) -> bool:
    return any(word.endswith("supervise.py") for word in process.cmdline())


def _running(driver: subprocess.Popen[bytes]) -> list[_RunningStep]:
    """Return the steps whose command runs."""
    steps = []
    for leader in psutil.Process(driver.pid).children():
        try:
            step = _RunningStep(leader)
        except (psutil.Error, StopIteration):  # it ends, or does not supervise yet
            continue
        if step.supervisors and step.commands:
            steps.append(step)
    return steps


class _Killer:
    """Kills processes of experiments at random moments, and counts what it hit.

    The first hit in a training, and in a scoring, is its command. Each step is hit at most twice,
    so that all of an experiment gets its share of the kills.

    Args:
        seconds: of each step, undisturbed.
    """

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        self.rng = Random(41)
        self.hits: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()

    @property
    def kills(self) -> int:
        """Number of moments at which something was hit."""
        return self.hits.total()

    @property
    def has_killed_enough(self) -> bool:
        """Whether there were twenty kills or more, and each kind of process was hit."""
        kinds = {*VICTIMS, *STAGES} - {"command"}
        return self.kills >= KILLS and all(self.hits[kind] for kind in kinds)

    def disturb(self, plan: Path) -> None:
        """Run an experiment again and again until it has ended or enough was killed."""
        self.steps.clear()
        code: int | None = -1
        while code != 0 and not self.has_killed_enough:
            driver, before = started(plan, "--slots", "2"), self.kills
            while driver.poll() is None and not self.has_killed_enough:
                self._disturb(driver)
            driver.kill()
            code = driver.wait()
            assert code == 0 or self.kills > before, "it failed, but nothing was killed"

    def _disturb(self, driver: subprocess.Popen[bytes]) -> None:
        """Wait for a moment of a running step; kill, unless the step has ended before."""
        steps = [step for step in _running(driver) if self.steps[step.name] < KILLS_OF_STEP]
        if not steps:
            time.sleep(0.02)
            return
        step, victim = self.rng.choice(steps), self.rng.choice(VICTIMS)
        moment = step.since + self.rng.random() * 1.3 * self.seconds[step.name]
        while time.time() < moment and driver.poll() is None and _lives(step.commands[0]):
            time.sleep(0.01)
        if driver.poll() is not None or not _lives(step.commands[0]):
            return
        stage = step.name.split("-")[0]
        if victim == "command" or (stage in STAGES and not self.hits[stage]):
            victim, killed = stage, _kill(self.rng.choice(step.commands))
        else:
            killed = victim == "driver" or _kill(self.rng.choice(step.supervisors))
            if killed and "driver" in victim:
                driver.kill()
                killed = driver.wait() == -9
        self.hits[victim] += killed
        self.steps[step.name] += killed


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _kill(process: psutil.Process) -> bool:
    """Kill a process, and return whether it lived."""
    if not _lives(process):
        return False
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return False
    return True
