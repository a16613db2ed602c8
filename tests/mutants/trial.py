"""One mutant in a copy of the tree, and tests in a fork that has the libraries already."""

from __future__ import annotations

import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from coverage import Coverage
from mutants.drawing import Mutant
from mutants.reach import Reach

_PYTEST: Final = (
    *("-q", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-seed=0"),
    *("-m", "not slow"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # a fork has the libraries already
)
_FAST: Final = "--hypothesis-profile=fast"  # of tests/conftest.py, which doctests do not load
_NOT_IMPORTABLE: Final = 99
_OUTCOMES: Final = {
    0: "survived",
    1: "killed",
    2: "killed",  # while the tests were collected
    _NOT_IMPORTABLE: "not importable",
    -signal.SIGXCPU: "killed by the time limit",
}
_CPU_SECONDS: Final = 60
_WALL_SECONDS: Final = 240


class TrialError(Exception):
    """The tests fail without a mutant, or could not run."""


def copied(root: Path, copy: Path) -> Path:
    """Copy what git knows or would add, and compile it once for all mutants."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (root / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name)
    subprocess.run([sys.executable, "-m", "compileall", "-q", copy], check=False)
    return copy


def reached(copy: Path, folder: str, tests: tuple[str, ...]) -> dict[str, dict[int, list[str]]]:
    """Run fast tests without a mutant; return which of them run each line of each file.

    The libraries that they load are loaded into this process, for the forks to come.

    Raises:
        TrialError: a test fails.
    """
    answer, log = copy.parent / "reach.json", copy.parent / "reach.txt"

    def measure() -> int:
        coverage = Coverage(data_file=None, source=[str(copy / folder)])
        reach = Reach(coverage)
        coverage.start()
        code = pytest.main([*_PYTEST, _FAST, folder, *tests], plugins=[reach])
        coverage.stop()
        modules = [name for name, module in sys.modules.items() if _is_library(module)]
        answer.write_text(json.dumps({"lines": reach.lines(), "modules": modules}), "utf-8")
        return int(code)

    if _forked(copy, measure, log, cpu=1_800, wall=3_600) != 0:
        message = f"{log.read_text('utf-8')[-4_000:]}\nthe tests of {folder} fail without a mutant"
        raise TrialError(message)
    content = json.loads(answer.read_text("utf-8"))
    for name in content["modules"]:
        with suppress(Exception):  # what does not load here is loaded by the tests
            importlib.import_module(name)
    return {
        path: {int(line): names for line, names in lines.items()}
        for path, lines in content["lines"].items()
    }


def outcome(copy: Path, mutant: Mutant, tests: list[str]) -> str:
    """Run tests on a mutant: "survived", "not importable", or how it was killed.

    Raises:
        TrialError: the tests could not run.
    """
    if not tests:
        return "survived"
    path, log = copy / mutant.path, copy.parent / "mutant.txt"
    original = path.with_name(f"{path.name}.original")
    path.rename(original)
    path.write_text(mutant.code, "utf-8")
    try:
        code = _forked(copy, lambda: _tested(mutant, tests), log)
    finally:
        path.unlink()
        original.rename(path)
    if code not in _OUTCOMES and code >= 0:
        message = f"{log.read_text('utf-8')[-4_000:]}\nthe tests could not run on {mutant}"
        raise TrialError(message)
    return _OUTCOMES.get(code, "killed by a signal")


def _is_library(module: Any) -> bool:
    return "site-packages" in (getattr(module, "__file__", None) or "")


def _tested(mutant: Mutant, tests: list[str]) -> int:
    module = mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    try:
        importlib.import_module(module)
    except Exception:  # noqa: BLE001  # any test would notice, so such a mutant says nothing
        return _NOT_IMPORTABLE
    fast = [_FAST] if any(test.startswith("tests/") for test in tests) else []
    return int(pytest.main([*_PYTEST, "-x", *fast, *tests]))


def _forked(
    copy: Path,
    work: Callable[[], int],
    log: Path,
    *,
    cpu: int = _CPU_SECONDS,
    wall: float = _WALL_SECONDS,
) -> int:
    """Do work in a fork of this process, inside the copy; return its exit status or -signal."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            _enter(copy, log, cpu)
            code = work()
        except BaseException:  # noqa: BLE001  # a fork must not go on with what its parent does
            traceback.print_exc()
        finally:
            os._exit(code)
    until = time.monotonic() + wall
    ended, status = 0, 0
    while not ended and time.monotonic() < until:
        time.sleep(0.02)
        ended, status = os.waitpid(child, os.WNOHANG)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # also what the tests started and left
    if not ended:
        os.waitpid(child, 0)
        return -signal.SIGXCPU
    return os.waitstatus_to_exitcode(status)


def _enter(copy: Path, log: Path, cpu: int) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))
    os.chdir(copy)
    output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.dont_write_bytecode = True
    roots = [str(copy / name) for name in ("", "cli", "reports", "fixtures")]
    sys.path[:0] = roots
    os.environ["PYTHONPATH"] = os.pathsep.join(roots)
