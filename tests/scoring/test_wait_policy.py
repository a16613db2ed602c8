"""Scoring tells OpenMP not to spin, before torch is loaded, unless the user has decided."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

LIBRARY = ("-c", "import pact_eval.scoring.score")
COMMAND = ("-m", "pact_cli", "score", "missing-adapter", "--data", "missing.jsonl", "--out", "run")


def policies(start: tuple[str, ...], **environment: str) -> set[str]:
    """Start Python, and return the wait policies that its OpenMP runtimes report."""
    inherited = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run(
        [sys.executable, *start],
        env=inherited | {"OMP_DISPLAY_ENV": "TRUE"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return set(re.findall(r"OMP_WAIT_POLICY\s*=\s*'(\w+)'", done.stderr))


def test_openmp_waits_passively_when_scoring_starts() -> None:
    assert policies(COMMAND) == {"PASSIVE"}


def test_the_users_own_policy_is_kept() -> None:
    assert policies(LIBRARY, OMP_WAIT_POLICY="ACTIVE") == {"ACTIVE"}
