"""Steps of experiments as forks of one process that has imported torch: a start takes 0.1 s.

The imports of torch, transformers and PEFT take 6 s of processor time, and a scoring of a few
records less than one. Within `forked_steps`, an experiment starts `step_client.py` in place of
`python -m MODULE`. The client asks the server here for a fork, which runs the module with the
client's folder, environment and files. `test_kills.py` starts the same steps as users do, and
compares all files with those of forks.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import step_client

from pact_eval.experiments import processes
from pact_eval.experiments.devices import step_environment

_OURS = {"pact-eval": "pact_cli", "pact-audit": "pact_cli.audit"}
_MODULE = ("python", "-P", "-m")
_IMPORTED = (
    *("pact_cli.main", "pact_cli.audit.main", "pact_cli.score", "pact_cli.report"),
    *("pact_cli.paper", "pact_cli.calibrate", "pact_eval.scoring.workers.source"),
    *("pact_eval.training.recipe", "pact_eval.experiments.__main__", "peft.tuners.lora.bnb"),
    *("pact_eval.evaluation.answers", "pact_reports.presenters.run_report"),
    *("pact_reports.writers.terminal", "transformers.models.qwen3.modeling_qwen3"),
)


@contextmanager
def forked_steps() -> Iterator[None]:
    """Steps that are commands of ours start as forks, on Linux; elsewhere, forks are not safe."""
    with pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux":
            patch.setattr(processes, "_program", _program)
        yield


def _program(words: tuple[str, ...]) -> list[str]:
    """Return what starts a step."""
    client = [sys.executable, "-S", "-E", "-P", step_client.__file__, _address()]
    if words[0] in _OURS:
        return [*client, _OURS[words[0]], *words[1:]]
    if words[: len(_MODULE)] == _MODULE and words[len(_MODULE)].startswith("pact_"):
        return [*client, *words[len(_MODULE) :]]
    return [*words]


@functools.cache
def _address() -> str:
    """Start the server of this process, once; it ends with this process."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    address = f"{folder}/socket"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    command = [sys.executable, "-P", __file__, str(listener.fileno())]
    environment = step_environment(threads=1)
    environment["PYTHONPATH"] = str(Path(__file__).parent)
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], env=environment
    )
    listener.close()
    atexit.register(server.wait)
    assert server.stdin is not None
    atexit.register(server.stdin.close)  # the last one is called first
    return address


def _serve(listener: socket.socket) -> None:
    """Fork for every client until standard input is closed."""
    for module in _IMPORTED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    while True:
        ready = select.select([listener, sys.stdin], [], [], 1)[0]
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if sys.stdin in ready:
            return
        if listener in ready:
            connection = listener.accept()[0]
            if not os.fork():
                listener.close()
                _run(connection)
            connection.close()


def _run(connection: socket.socket) -> None:
    """Run the module of a client, send the exit code, and end.

    An exception ends the process with its traceback, and the client gets no exit code.
    """
    files = socket.recv_fds(connection, 1, 3)[1]
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    order = json.loads(connection.makefile("rb").readline())
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    code = _exit_code(order["words"])
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    connection.sendall(bytes([code]))
    os._exit(code)


def _end_with(connection: socket.socket) -> None:
    """End this process when the client does."""
    connection.recv(1)
    os._exit(1)


def _exit_code(words: list[str]) -> int:
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    sys.argv = words
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
