"""Waiting: what commands show while they work, and what they leave when they are interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import command_line, runner
from messages import assert_says
from run_frames import rows, write_run

from pact_cli import steps as command_steps
from pact_cli.audit.main import main as audit_main
from pact_cli.main import main
from pact_eval.progress import Step

FIXTURES = Path(__file__).parents[2] / "fixtures" / "pact_fixtures"
DATA = FIXTURES / "data"
run, audit = runner(main), runner(audit_main)

# Waits when a step starts or after a file, until a signal comes: the interrupt is never too early.
WAITING = """
import sys, time
from pathlib import Path
from pact_cli import steps
from pact_cli.audit.main import main as audit
from pact_cli.main import main
place, here, program, *arguments = sys.argv[1:]
class Waiting(steps.CommandSteps):
    def started(self, step, depth):
        super().started(step, depth)
        self.wait(step.name)
    def wrote(self, path):
        super().wrote(path)
        self.wait(path.name)
    def wait(self, name):
        if name == place:
            Path(here).touch()
            time.sleep(60)
steps.CommandSteps = Waiting
steps._COMMAND_SECONDS = steps._STEP_SECONDS = 0
{"pact-eval": main, "pact-audit": audit}[program](arguments)
"""

needs_terminal = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    return [
        write_run(tmp_path / arm, rows(seed, k=2, families=12), arm=arm, seed=1)
        for seed, arm in enumerate("ab")
    ]


def interrupted(place: str, *words: object, folder: Path) -> tuple[int, str, str]:
    """Sends SIGINT to a command at the start of a step or after a file; returns what it said."""
    here = folder / "waits-here"
    process = subprocess.Popen(
        command_line("python", "-c", WAITING, place, here, *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that starts the suite in the background has its children ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while not here.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    return process.returncode, out, errors


@pytest.mark.slow
@needs_terminal
def test_an_interrupted_report_leaves_the_old_page(tmp_path: Path, runs: list[Path]) -> None:
    page = tmp_path / "page.html"
    page.write_text("old")
    words = ("pact-eval", "report", *runs, "--html", page)
    code, _, errors = interrupted("Making the page", *words, folder=tmp_path)
    assert code == 1
    assert_says(errors, "Error: interrupted", "nothing was written", f"{page} is as it was")
    assert (page.read_text(), [*tmp_path.glob(".page*")]) == ("old", [])


@pytest.mark.slow
@needs_terminal
def test_interrupted_figures_are_named(tmp_path: Path, runs: list[Path]) -> None:
    out = tmp_path / "figures"
    words = ("pact-eval", "paper", *runs, "--figures", "main,pairs", "--resamples", 100, "-o", out)
    _, _, errors = interrupted("main.svg", *words, folder=tmp_path)
    message = f"Error: interrupted; written: {out / 'main.svg'}; no other file was changed\n"
    assert message in errors
    assert [path.name for path in out.iterdir()] == ["main.svg"]


# Ctrl-C when a module of the program is about to be imported.
IMPORTING = """
import sys
from pact_cli import start
class Stops:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[2]:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stops())
getattr(start, sys.argv[1])()
"""


@pytest.mark.parametrize(
    ("program", "module"),
    [("pact_eval", "pact_cli.main"), ("pact_eval", "click"), ("pact_audit", "pact_cli.audit.main")],
)
def test_an_interrupt_while_modules_are_imported_is_a_message(program: str, module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING, program, module], capture_output=True, text=True
    )
    message = "Error: interrupted; nothing was written\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


def test_interrupts_at_every_kind_of_command_say_what_was_written(
    tmp_path: Path, runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stops(command_steps.CommandSteps):
        def started(self, step: Step, depth: int) -> None:
            super().started(step, depth)
            raise KeyboardInterrupt

    monkeypatch.setattr(command_steps, "CommandSteps", Stops)
    nothing = "Error: interrupted; nothing was written\n"
    views = ("sweep", runs[0])
    for words in (("compare", *runs), views, ("verify", runs[0]), ("report", tmp_path)):
        assert run(*words, code=1).stderr.endswith(nothing), words
    assert run("calibrate", runs[0], code=1).stderr.endswith(nothing)
    assert audit("split", DATA / "train.jsonl", "--out", tmp_path / "s", code=1).stderr == nothing
