"""Without POSIX: every module is imported, commands run, and a second writer is noticed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from adapters import MODEL

FIXTURES = MODEL.parent

# Libraries have other means on Windows: only our modules do not see what POSIX has.
WITHOUT_POSIX = """
import builtins, os, signal, sys
from types import ModuleType

OURS = ("pact_eval", "pact_losses", "pact_cli", "pact_reports", "pact_fixtures")
PORTABLE = ("SIGINT", "SIGTERM", "SIGABRT", "SIGFPE", "SIGILL", "SIGSEGV")
POSIX = ("alarm", "setitimer", "pthread_sigmask", "siginterrupt", "sigwait", "fork", "forkpty",
         "killpg", "mkfifo", "O_NONBLOCK", "sched_getaffinity", "getuid", "statvfs")

def portable(module):
    hidden = ModuleType(module.__name__)
    hidden.__dict__.update({
        name: value for name, value in vars(module).items()
        if name not in POSIX and (not name.startswith("SIG") or name in PORTABLE)
    })
    return hidden

shown = {"signal": portable(signal), "os": portable(os)}
real = builtins.__import__

def without_posix(name, globals=None, locals=None, fromlist=(), level=0):
    if (globals or {}).get("__name__", "").partition(".")[0] in OURS and not level:
        if name in ("fcntl", "resource", "pwd", "grp", "termios", "pty", "posix"):
            raise ModuleNotFoundError(name)
        if name in shown:
            return shown[name]
    return real(name, globals, locals, fromlist, level)

builtins.__import__ = without_posix
"""

IMPORT_ALL = """
import importlib, pkgutil

names = list(OURS)
for package in map(importlib.import_module, OURS):
    walked = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    names += [module.name for module in walked if not module.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""

COMMANDS = """
from pact_cli.audit.main import main as audit
from pact_cli.main import main

fixtures, out = sys.argv[1:]
data, adapters = f"{fixtures}/data/holdout.jsonl", f"{fixtures}/adapters"
few = ("--data", data, "--limit", "24", "--k", "2")
run = ("score", f"{adapters}/pact", *few, "--out", f"{out}/run")
for program, *words in (
    (audit, "data", f"{fixtures}/data"),
    (audit, "adapter", f"{adapters}/pact"),
    (main, *run),
    (main, *run),
    (main, "report", f"{out}/run", "--resamples", "100", "--html", f"{out}/page.html"),
    (main, "sweep", f"{out}/run"),
    (main, "calibrate", f"{out}/run", "--force", "--out", f"{out}/t.json"),
    (main, "verify", f"{out}/run", "--data", data),
):
    try:
        code = program(words, standalone_mode=False) or 0
    except SystemExit as stop:
        code = stop.code
    assert code == 0, (words, code)

from pact_eval.errors import RunError
from pact_eval.runs.folder import RunWriter
from pathlib import Path

with RunWriter(Path(out, "two"), {"k": 1}, {}):
    try:
        RunWriter(Path(out, "two"), {"k": 1}, {})
    except RunError as error:
        print("noticed" if "another process is writing" in str(error) else error)
"""


def output(*parts: object, code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX + code, *map(str, parts)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow
def test_every_module_is_imported() -> None:
    assert int(output(code=IMPORT_ALL)) > 200


@pytest.mark.slow
def test_the_fixture_commands_run_and_a_second_writer_is_refused(tmp_path: Path) -> None:
    lines = output(FIXTURES, tmp_path, code=COMMANDS).splitlines()
    assert lines[-1] == "noticed"
    assert (tmp_path / "page.html").stat().st_size > 100_000
