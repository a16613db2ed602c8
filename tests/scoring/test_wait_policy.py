"""Idle OpenMP threads spin shortly, or not on a busy machine, unless the user has decided."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from pact_eval.scoring.waiting import (
    NO_SPIN,
    SHORT_SPIN,
    other_tasks,
    own_cores,
    set_wait_policy,
)
from scoring.conftest import HOLDOUT

# The package comes before its modules, so torch alone shows what every one of them finds.
LIBRARY = ("-c", "import pact_eval.scoring, torch")
EXPORT = ("-c", "import pact_eval.export")
TRAINING = ("-c", "import pact_eval.training.recipe_model")
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "start",
    [COMMAND, LIBRARY, EXPORT, TRAINING],
    ids=["command", "library", "export", "training"],
)
def test_openmp_waits_passively_and_spins_shortly_or_not_at_all(start: tuple[str, ...]) -> None:
    """The load of the machine that runs this test decides which."""
    values = dict(settings(start))
    assert values["OMP_WAIT_POLICY"] == "PASSIVE"
    assert values["GOMP_SPINCOUNT"] in (SHORT_SPIN, NO_SPIN)


@pytest.mark.parametrize(("others", "spin"), [(0, SHORT_SPIN), (1, NO_SPIN), (40, NO_SPIN)])
def test_the_load_at_the_start_decides(others: int, spin: str) -> None:
    environment: dict[str, str] = {}
    set_wait_policy(environment, lambda: others)
    assert environment == {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": spin}


def test_busy_processes_are_counted_and_a_moment_of_them_is_not() -> None:
    """Planted in the text of the system: idle, busy, one busy moment, and none to be read."""
    cores = (os.cpu_count() or 1) - own_cores()

    def looks(*running: int) -> Callable[[], str]:
        texts = iter(f"0.1 0.1 0.1 {count + cores}/300 77\n" for count in running)
        return lambda: next(texts)

    assert other_tasks(looks(*[1] * 5)) == 0
    assert other_tasks(looks(*[3] * 5)) == 2
    assert other_tasks(looks(1, 4, 1, 1, 5)) == 0
    assert other_tasks(looks(2, 1, 2, 2, 1)) == 1
    for text in ("", "0.1", "0.1 0.1 0.1 many/300 77"):
        assert other_tasks(lambda text=text: text) == 0  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["ACTIVE", "PASSIVE"])
def test_openmp_waits_as_the_user_has_decided(policy: str) -> None:
    result = dict(settings(LIBRARY, OMP_WAIT_POLICY=policy))
    assert result["OMP_WAIT_POLICY"] == policy
    assert result["GOMP_SPINCOUNT"] != SHORT_SPIN
    assert dict(settings(LIBRARY, GOMP_SPINCOUNT="50"))["GOMP_SPINCOUNT"] == "50"


AT_TORCH = """
import importlib, importlib.abc, importlib.machinery, os, sys

class Guard(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == "torch" else None

    def exec_module(self, module):
        print("torch", os.environ.get("OMP_WAIT_POLICY"), flush=True)
        os._exit(0)

sys.meta_path.insert(0, Guard())
importlib.import_module(sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        "pact_eval.scoring.model", "pact_eval.training.recipe", "pact_eval.training.recipe_model",
        "pact_eval.export", "pact_fixtures.training.base",
    ],
)  # fmt: skip
def test_the_policy_is_set_before_torch_is_loaded(module: str) -> None:
    """OpenMP reads it once: afterwards, idle threads of two trainings may wait for each other."""
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    words = [sys.executable, "-c", AT_TORCH, module]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "torch PASSIVE\n"
