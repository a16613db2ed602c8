"""Client of `fork_server.py`: it stands for a fork, ADDRESS WORD..., as if it were that process.

It passes on its folder, environment and files; it forwards signals to the fork, and ends as the
fork does. If this process is killed, the server kills the fork.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys

_FORWARDED = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH),
)


class _Forwarding:
    """Forwarding of signals to a fork; those that come before it is known wait for it."""

    def __init__(self) -> None:
        self.fork = 0
        self.waiting: list[int] = []
        for number in _FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._forward)

    def start(self, fork: int) -> None:
        """Forward from now on."""
        self.fork = fork
        while self.waiting:
            self._forward(self.waiting.pop(0))

    def _forward(self, number: int, _frame: object = None) -> None:
        if self.fork == 0:
            self.waiting.append(number)
            return
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.kill(self.fork, number)


def run_as_fork(address: str, words: list[str]) -> int:
    """Have the server fork and run the words of a Python; return the status of the fork's end.

    If the environment is not one that the server can give a fork, this process becomes a plain one.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        forwarding = _Forwarding()
        order: dict[str, object] = {"words": words, "environment": dict(os.environ)}
        order["folder"] = os.getcwd()  # noqa: PTH109 -- pathlib is slow to import
        order["client"], order["group"] = os.getpid(), os.getpgrp()
        socket.send_fds(connection, [b"."], [0, 1, 2])
        connection.sendall(json.dumps(order).encode() + b"\n")
        fork = _number(connection)
        if fork == 0:
            connection.close()
            os.execv(sys.executable, [sys.executable, *words])  # noqa: S606
        forwarding.start(fork)
        return _number(connection)


def _number(connection: socket.socket) -> int:
    data = connection.recv(4)
    if len(data) < 4:
        sys.exit("the fork server has ended")
    return int.from_bytes(data, "big")


def end_as(status: int) -> None:
    """End this process with the exit code, or by the signal, of a status of `os.waitpid`."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    end_as(run_as_fork(sys.argv[1], sys.argv[2:]))
