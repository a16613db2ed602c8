"""The two questions of other projects in the README: its commands run, and answer as it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import pact_eval
from pact_cli.main import main

ROOT = Path(__file__).resolve().parents[1]


def commands() -> list[list[str]]:
    """Returns the commands of the section, without the name of the program."""
    section = (ROOT / "README.md").read_text("utf-8").partition("## Two questions")[2]
    lines = re.findall(r"^    pact-eval (.+)$", section.partition("\n## ")[0], re.MULTILINE)
    return [shlex.split(line) for line in lines]


def test_the_questions_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    monkeypatch.chdir(tmp_path)
    compared = []
    for command in commands():
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, done.output
        if command[0] == "compare":
            compared.append(pact_eval.compare(command[1], command[2]))
            assert f"p = {compared[-1].groups[0].accuracy.items.p_value:.3f}" in done.stdout
    logs, prompts = (comparison.groups[0].accuracy.items for comparison in compared)
    assert (logs.both, logs.b, logs.c, logs.neither) == (2, 1, 0, 9)  # 3 and 2 of 12 are right
    assert (prompts.b, prompts.c) == (2, 6)
    assert prompts.p_value == pytest.approx(2 * (1 + 8 + 28) / 2**8)  # 2 of 8 or fewer
    assert [comparison.conclusion.status for comparison in compared] == ["not shown"] * 2
