"""Workflows on pages of the docs fail as the exit codes say."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from pact_cli.main import main

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {"drift": "ci.md"}


def shown(name: str) -> str:
    text = (DOCS / PAGES[name]).read_text(encoding="utf-8")
    workflow = re.search(rf"```yaml\n(name: {name}\n.*?)```", text, re.DOTALL)
    assert workflow is not None
    return workflow[1]


@pytest.mark.parametrize("name", PAGES)
def test_the_workflow_is_yaml_of_commands_that_exist(name: str) -> None:
    (job,) = yaml.safe_load(shown(name))["jobs"].values()
    scripts = "\n".join(step.get("run", "") for step in job["steps"])
    named = re.findall(r"pact-eval (\S+)([^|\n]*)", scripts)
    assert len(named) >= 2
    for command, rest in named:
        options = {
            option for parameter in main.commands[command].params for option in parameter.opts
        }
        assert set(re.findall(r"--[\w-]+", rest)) <= options


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("code", "ends"), [(0, 0), (4, 0), (3, 3), (1, 1), (5, 5)])
def test_the_workflow_fails_unless_the_gates_hold_or_too_few_families_can_tell(
    name: str, code: int, ends: int
) -> None:
    _, _, block = shown(name).partition("run: |\n")
    script = f"pact-eval() {{ return {code}; }}\n{block}"
    done = subprocess.run(["bash", "-e", "-c", script], check=False, capture_output=True, text=True)
    assert done.returncode == ends
    assert ("::warning::" in done.stdout) == (code == 4)
