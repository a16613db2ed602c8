"""Server of `forked_processes.py`: it imports our modules once, and forks for every client.

A fork runs the words of a Python as a new process would: `__main__`, `sys.argv`, `sys.path`,
folder, environment, files, signals, uncaught exceptions and the end of Python itself. What it
inherits is the modules that are imported, and the seed of hashes.

The server watches every fork and every client. It sends the status of a fork that has ended to its
client, and kills the fork of a client that is gone.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import random
import runpy
import selectors
import signal
import socket
import sys
import threading
import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

_IMPORTED = (
    *("pact_cli.main", "pact_cli.audit.main", "pact_cli.score", "pact_cli.report"),
    *("pact_cli.paper", "pact_cli.calibrate", "pact_eval.scoring.workers.source"),
    *("pact_eval.training.recipe", "pact_eval.experiments.__main__", "peft.tuners.lora.bnb"),
    *("pact_eval.evaluation.run_comparisons", "pact_reports.presenters.run_report"),
    *("pact_reports.writers.terminal", "transformers.models.qwen3.modeling_qwen3"),
)
# Libraries read these when they are imported. The number of threads is set in the fork.
_READ_AT_IMPORT = (
    *("HF_", "HUGGING", "TRANSFORMERS_", "TORCH", "PYTORCH_", "CUDA_", "MKL_", "OPENBLAS_"),
    *("OMP_", "KMP_", "GOMP_", "MPL", "MALLOC_", "LD_", "PYTHON"),
)
_MAY_DIFFER = (
    *("TORCHELASTIC_", "TORCH_NCCL_"),  # of torchrun
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONPATH"),
    *("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONBREAKPOINT"),
    # Set by sklearn, PEFT, Lightning and lm-eval themselves, when a test imports them.
    *("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK", "TORCHINDUCTOR_CACHE_DIR"),
    *("PYTORCH_NVML_BASED_CUDA_CHECK", "HF_XET_HIGH_PERFORMANCE"),
)
_PLAIN = (0).to_bytes(4, "big")


def name_of(client: int) -> str:
    """Return the name of the fork of a client in the list of processes."""
    return f"fork of {client}"[:15]


@dataclass(frozen=True)
class _Fork:
    """A fork and the connection to its client."""

    process: int
    watch: int
    connection: socket.socket


class _Server:
    """Server of forks until its standard input is closed.

    Args:
        listener: where clients connect.
        environment: what the imports of the server have read.
    """

    def __init__(self, listener: socket.socket, environment: Mapping[str, str]) -> None:
        self.listener = listener
        self.environment = environment
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ)
        self.selector.register(0, selectors.EVENT_READ)
        self.forks: dict[int, _Fork] = {}

    def serve(self) -> dict[str, Any] | None:
        """Fork for every client; return its order in the fork, and None when the server ends."""
        while True:
            for key, _ in self.selector.select():
                if key.fileobj == 0:
                    for fork in self.forks.values():
                        os.kill(fork.process, signal.SIGKILL)
                    return None
                if key.fileobj is self.listener:
                    if (order := self._accept()) is not None:
                        return order
                elif key.data.process in self.forks:
                    self._end(key.data, is_over=key.fileobj == key.data.watch)

    def _accept(self) -> dict[str, Any] | None:
        """Fork for a client; return its order in the fork."""
        connection = self.listener.accept()[0]
        files = socket.recv_fds(connection, 1, 3)[1]
        order = {}
        with suppress(ValueError), connection.makefile("rb") as lines:  # the client may be gone
            order = json.loads(lines.readline())
        process = os.fork() if order and self._can_fork(order["environment"]) else None
        if process == 0:
            self._close()
            connection.close()
            _take(order, files)
            return order
        for file in files:
            os.close(file)
        if process is None:
            connection.sendall(_PLAIN)
            connection.close()
        else:
            fork = _Fork(process, os.pidfd_open(process), connection)
            self.forks[process] = fork
            for source in (fork.watch, connection):
                self.selector.register(source, selectors.EVENT_READ, fork)
            self._tell(fork, process)
        return None

    def _can_fork(self, environment: Mapping[str, str]) -> bool:
        """Return whether the imports of a process with an environment would read the same."""
        return all(
            environment.get(name) == self.environment.get(name)
            for name in environment.keys() | self.environment.keys()
            if name.startswith(_READ_AT_IMPORT) and not name.startswith(_MAY_DIFFER)
        )

    def _end(self, fork: _Fork, *, is_over: bool) -> None:
        """Kill a fork whose client is gone; send a client how its fork has ended."""
        if not is_over:
            os.kill(fork.process, signal.SIGKILL)
        status = os.waitpid(fork.process, 0)[1]
        self._tell(fork, status)
        for source in (fork.watch, fork.connection):
            self.selector.unregister(source)
        os.close(fork.watch)
        fork.connection.close()
        del self.forks[fork.process]

    def _tell(self, fork: _Fork, number: int) -> None:
        with suppress(OSError):  # the client may be gone
            fork.connection.sendall(number.to_bytes(4, "big"))

    def _close(self) -> None:
        """Close what belongs to the server alone, in a fork."""
        self.selector.close()
        self.listener.close()
        for fork in self.forks.values():
            os.close(fork.watch)
            fork.connection.close()


def _take(order: dict[str, Any], files: list[int]) -> None:
    """Take over the files, folder, environment and process group of a client."""
    Path("/proc/self/comm").write_text(name_of(order["client"]))
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    with suppress(PermissionError):  # a group of another session
        os.setpgid(0, order["group"])
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            line_buffering = stream is sys.stderr or stream.isatty()
            stream.reconfigure(
                line_buffering=line_buffering,
                write_through=bool(os.environ.get("PYTHONUNBUFFERED")),
            )
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _run_to_end(words: list[str]) -> NoReturn:
    """Run the words of a Python and end as it does.

    To tear down the inherited modules would take 0.3 s: all that is left out of the end of Python.
    """
    code, number = 0, 0
    try:
        _run(words)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            sys.stderr.write(f"{error.code}\n")
    except BaseException as error:  # noqa: BLE001 -- whatever it is, Python shows it
        code, number = 1, signal.SIGINT if isinstance(error, KeyboardInterrupt) else 0
        sys.excepthook(type(error), error.with_traceback(user := _of_user(error)), user)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    if number:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(code)


def _of_user(error: BaseException) -> types.TracebackType | None:
    """Return the traceback of an error without what runs the words of a Python."""
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename not in (__file__, "<frozen runpy>"):
            return traceback
        traceback = traceback.tb_next
    return None


def _run(words: list[str]) -> None:
    """Run the words of a Python."""
    import numpy as np
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    np.random.seed(random.getrandbits(32))  # noqa: NPY002 -- the state of old code
    added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [str(Path(folder).absolute()) for folder in added if folder]
    is_safe = words[0] == "-P"
    option, *rest = words[is_safe:]
    if option == "-m":
        first, sys.argv = str(Path.cwd()), ["-m", *rest[1:]]
    elif option == "-c":
        first, sys.argv = "", ["-c", *rest[1:]]
    else:
        first, sys.argv = str(Path(option).parent.resolve()), [option, *rest]
    if not is_safe:
        sys.path.insert(0, first)
    sys.orig_argv = [sys.executable, *words]
    if option == "-m":
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif option == "-c":
        _run_code(rest[0], "<string>")
    else:
        _run_code(Path(option).read_bytes(), str(Path(option).absolute()))


def _run_code(code: str | bytes, file: str) -> None:
    module = types.ModuleType("__main__")
    if file != "<string>":
        module.__file__ = file
    sys.modules["__main__"] = module
    exec(compile(code, file, "exec"), module.__dict__)  # noqa: S102 -- as Python does


def _import_all() -> None:
    for module in _IMPORTED:
        importlib.import_module(module)
    for name in [name for name in sys.modules if name.endswith(".__main__")]:
        del sys.modules[name]  # a fork runs it
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    environment = dict(os.environ)  # imports change it
    _import_all()
    server = _Server(socket.socket(fileno=int(sys.argv[1])), environment)
    if (order := server.serve()) is not None:
        _run_to_end(order["words"])
