"""The composite action, the pre-commit hooks and the workflows of the docs, run as CI runs them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from builders import write_jsonl
from ci_formats import github_annotations, sarif_annotations
from commands import runner
from messages import assert_says
from spoiled_datasets import healthy

from pact_cli.audit.main import main as audit
from pact_cli.main import main as evaluation

pytestmark = pytest.mark.posix

ROOT = Path(__file__).resolve().parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
RELEASE = yaml.safe_load((ROOT / "release" / "action.yml").read_text("utf-8"))
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
BLOCKS = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "ci.md").read_text("utf-8"), re.DOTALL)
PROGRAMS = {"pact-eval": evaluation, "pact-audit": audit}
OWN = "pact-eval/pact-eval@main"


def workflow_steps() -> list[dict[str, Any]]:
    workflow = yaml.safe_load(BLOCKS[0])
    assert set(workflow) == {"name", True, "permissions", "jobs"}  # YAML reads `on` as true
    (job,) = workflow["jobs"].values()
    upload = yaml.safe_load(BLOCKS[1])
    return [*job["steps"], *upload]


def assert_commands_exist(script: str) -> int:
    """Checks the commands and options of a script; returns the number of commands."""
    joined = script.replace("\\\n", " ")
    calls = re.findall(r"\b(pact-eval|pact-audit)\"? ([a-z]+)([^|>\n]*)", joined)
    for program, name, rest in calls:
        command = PROGRAMS[program].get_command(click.Context(PROGRAMS[program]), name)
        assert command is not None, name
        options = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z][\w-]+", rest)) <= options
    return len(calls)


def leaking(folder: Path) -> Path:
    data = healthy(families=6)
    data.write(folder)
    copied = [{**record, "split": "validation"} for record in data.train[:2]]
    write_jsonl(folder / "holdout.jsonl", [*data.holdout, *copied])
    runner(audit)("manifest", folder)
    return folder


def in_bash(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a step as GitHub's `shell: bash` does."""
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    return subprocess.run(
        command, cwd=folder, env=kept | variables, check=False, capture_output=True, text=True
    )


def test_the_commands_of_the_docs_exist_with_their_options() -> None:
    scripts = [step["run"] for step in workflow_steps() if "run" in step]
    assert sum(map(assert_commands_exist, scripts)) >= 3
    assert assert_commands_exist("\n".join(step["run"] for step in ACTION["runs"]["steps"])) == 1


def test_no_input_is_part_of_a_script() -> None:
    steps = (*ACTION["runs"]["steps"], *RELEASE["runs"]["steps"], *workflow_steps())
    scripts = [step["run"] for step in steps if "run" in step]
    assert len(scripts) == 6
    assert not any("${{" in script for script in scripts)


