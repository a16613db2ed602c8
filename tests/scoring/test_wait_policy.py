"""Idle OpenMP threads spin for a short time only, unless the user has decided."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from scoring.conftest import HOLDOUT

pytestmark = pytest.mark.slow

# The package comes before its modules, so torch alone shows what every one of them finds.
LIBRARY = ("-c", "import pact_eval.scoring, torch")
COMMAND = ("-m", "pact_cli", "score", "missing-adapter", "--data", str(HOLDOUT), "--out", "run")
NAMES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def settings(start: tuple[str, ...], **environment: str) -> set[tuple[str, str]]:
    """Start Python, and return what its OpenMP runtimes report of the two variables."""
    inherited = {name: value for name, value in os.environ.items() if name not in NAMES}
    done = subprocess.run(
        [sys.executable, *start],
        env=inherited | {"OMP_DISPLAY_ENV": "VERBOSE"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return set(re.findall(rf"({'|'.join(NAMES)})\s*=\s*'(\w+)'", done.stderr))


@pytest.mark.parametrize("start", [COMMAND, LIBRARY], ids=["command", "library"])
def test_openmp_waits_passively_after_a_short_spin(start: tuple[str, ...]) -> None:
    assert settings(start) == {("OMP_WAIT_POLICY", "PASSIVE"), ("GOMP_SPINCOUNT", "3000")}


@pytest.mark.parametrize("policy", ["ACTIVE", "PASSIVE"])
def test_openmp_waits_as_the_user_has_decided(policy: str) -> None:
    result = dict(settings(LIBRARY, OMP_WAIT_POLICY=policy))
    assert result["OMP_WAIT_POLICY"] == policy
    assert result["GOMP_SPINCOUNT"] != "3000"


def test_a_spin_that_the_user_has_set_is_kept() -> None:
    assert dict(settings(LIBRARY, GOMP_SPINCOUNT="50"))["GOMP_SPINCOUNT"] == "50"
