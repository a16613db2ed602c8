"""Commands as forks of one process that has imported torch: a start takes 0.1 s.

The imports of torch, transformers and PEFT take 6 s of processor time, and a scoring of a few
records less than one. `forked` turns the words of `pact-eval`, `pact-audit` or `python` into a
command line of `fork_client.py`, which asks the server of this test process (`fork_server.py`) for
a fork, and stands for it: files, signals, kills and exit codes are those of the fork. Forks are
safe on Linux only; elsewhere the command is the plain one.

Tests of imports, of start-up and of what is read at the start of a process keep plain processes.
Each kind of claim that forks check has a test that starts its process as users do.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import fork_client
import fork_server
import psutil
import pytest

from pact_eval.experiments import processes

_OURS = {"pact-eval": "pact_cli", "pact-audit": "pact_cli.audit"}


def forked(*words: object) -> list[str]:
    """Return the command line that runs a command as a fork.

    Args:
        words: `pact-eval` or `pact-audit` with its words; or `python` with `-m MODULE`, `-c CODE`
            or a script, and their words. An option `-P` may come first.
    """
    program, *rest = map(str, words)
    python = ["-m", _OURS[program], *rest] if program in _OURS else rest
    if sys.platform != "linux":
        return [sys.executable, *python]
    return [sys.executable, "-S", "-E", "-P", fork_client.__file__, server()[0], *python]


def fork_of(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> psutil.Process | None:
    """Return the fork that a client stands for, or the process itself; None before it forks."""
    if sys.platform != "linux":
        return psutil.Process(process.pid)
    forks = psutil.Process(server()[1]).children()
    names = (fork for fork in forks if fork.name() == fork_server.name_of(process.pid))
    return next(names, None)


@contextmanager
def forked_steps() -> Iterator[None]:
    """Steps of experiments that are commands of ours start as forks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "_program", _program_of_step)
        yield


def _program_of_step(words: tuple[str, ...]) -> list[str]:
    is_module = words[:3] == ("python", "-P", "-m") and words[3].startswith("pact_")
    return forked(*words) if is_module or words[0] in _OURS else [*words]


@functools.cache
def server() -> tuple[str, int]:
    """Start the server of this process once; return its address and its process id.

    It ends with this process.
    """
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    address = f"{folder}/socket"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    command = [sys.executable, "-P", fork_server.__file__, str(listener.fileno())]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], env=environment
    )
    listener.close()
    atexit.register(process.wait)
    assert process.stdin is not None
    atexit.register(process.stdin.close)  # the last one is called first
    return address, process.pid
