"""Scoring tells OpenMP not to spin, before torch is loaded, unless the user has decided."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

# The package comes before its modules, so torch alone shows what every one of them finds.
LIBRARY = ("-c", "import pact_eval.scoring, torch")
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


@pytest.mark.parametrize("start", [COMMAND, LIBRARY], ids=["command", "library"])
@pytest.mark.parametrize("own", [{}, {"OMP_WAIT_POLICY": "ACTIVE"}], ids=["unset", "own"])
def test_openmp_waits_passively_unless_the_user_has_decided(
    start: tuple[str, ...], own: dict[str, str]
) -> None:
    assert policies(start, **own) == {own.get("OMP_WAIT_POLICY", "PASSIVE")}
