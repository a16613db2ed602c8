"""The progress of a real experiment on terminals of two widths, and piped."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from experiments.plans import write_whole_plan

pytestmark = [pytest.mark.slow, pytest.mark.posix]

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ARM = "an-arm-with-a-name-that-no-column-of-a-narrow-terminal-has-room"


def command(plan: Path) -> list[str]:
    words = ("experiment", str(plan), "--stage", "train")
    return [sys.executable, "-P", "-m", "pact_cli", *words]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    plan = write_whole_plan(tmp_path)
    plan.write_text(plan.read_text().replace("weak", ARM))
    hypotheses = tmp_path / "hypotheses.toml"
    hypotheses.write_text(hypotheses.read_text().replace('"weak"', f'"{ARM}"'))
    return plan


def shown_on_terminal(plan: Path, columns: int) -> list[str]:
    """Return every line that the command has drawn on a terminal of 24 lines."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        command(plan), stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs, env=environment
    )
    os.close(theirs)
    drawn = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # Linux: nobody has the terminal open any more
            break
        if not part:
            break
        drawn += part
    os.close(ours)
    assert process.wait() == 0
    text = CONTROL.sub("", drawn.decode())
    return [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]


@pytest.mark.parametrize("columns", [80, 140])
def test_a_terminal_shows_stage_step_loss_nll_and_time_left(plan: Path, columns: int) -> None:
    lines = shown_on_terminal(plan, columns)
    assert max(map(len, lines)) <= columns
    heading = next(line for line in lines if line.startswith("arm"))
    assert heading.split() == ["arm", "seed", "steps", "now", "time", "step", "loss", "NLL"]
    # Row of a training: arm, seed, steps, stage, time, step, loss, NLL on the selection split.
    row = re.compile(r"mine +17 +0/1 +train +0:\d\d +(\d+) +(\d\.\d{3}) +(\d\.\d{3})")
    numbers = [match.groups() for match in map(row.search, lines) if match is not None]
    assert numbers, "\n".join(lines[-40:])
    for step, loss, nll in numbers:
        assert float(loss) == pytest.approx(1 / int(step), abs=6e-4)
        assert float(nll) == pytest.approx(2 / (int(step) - int(step) % 2), abs=6e-4)
    long_arm = [line for line in lines if line.startswith(ARM[:8]) and "train" in line]
    assert long_arm
    assert all(re.search(r" 17 +0/1 +train ", line) for line in long_arm)
    footers = [line for line in lines if re.match(r"\d+ of 6 steps, ", line)]
    assert any(re.search(r" 0:\d\d left$", line) for line in footers)


def test_a_pipe_gets_plain_lines(plan: Path) -> None:
    process = subprocess.run(command(plan), capture_output=True, check=True)
    lines = process.stderr.decode().splitlines()
    assert "\x1b" not in process.stderr.decode()
    assert [
        line for line in lines if not re.match(r"\[\d/6\] [\w-]+: (started|done), ", line)
    ] == []
    assert sum(": done, " in line for line in lines) == 6
    assert lines[-1].startswith("[6/6] train-")
