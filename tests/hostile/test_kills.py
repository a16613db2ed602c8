"""Kills of `score --workers 2`: before, between and after windows; nothing of it stays.

Each killed run is resumed, and then has the bytes of an undisturbed run. `make test-all` kills
three times, `make fuzz` twenty times.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from click.testing import CliRunner
from commands import command_line
from scoring.conftest import FIXTURES, HOLDOUT

from pact_cli.main import main
from pact_eval.scoring.windows import WINDOW_RECORDS

pytestmark = [pytest.mark.slow, pytest.mark.posix]

PHASES: Final = ("before", "between", "after")
KILLS = 20 if "PACT_FUZZ" in os.environ else len(PHASES)
WINDOWS: Final = 4
STARTED: Final = 9  # processes that a run has started at least before it loads a model
LATER_SECONDS: Final = {"before": 1.0, "between": 0.005, "after": 0.05}
GONE_SECONDS: Final = 10.0
START_SECONDS: Final = 600.0  # this machine may be busy
MARK: Final = "PACT_TEST_KILLED"
_OF_A_PROCESS: Final = ("created", "finished", "wall_seconds", "command_line", "workers", "seal")


def command(out: Path, *more: str) -> list[str]:
    adapter = str(FIXTURES / "adapters" / "pact")
    return [
        "score",
        adapter,
        "--data",
        str(HOLDOUT),
        "--k",
        "1",
        "--limit",
        str(WINDOWS * WINDOW_RECORDS),
        "--attention",
        "fused",
        "--out",
        str(out),
        *more,
    ]


def score_here(out: Path) -> None:
    result = CliRunner().invoke(main, command(out))
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    score_here(out)
    return out


class WatchedRun:
    """A run with two workers in a process of its own, and every process that it has started."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.family: set[psutil.Process] = set()
        words, environment = command(out, "--workers", "2"), {MARK: str(out)}
        self.process = subprocess.Popen(
            command_line("pact-eval", *words),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | environment,
        )

    @property
    def windows(self) -> int:
        """Number of windows that are written; all of them after the rows are joined."""
        if (self.out / "predictions.parquet").exists():
            return WINDOWS
        return len(list((self.out / "parts").glob("part-*")))

    def wait(self, *, windows: int = 0, processes: int = 0) -> None:
        """Waits until so many windows are written, and so many processes were started."""
        until = time.monotonic() + START_SECONDS
        while self.windows < windows or len(self.family) < processes:
            assert self.process.poll() is None, "the run ended before it was killed"
            assert time.monotonic() < until, f"not so far within {START_SECONDS:.0f} s"
            self.look()
            time.sleep(0.02)

    def look(self) -> None:
        """Notes the processes that it has started so far."""
        self.family.update(psutil.Process(self.process.pid).children(recursive=True))

    def kill(self) -> None:
        self.look()
        self.process.kill()
        self.process.wait()

    def left(self) -> dict[int, str]:
        """Returns its processes that still run, with those that were started since it was seen."""
        family = {
            *self.family,
            *(candidate for candidate in psutil.process_iter() if self._marked(candidate)),
        }
        names = {}
        for process in family:
            try:
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    names[process.pid] = " ".join(process.cmdline())[:200]
            except psutil.Error:
                continue
        return names

    def _marked(self, process: psutil.Process) -> bool:
        try:
            return str(process.environ().get(MARK)) == str(self.out)
        except (psutil.Error, OSError):
            return False


def killed(draw: random.Random, phase: str, out: Path) -> WatchedRun:
    """Returns a run that was killed in a phase."""
    run = WatchedRun(out)
    try:
        if phase == "before":
            run.wait(processes=draw.randint(0, STARTED))
        else:
            run.wait(windows=draw.randint(1, WINDOWS - 2) if phase == "between" else WINDOWS)
        time.sleep(draw.uniform(0, LATER_SECONDS[phase]))
    finally:
        run.kill()
    return run


@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_run_leaves_no_process_and_its_resumption_has_the_same_bytes(
    number: int,
    undisturbed: Path,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    phase, draw = PHASES[number % len(PHASES)], random.Random(number)
    run = killed(draw, phase, tmp_path / "run")
    windows, killed_at = run.windows, time.monotonic()
    while (left := run.left()) and time.monotonic() < killed_at + GONE_SECONDS:
        time.sleep(0.1)
    seconds = round(time.monotonic() - killed_at, 1)
    record_property("kill", f"{phase}: {windows} windows; {len(run.family)} processes, {seconds} s")
    assert not left
    assert run.process.returncode < 0, "the run ended before it was killed"
    assert (
        windows
        in {
            "before": range(1),
            "between": range(1, WINDOWS),
            "after": range(WINDOWS, WINDOWS + 1),
        }[phase]
    )
    score_here(run.out)
    name = "predictions.parquet"
    assert (run.out / name).read_bytes() == (undisturbed / name).read_bytes()
    assert provenance(run.out) == provenance(undisturbed)


def provenance(run: Path) -> dict[str, Any]:
    """Returns what a run records of itself, without what differs between processes."""
    values = json.loads((run / "run.json").read_text("utf-8"))
    del values["engine"]["tokens"]  # those of the last process
    return {key: value for key, value in values.items() if key not in _OF_A_PROCESS}
