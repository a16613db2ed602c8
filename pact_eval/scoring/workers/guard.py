"""Guard of a Ray on this machine: ends its processes when the process that started it is gone.

A killed process ends nothing itself. Ray then ends most of its processes, but its agents wait a
minute for a server that is gone, and a worker that is still starting waits as long.

The guard is a script. Its input is a pipe: it closes when the other process ends, however that
happens. Every process of a Ray has its logs open, which are in a folder of this Ray alone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

_SECONDS: Final = 8.0
_POLL_SECONDS: Final = 0.1
_QUIET_POLLS: Final = 3
"""So often in a row no process may be left: one that was being started may have no log yet."""


@contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """End all processes with open files in a folder, and remove it, when the block or we end.

    Processes that run when the block begins are spared: this one, and others that connect to this
    Ray later. They have its logs open too. Ctrl-C in a terminal does not reach the guard.
    """
    command = [sys.executable, "-P", __file__, str(folder)]
    nothing = subprocess.DEVNULL
    with subprocess.Popen(  # noqa: S603 -- our own script
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=nothing,
        start_new_session=True,
    ) as guard:
        assert guard.stdout is not None  # noqa: S101 -- it is a pipe
        guard.stdout.readline()  # it knows the processes that run
        yield


def _end_users(folder: Path, spared: Collection[psutil.Process]) -> None:
    """Kill the other processes that use a folder, until none is left; then remove the folder."""
    deadline, quiet = time.monotonic() + _SECONDS, 0
    while quiet < _QUIET_POLLS and time.monotonic() < deadline:
        others = (process for process in psutil.process_iter() if process not in spared)
        users = [process for process in others if _uses(process, folder)]
        for process in users:
            with suppress(psutil.Error):
                process.kill()
        quiet = 0 if users else quiet + 1
        time.sleep(_POLL_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


def _uses(process: psutil.Process, folder: Path) -> bool:
    """Return whether a process has an open file in a folder; no if we may not see that."""
    with suppress(psutil.Error, OSError):
        return any(Path(file.path).is_relative_to(folder) for file in process.open_files())
    return False


def main(folder: Path) -> None:
    """Wait until the process that started this one is gone, or has closed the pipe."""
    spared = frozenset(psutil.process_iter())  # this one, too
    print(flush=True)  # noqa: T201 -- `guarded` waits for it
    sys.stdin.buffer.read()
    _end_users(folder, spared)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
