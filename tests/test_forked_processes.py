"""Forks against plain processes of Python: what they print, how they end, and that kills kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from forked_processes import fork_of, forked

pytestmark = [pytest.mark.slow, pytest.mark.posix]

SEEN = """
import os, sys, threading
print(__name__, sys.argv, sys.path[:2], os.getcwd(), sys.orig_argv[1:])
print(os.environ["PACT_TEST_SEEN"])
print(sys.stdout.line_buffering, sys.stdin.read(), file=sys.stderr)
import atexit; atexit.register(print, "at exit")
threading.Timer(0.1, print, ["of a thread"]).start()
"""
ENDS = (
    *("raise SystemExit", "raise SystemExit(7)", "raise SystemExit('a message')", "1 / 0"),
    *("import os; os._exit(9)", "raise KeyboardInterrupt", "print('no end of line', end='')"),
    *("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "os"),
)
OF_LIBRARIES = ("KMP_", "TORCHINDUCTOR_", "PYTORCH_NVML_")
WAIT = "import time\nprint('ready', flush=True)\ntime.sleep(120)"
CLEAN = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print("ready", flush=True)
time.sleep(120)
"""


def plain(*words: str) -> list[str]:
    return [sys.executable, *words[1:]]


def ended(command: list[str], folder: Path) -> tuple[int, str, str]:
    environment = os.environ | {"PACT_TEST_SEEN": "value", "PYTHONPATH": "somewhere"}
    done = subprocess.run(
        command, input="input", capture_output=True, text=True, cwd=folder, env=environment
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("code", [SEEN, *ENDS])
def test_code_ends_as_in_a_plain_process(code: str, tmp_path: Path) -> None:
    words = ("python", "-c", code, "word", "-m")
    assert ended(forked(*words), tmp_path) == ended(plain(*words), tmp_path)


def test_a_script_and_a_module_see_what_they_see_in_a_plain_process(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    for name in ("script.py", "package/__main__.py"):
        (tmp_path / name).write_text(SEEN + "print(__file__)\n")
    (tmp_path / "package/__init__.py").write_text("import sys; print(__name__, sys.argv)\n")
    for words in (
        ("python", "script.py", "word"),
        ("python", "-P", str(tmp_path / "script.py")),
        ("python", "-m", "package", "word"),
    ):
        assert ended(forked(*words), tmp_path) == ended(plain(*words), tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("code", [WAIT, CLEAN])
def test_a_signal_ends_a_fork_as_a_plain_process(code: str, number: signal.Signals) -> None:
    codes: list[object] = []
    for command in (forked("python", "-c", code), plain("python", "-c", code)):
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            fork = fork_of(process) if not codes else psutil.Process(process.pid)
            assert fork is not None
            process.send_signal(number)
            output, errors = process.communicate()
            codes.append((process.returncode, output, errors.splitlines()[-1:]))
            assert psutil.wait_procs([fork], timeout=60)[1] == []
    assert codes[0] == codes[1]


def test_a_killed_fork_kills_its_client() -> None:
    command = forked("python", "-c", WAIT)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        fork = fork_of(process)
        assert fork is not None
        fork.kill()
        assert process.wait() == -signal.SIGKILL


def test_another_environment_of_libraries_is_read_by_a_plain_process() -> None:
    code = "import sys; print('torch' in sys.modules)"
    for more, imported in (({}, "True"), ({"HF_HUB_OFFLINE": "0"}, "False")):
        done = subprocess.run(
            forked("python", "-c", code), env=os.environ | more, capture_output=True, text=True
        )
        assert done.stdout == f"{imported}\n"


def test_a_library_that_a_test_imports_leaves_forks_forks() -> None:
    """With the variables of sklearn, forks were plain processes."""
    code = (
        "import json, os; before = dict(os.environ); import sklearn, pytorch_lightning; "
        "print(json.dumps({n: v for n, v in os.environ.items() if before.get(n) != v}))"
    )
    bare = {name: value for name, value in os.environ.items() if not name.startswith(OF_LIBRARIES)}
    done = subprocess.run(forked("python", "-c", code), env=bare, capture_output=True, text=True)
    set_by_them = json.loads(done.stdout)
    assert set_by_them
    set_by_them["TORCHINDUCTOR_CACHE_DIR"] = "of PEFT"
    code = "import sys; print('torch' in sys.modules)"
    for environment in (bare, os.environ | set_by_them):
        command = forked("python", "-c", code)
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.stdout == "True\n"


def test_forks_end_with_the_process_of_their_server(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time; from forked_processes import forked; "
        "subprocess.Popen(forked('python', '-c', sys.argv[1])); time.sleep(120)"
    )
    fork = f"import os; print(os.getpid(), flush=True)\n{WAIT}"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(
        [sys.executable, "-c", code, fork], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        number = int(process.stdout.readline())
        process.kill()
    until = time.monotonic() + 60
    while psutil.pid_exists(number):
        assert time.monotonic() < until
        time.sleep(0.05)