@pytest.fixture
def runner_temp(tmp_path: Path) -> Path:
    """The folder into which the action's first step has installed the package."""
    folder = tmp_path / "temp"
    programs = folder / "pact-eval" / "bin"
    programs.mkdir(parents=True)
    for name, module in (("pact-audit", "pact_cli.audit"), ("pact-eval", "pact_cli")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {module} "$@"\n')
        program.chmod(0o755)
    return folder


def audited_by_action(folder: Path, runner_temp: Path, **inputs: str) -> Any:
    return run_action(ACTION, folder, runner_temp, inputs)


def run_action(action: Any, folder: Path, runner_temp: Path, inputs: dict[str, str]) -> Any:
    """Runs the last step of an action with these inputs, and the defaults of the others."""
    step = action["runs"]["steps"][-1]
    defaults = {name: value.get("default", "") for name, value in action["inputs"].items()}
    values = defaults | inputs
    variables = {
        name: values[re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", value)[1]]  # type: ignore[index]
        for name, value in step["env"].items()
    }
    return in_bash(step["run"], folder, RUNNER_TEMP=str(runner_temp), **variables)


@pytest.mark.slow
def test_the_action_annotates_a_leaking_record(tmp_path: Path, runner_temp: Path) -> None:
    leaking(tmp_path / "data")
    done = audited_by_action(tmp_path, runner_temp)
    assert done.returncode == 3, done.stderr
    places = {
        (shown.code, shown.file, shown.line, shown.level)
        for shown in github_annotations(done.stdout)
    }
    assert ("shared-context", "data/holdout.jsonl", 13, "error") in places


@pytest.mark.slow
def test_the_action_writes_sarif_into_a_file(tmp_path: Path, runner_temp: Path) -> None:
    leaking(tmp_path / "my data")
    inputs = {"data": "my data", "format": "sarif", "output": "pact audit.sarif"}
    done = audited_by_action(tmp_path, runner_temp, **inputs)
    assert (done.returncode, done.stdout) == (3, "")
    shown = sarif_annotations((tmp_path / "pact audit.sarif").read_text("utf-8"))
    assert ("my data/holdout.jsonl", 13) in {(leak.file, leak.line) for leak in shown}


@pytest.mark.parametrize(("action", "up"), [(ACTION, ""), (RELEASE, "/..")])
def test_an_action_installs_its_own_commit_with_its_constraints(
    tmp_path: Path, action: Any, up: str
) -> None:
    """The step's own lines, with stubs in place of `python3 -m venv` and of pip in the new one."""
    stub = (
        'python3() { mkdir -p "$3/bin"; '
        """printf '#!/bin/sh\\nprintf "%%s\\\\n" "$@" > "$0.called"\\n' > "$3/bin/pip"; """
        'chmod +x "$3/bin/pip"; echo "$@" > venv.called; }\n'
    )
    temp, place, path = tmp_path / "run temp", tmp_path / "the action", tmp_path / "path"
    done = in_bash(
        stub + action["runs"]["steps"][0]["run"],
        tmp_path,
        RUNNER_TEMP=str(temp),
        GITHUB_ACTION_PATH=str(place),
        GITHUB_PATH=str(path),
    )
    assert done.returncode == 0, done.stderr
    programs = temp / "pact-eval" / "bin"
    assert (tmp_path / "venv.called").read_text() == f"-m venv {temp}/pact-eval\n"
    words = (programs / "pip.called").read_text().splitlines()
    constraints = f"{place}{up}/constraints.txt"
    assert words == ["install", "--quiet", "--constraint", constraints, f"{place}{up}"]
    assert path.read_text() == f"{programs}\n"
    assert (ROOT / "constraints.txt").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inputs", "code", "title"),
    [
        ({"not-worse": "2", "require": "accuracy=80 ece=30"}, 3, "requirement"),
        ({"old": "", "require": "accuracy=60", "format": "junit"}, 0, ""),
        ({"not-worse": "30", "by": "question", "output": "the result.txt"}, 0, ""),
        ({"require": "accuracy=60 *"}, 2, ""),
    ],
)
def test_the_action_for_runs_judges_a_release(
    tmp_path: Path, runner_temp: Path, inputs: dict[str, str], code: int, title: str
) -> None:
    for name, right in (("new", 210), ("old", 240)):
        chances = [0.8 if at < right else 0.2 for at in range(300)]
        rows = [
            {"id": str(at), "question": "ab"[at % 2], "reference": 0, "probabilities": [p, 1 - p]}
            for at, p in enumerate(chances)
        ]
        write_jsonl(tmp_path / f"{name} run.jsonl", rows)
    words = {"new": "new run.jsonl", "old": "old run.jsonl"} | inputs
    done = run_action(RELEASE, tmp_path, runner_temp, words)
    assert done.returncode == code, done.stderr
    if title:
        assert title in {shown.code for shown in github_annotations(done.stdout)}
    assert (tmp_path / "the result.txt").exists() == ("output" in inputs)


def test_an_input_is_one_word_and_no_option(tmp_path: Path, runner_temp: Path) -> None:
    done = audited_by_action(tmp_path, runner_temp, data="--help; touch here")
    assert done.returncode == 1
    (shown,) = github_annotations(done.stdout)
    assert_says(shown.message, "--help; touch here", "no such file or folder")
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("code", [0, 3, 4, 1])
@pytest.mark.parametrize("writes", [0, 1])
def test_the_workflow_comments_and_ends_as_the_gate_does(
    tmp_path: Path, code: int, writes: int
) -> None:
    (step,) = [step for step in workflow_steps() if step.get("name") == "Has accuracy drifted?"]
    stubs = (
        f'pact-eval() {{ echo summary >> "$GITHUB_STEP_SUMMARY"; return {code}; }}\n'
        f'gh() {{ echo "$@" > called; cp comment.md posted; return {writes}; }}\n'
    )
    done = in_bash(stubs + step["run"], tmp_path, NUMBER="7", GH_TOKEN="")
    assert done.returncode == code, done.stderr
    assert (tmp_path / "posted").read_text() == "summary\n"
    assert (tmp_path / "called").read_text() == "pr comment 7 --body-file comment.md\n"
    assert ("::warning::" in done.stdout) == bool(writes)


@pytest.mark.slow
@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: str(hook["id"]))
def test_a_hook_passes_sound_data_and_stops_spoiled_data(
    hook: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = healthy(families=6).write(tmp_path / "data")
    arguments: list[str] = hook["args"]
    program, *words = [*shlex.split(hook["entry"]), *arguments]
    run = runner(PROGRAMS[program])
    run(*words)
    with (folder / "holdout.jsonl").open("a") as file:
        file.write("{}\n")
    run(*words, code=5)
