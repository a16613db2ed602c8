"""Guard of a local Ray, which ends its processes when the process that started it is gone.

A killed process ends nothing itself. Ray then ends most of its processes, but its agents wait a
minute for a server that is gone, and a worker that is still starting waits as long.

The guard is a script. Its input is a pipe: it closes when the other process ends, however that
happens. The output of every process of a Ray goes to files in a folder of this Ray alone. A
program that only joins this Ray has a log there too, but its output goes elsewhere: it is spared.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

_SECONDS: Final = 8.0
_POLL_SECONDS: Final = 0.1
_OUTPUTS: Final = (".out", ".err")  # as Ray names the files of standard output and error
_QUIET_POLLS: Final = 3
"""So often in a row no process may be left: one that was being started may have no log yet."""


@contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """End all processes whose output goes to a folder, and remove it, when the block or we end.

    Ctrl-C in a terminal does not reach the guard.
    """
    command = [sys.executable, "-P", __file__, str(folder)]
    nothing = subprocess.DEVNULL
    with subprocess.Popen(  # noqa: S603 -- our own script
        command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, start_new_session=True
    ):
        yield


def _end_all(folder: Path) -> None:
    """Kill the processes whose output goes to a folder, until none is left; then remove it."""
    deadline, quiet = time.monotonic() + _SECONDS, 0
    while quiet < _QUIET_POLLS and time.monotonic() < deadline:
        left = [process for process in psutil.process_iter() if _writes_to(process, folder)]
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        quiet = 0 if left else quiet + 1
        time.sleep(_POLL_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


def _writes_to(process: psutil.Process, folder: Path) -> bool:
    """Return whether the output of a process goes to a folder; no if we may not see that."""
    with suppress(psutil.Error, OSError):
        paths = (Path(file.path) for file in process.open_files())
        return any(path.suffix in _OUTPUTS and path.is_relative_to(folder) for path in paths)
    return False


def main(folder: Path) -> None:
    """Wait until the process that started this one is gone, or has closed the pipe."""
    sys.stdin.buffer.read()
    _end_all(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
