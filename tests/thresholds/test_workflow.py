"""The workflow of `examples/` fails as the exit codes say."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from pact_cli.main import main

WORKFLOW = (Path(__file__).resolve().parents[2] / "examples" / "drift.yml").read_text("utf-8")


def test_the_workflow_is_yaml_of_commands_that_exist() -> None:
    (job,) = yaml.safe_load(WORKFLOW)["jobs"].values()
    scripts = "\n".join(step.get("run", "") for step in job["steps"])
    named = re.findall(r"pact-eval (\S+)([^|\n]*)", scripts)
    assert len(named) >= 2
    for command, rest in named:
        options = {
            option for parameter in main.commands[command].params for option in parameter.opts
        }
        assert set(re.findall(r"--[\w-]+", rest)) <= options


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (4, 0), (3, 3), (1, 1), (5, 5)])
def test_the_workflow_fails_unless_the_gates_hold_or_too_few_families_can_tell(
    code: int, ends: int
) -> None:
    _, _, block = WORKFLOW.partition("run: |\n")
    script = f"pact-eval() {{ return {code}; }}\n{block}"
    done = subprocess.run(["bash", "-e", "-c", script], check=False, capture_output=True, text=True)
    assert done.returncode == ends
    assert ("::warning::" in done.stdout) == (code == 4)
