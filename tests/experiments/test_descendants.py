"""Nothing that a step has started outlives it: daemons without a parent, and ranks of torchrun.

Each process of a step has a mark in its environment, by which the tests look for it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from pact_eval.experiments import running
from pact_eval.experiments.plan import parse_plan
from pact_eval.experiments.running import run
from pact_eval.experiments.steps import PlannedExperiment, Step, StepOutcome

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux has child subreapers")

MARK = "PACT_TEST_STEP"
START_SECONDS = 120.0  # this machine may be busy

DAEMONS = """
import os, pathlib, signal, sys, time
def daemon(name):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            pathlib.Path("out", name).touch()
            time.sleep(3600)
        os._exit(0)
    os.wait()
def is_there(*names):
    return all(pathlib.Path("out", name).exists() for name in names)
daemon("polite")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
daemon("deaf")
signal.signal(signal.SIGTERM, signal.SIG_DFL)
while not is_there("polite", "deaf"):
    time.sleep(0.01)
"""
"""Leaves two processes in sessions of their own, without a parent. One ignores SIGTERM."""

RANK = """
import os, pathlib, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
rank = os.environ["RANK"]
pathlib.Path("out", f"rank{rank}").write_text(f"{os.getpid()} {os.getsid(0)}")
while not all(pathlib.Path(f"out/rank{n}").exists() for n in range(2)):
    time.sleep(0.05)
if sys.argv[1] == "fails" and rank == "1":
    exit(7)
if sys.argv[1] != "succeeds":
    time.sleep(3600)
"""


def ran(folder: Path, *words: str) -> StepOutcome:
    """The outcome of a step that runs a command."""
    plan, _ = parse_plan("", folder / "plan.toml")
    step = Step("a", "train", (sys.executable, *words))
    environment = {**os.environ, MARK: str(folder)}
    (outcome,) = run(PlannedExperiment(plan, folder / "out", (step,), (environment,))).steps
    return outcome


def left(folder: Path) -> list[str]:
    """The commands of processes with the mark that still run."""
    commands = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(folder):
                commands.append(" ".join(process.cmdline()))
        except (psutil.Error, OSError):
            continue  # another user's, or over
    return commands


def wait_for(*files: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while not all(file.exists() for file in files):
        assert time.monotonic() < until, f"not there within {START_SECONDS:.0f} s"
        time.sleep(0.02)


@contextmanager
def interrupted_after(*files: Path) -> Iterator[None]:
    def interrupt() -> None:
        wait_for(*files)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        yield
    thread.join()


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "GRACE_SECONDS", 0.3)


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize(
    ("end", "why"),
    [
        ("", ""),
        ("exit(7)", "exit code 7"),
        ("os.kill(os.getpid(), 11)", "ended by signal 11 (SIGSEGV)"),
        ("os.kill(os.getpid(), 9)", "ended by signal 9 (SIGKILL)"),
        ("signal.signal(15, lambda *_: None); os.killpg(0, 15)", ""),  # `kill 0` of a shell
    ],
)
def test_no_daemon_outlives_a_step(tmp_path: Path, end: str, why: str) -> None:
    assert ran(tmp_path, "-c", DAEMONS + end).why == why
    assert left(tmp_path) == []


@pytest.mark.usefixtures("short_grace")
def test_no_daemon_outlives_an_interrupt(tmp_path: Path) -> None:
    with interrupted_after(tmp_path / "out/polite", tmp_path / "out/deaf"):
        ran(tmp_path, "-c", DAEMONS + "time.sleep(3600)")
    assert left(tmp_path) == []


def test_a_daemon_has_time_to_end_its_work(tmp_path: Path) -> None:
    """A process that uploads what a training logged gets SIGTERM before SIGKILL."""
    ends = "import signal, time\n"
    ends += "def end(*_):\n    time.sleep(0.3); open('out/ended', 'w'); exit()\n"
    ends += "signal.signal(15, end); open('out/started', 'w'); time.sleep(3600)"
    code = f"import os, subprocess, sys, time\nwords = [sys.executable, '-c', {ends!r}]\n"
    code += "subprocess.Popen(words, start_new_session=True)\n"
    code += "while not os.path.exists('out/started'): time.sleep(0.01)"
    assert ran(tmp_path, "-c", code).state == "done"
    assert (tmp_path / "out/ended").exists()


def test_a_kill_of_the_program_ends_what_it_has_started(tmp_path: Path) -> None:
    """SIGKILL of pact-eval: the trainer gets SIGTERM, and saves its checkpoint."""
    (tmp_path / "out").mkdir()
    saves = "signal.signal(15, lambda *_: (open('out/saved', 'w'), exit())); time.sleep(3600)"
    driver = "import os, sys, time\nfrom pathlib import Path\n"
    driver += "from pact_eval.experiments import running as r, steps\n"
    driver += "r.GRACE_SECONDS = 0.5\nwords = (sys.executable, '-c', sys.argv[1])\n"
    driver += "order = r.StepOrder(steps.Step('a', 'train', words), Path(), Path('out/log'))\n"
    driver += "process = r.StepProcess(order, os.environ)\ntime.sleep(3600)"
    words = [sys.executable, "-c", driver, DAEMONS + saves]
    environment = {**os.environ, MARK: str(tmp_path)}
    with subprocess.Popen(words, cwd=tmp_path, env=environment) as process:
        wait_for(tmp_path / "out/polite", tmp_path / "out/deaf")
        time.sleep(0.2)
        process.kill()
    until = time.monotonic() + START_SECONDS
    while left(tmp_path) and time.monotonic() < until:
        time.sleep(0.05)
    assert left(tmp_path) == []
    assert (tmp_path / "out/saved").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("end", "state"), [("succeeds", "done"), ("fails", "failed")])
def test_no_rank_of_torchrun_outlives_a_training(tmp_path: Path, end: str, state: str) -> None:
    assert ran(tmp_path, *torchrun(tmp_path, end)).state == state
    assert left(tmp_path) == []


@pytest.mark.slow
def test_no_rank_of_torchrun_outlives_an_interrupt(tmp_path: Path) -> None:
    ranks = [tmp_path / f"out/rank{number}" for number in range(2)]
    with interrupted_after(*ranks):
        ran(tmp_path, *torchrun(tmp_path, "waits"))
    assert left(tmp_path) == []
    for rank in ranks:  # what makes torchrun hard: each rank leads a session
        pid, session = rank.read_text().split()
        assert pid == session


def torchrun(folder: Path, end: str) -> tuple[str, ...]:
    (folder / "rank.py").write_text(RANK)
    return ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "rank.py", end)
