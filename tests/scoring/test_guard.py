"""The guard of a Ray: a process whose output goes to its folder ends with the driver, no other."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

SECONDS = 60.0

# Like an agent of Ray: it ignores the signals that ask it to end.
USER = """
import signal, sys, time
for name in ("SIGTERM", "SIGINT", "SIGHUP"):
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
with open(sys.argv[1], "w") as log:
    print("ready", flush=True)
    time.sleep(600)
"""

DRIVER = """
import os, sys
from pathlib import Path
from pact_eval.scoring.workers.cluster import guarded
with guarded(Path(sys.argv[1])), open(Path(sys.argv[1]) / "driver.log", "w"):
    print("ready", flush=True)
    if not sys.stdin.read():
        os._exit(9)
print("left", flush=True)
"""


@pytest.fixture
def running() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def started(running: ExitStack, code: str, path: Path) -> subprocess.Popen[str]:
    process = running.enter_context(
        subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    running.callback(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
@pytest.mark.parametrize("end", ["killed", "left"])
def test_processes_whose_output_goes_to_the_folder_end_with_the_driver(
    running: ExitStack, tmp_path: Path, end: str
) -> None:
    folder = tmp_path / "ray"
    folder.mkdir()
    driver = started(running, DRIVER, folder)
    users = [
        started(running, USER, folder / f"{number}{kind}")
        for number, kind in enumerate((".out", ".err"))
    ]
    others = [started(running, USER, tmp_path / "ray.out")]
    others += [started(running, USER, folder / "joined.log")]  # a program that joined this Ray
    guard = psutil.Process(driver.pid).children()
    assert len(guard) == 1
    if end == "killed":
        driver.kill()
    else:
        output, _ = driver.communicate("leave", timeout=SECONDS)
        assert output == "left\n"  # the driver has a file in the folder too, and is spared
        assert driver.returncode == 0
    for user in users:
        assert user.wait(SECONDS) == (-signal.SIGKILL if sys.platform != "win32" else 15)
    assert not psutil.wait_procs(guard, SECONDS)[1]
    assert not folder.exists()
    assert [other.poll() for other in others] == [None, None]
