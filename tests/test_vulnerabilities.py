"""The check of known vulnerabilities says what was checked, and never passes without a check."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import vulnerabilities
import yaml
from messages import assert_says
from vulnerabilities import read_audit

WORKFLOW = Path(__file__).parents[1] / ".github" / "workflows" / "test.yml"

# As pip-audit 2.10.1 writes them.
SAFE = {"name": "numpy", "version": "2.4.0", "vulns": []}
UNKNOWN = {
    "name": "absl-py",
    "skip_reason": "Dependency not found on PyPI and could not be audited: absl-py (2.5.1)",
}
VULNERABLE = {
    "name": "flask",
    "version": "0.5",
    "vulns": [
        {"id": "PYSEC-2019-179", "fix_versions": ["1.0"], "aliases": [], "description": "..."},
        {"id": "PYSEC-2018-66", "fix_versions": [], "aliases": [], "description": "..."},
    ],
}


def audit(*packages: object) -> vulnerabilities.Audit:
    return read_audit(json.dumps({"dependencies": packages, "fixes": []}), "")


def test_versions_that_were_checked_are_counted() -> None:
    assert audit(SAFE).exit_code == 0
    assert audit(SAFE).text.splitlines()[0] == "checked: 1 versions, 0 vulnerable"
    assert "not checked: torch" in audit(SAFE).text


def test_without_an_answer_of_pypi_nothing_passes() -> None:
    """pip-audit says "No known vulnerabilities found" then, and ends with 0."""
    for packages in ([UNKNOWN], [UNKNOWN, SAFE]):
        result = audit(*packages)
        assert result.exit_code == 4
        assert_says(result.text, "not checked", "no answer", "(absl-py)")
    assert audit().exit_code == 4


def test_a_vulnerable_version_fails_whatever_else_was_not_checked() -> None:
    result = audit(SAFE, UNKNOWN, VULNERABLE)
    assert result.exit_code == 1
    parts = ("vulnerable: flask 0.5", "PYSEC-2019-179", "1.0", "PYSEC-2018-66", "no version")
    assert_says(result.text.splitlines()[0], *parts)


def test_a_traceback_of_pip_audit_is_one_line() -> None:
    errors = "Traceback (most recent call last):\n  ...\nProxyError: cannot connect to pypi.org\n"
    result = read_audit("", errors)
    assert result.exit_code == 4
    assert_says(result.text, "not checked", "no result", "ProxyError")


def test_a_program_that_cannot_run_pip_audit_is_not_a_check() -> None:
    """A real program that is not uv."""
    script = Path(vulnerabilities.__file__)
    result = subprocess.run(
        [sys.executable, str(script), sys.executable], capture_output=True, text=True
    )
    assert result.returncode == 4
    assert_says(result.stdout, "not checked", "no result")
    assert "Traceback" not in result.stdout + result.stderr


@pytest.mark.posix
@pytest.mark.parametrize(
    ("packages", "code", "warning"),
    [([SAFE], 0, False), ([UNKNOWN, SAFE], 0, True), ([], 0, True), ([VULNERABLE], 1, False)],
)
def test_the_ci_job_warns_of_what_was_not_checked_and_fails_for_a_vulnerable_version(
    packages: list[object], code: int, warning: bool, tmp_path: Path
) -> None:
    """The commands of the workflow, with what pip-audit would write."""
    job = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]["locked"]
    (step,) = (step for step in job["steps"] if "vulnerabilities" in step.get("name", ""))
    written = json.dumps({"dependencies": packages})
    uv, python = tmp_path / "uv", tmp_path / "python"
    uv.write_text(f"#!/bin/sh\ncat <<'END'\n{written}\nEND\n")
    python.write_text(f'#!/bin/sh\n[ "$2" = pip ] || exec {sys.executable} "$@"\n')
    for program in (uv, python):
        program.chmod(0o755)
    (tmp_path / "tests").symlink_to(Path(vulnerabilities.__file__).parent)
    result = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert result.returncode == code, result.stderr
    assert ("::warning::not checked" in result.stdout) == warning
