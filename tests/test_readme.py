"""The README's outputs are the commands' own.

A console block is `$ command` and what it prints, or the first lines of it and `...`. Numbers may
differ in their last digits between processors; words may not. PACT_UPDATE_README=1 writes the
blocks anew.
"""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from pact_cli.audit.main import main as audit
from pact_cli.main import main as evaluation

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
BLOCK = re.compile(r"```console\n\$ (?P<command>.+)\n(?P<output>(?:(?!```).*\n)*)```\n")
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
DEMO_LINES = 34

Outputs = Callable[[str], str]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of the demo's runs, and what scoring them prints."""
    runs = tmp_path_factory.mktemp("readme") / "runs"
    command = ["make", "--dry-run", "demo", f"RUNS={runs}"]
    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = [line for line in planned.splitlines() if "pact-eval score" in line]
    assert len(lines) == 2
    text = "".join(f"{line}\n{_output(line[line.index('pact-eval ') :])}" for line in lines)
    return runs, text.replace(str(runs), "runs")


@pytest.fixture(scope="module")
def outputs(demo: tuple[Path, str]) -> Outputs:
    return lambda command: demo[1] if command == "make demo" else _output(command)


def _output(command: str) -> str:
    program, *arguments = shlex.split(command)
    if "--help" in arguments:  # click's runner has its own width of help texts
        return _in_a_process(program, arguments)
    group = {"pact-eval": evaluation, "pact-audit": audit}[program]
    with contextlib.chdir(ROOT):
        done = CliRunner(env={"COLUMNS": "120"}).invoke(group, arguments, prog_name=program)
    assert done.exit_code == 0, done.output
    return done.stdout


def _in_a_process(program: str, arguments: list[str]) -> str:
    module = {"pact-eval": "pact_cli", "pact-audit": "pact_cli.audit"}[program]
    command = [sys.executable, "-m", module, *arguments]
    environment = os.environ | {"COLUMNS": "120"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def _blocks() -> dict[str, str]:
    text = README.read_text(encoding="utf-8")
    return {m["command"]: m["output"] for m in BLOCK.finditer(text) if m["command"] != "make test"}


def test_the_blocks_are_what_the_commands_print(outputs: Outputs) -> None:
    blocks = _blocks()
    assert "make demo" in blocks
    printed = {command: outputs(command) for command in blocks}
    if os.environ.get("PACT_UPDATE_README"):
        _update(printed)
        blocks = _blocks()
    for command, shown in blocks.items():
        lines = shown.rstrip("\n").split("\n")
        real = printed[command].rstrip("\n").split("\n")
        if lines[-1] == "...":
            lines = lines[:-1]
            real = real[: len(lines)]
        assert len(lines) == len(real), command
        for line, expected in zip(lines, real, strict=True):
            _assert_alike(line.rstrip(), expected.rstrip())


def _assert_alike(line: str, expected: str) -> None:
    def squeeze(text: str) -> str:
        return re.sub(r" +", " ", NUMBER.sub("#", text))

    assert squeeze(line) == squeeze(expected)
    for shown, real in zip(NUMBER.findall(line), NUMBER.findall(expected), strict=True):
        # One answer of 324 that tips over moves a rate by 0.3 points, an interval's end by more.
        assert abs(float(shown) - float(real)) <= max(1.0, 0.02 * abs(float(real))), line


def _update(printed: dict[str, str]) -> None:
    def block(match: re.Match[str]) -> str:
        command = match["command"]
        if command not in printed:
            return match[0]
        lines = [line.rstrip() for line in printed[command].rstrip("\n").split("\n")]
        if command == "make demo":
            lines = [*lines[:DEMO_LINES], "..."]
        return "\n".join(["```console", f"$ {command}", *lines, "```", ""])

    text = README.read_text(encoding="utf-8")
    README.write_text(BLOCK.sub(block, text), encoding="utf-8")


def test_the_python_examples_run(
    demo: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").symlink_to(demo[0])
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    monkeypatch.chdir(tmp_path)
    for page in (README, ROOT / "docs" / "python.md"):
        results = doctest.testfile(str(page), module_relative=False)
        assert results.attempted > 3
        assert results.failed == 0


def test_links_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target
