"""Commands as users start them; `command_line` of `commands.py` takes the place of this module."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from commands import command_line as forked

__all__ = ["fork_of", "forked", "forked_steps"]


def fork_of(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> psutil.Process | None:
    return psutil.Process(process.pid)


@contextmanager
def forked_steps() -> Iterator[None]:
    yield
