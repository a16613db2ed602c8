"""A step of an experiment in a fork of the server of `forked_steps.py`: ADDRESS MODULE WORD..."""

from __future__ import annotations

import json
import os
import socket
import sys


def ask_for_fork(address: str, words: list[str]) -> int:
    """Have a module run with this process's folder, environment and files; return its exit code.

    The fork ends if this process does.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        order: dict[str, object] = {"words": words, "environment": dict(os.environ)}
        order["folder"] = os.getcwd()  # noqa: PTH109 -- pathlib is slow to import
        socket.send_fds(connection, [b"."], [0, 1, 2])
        connection.sendall(json.dumps(order).encode() + b"\n")
        code = connection.recv(1)
    return code[0] if code else 1


if __name__ == "__main__":
    sys.exit(ask_for_fork(sys.argv[1], sys.argv[2:]))
