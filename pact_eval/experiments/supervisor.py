"""Supervisor of one command on Linux: nothing that the command has started outlives it.

    python -I -S supervisor.py GRACE_SECONDS PROGRAM ARGUMENT ...

`running.py` starts this script, and the script starts the command. Ranks of torchrun and daemons
leave the session of the command, so a signal to its process group misses them. The supervisor is a
child subreaper (prctl(2)): a descendant that loses its parent becomes its child, and it can find
all of them. It ends when none is left, as the command did: same exit code, or same signal.

Its standard input is a pipe. When the writer closes it or dies, the process group gets SIGTERM, and
the command has the grace to save a checkpoint. When the command is over, what it has left gets
SIGTERM and the rest of the grace, and then SIGKILL.
"""

from __future__ import annotations

import ctypes
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

CANNOT_START: Final = 127
"""Exit code if there is no such program, as a shell has it."""

KILL_SECONDS: Final = 5.0
"""Time that SIGKILL may take; a process in an uninterruptible call of the system takes longer."""

_SET_CHILD_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER of <linux/prctl.h>
_POLL_SECONDS: Final = 0.02


def supervise(words: list[str], grace_seconds: float) -> int:
    """Run a command, end all of its descendants, and return its exit code; -N for signal N.

    Args:
        words: the program and its arguments.
        grace_seconds: time between SIGTERM and SIGKILL.
    """
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken = _wake_pipe()
    try:
        command = subprocess.Popen(words, stdin=subprocess.DEVNULL)  # noqa: S603 -- the user's own
    except OSError as error:
        sys.stderr.write(f"{words[0]}: cannot be started: {error.strerror}\n")
        return CANNOT_START
    watched, is_told, deadline = [woken, sys.stdin.fileno()], False, math.inf
    while _reap(command):
        if command.returncode is not None and not is_told:
            is_told, deadline = True, min(deadline, time.monotonic() + grace_seconds)
            _signal_all(_descendants(), signal.SIGTERM)
        left = deadline - time.monotonic()
        if left < -KILL_SECONDS:
            sys.stderr.write(f"could not be ended: processes {sorted(_descendants())}\n")
            break
        if left <= 0:
            _signal_all(_descendants(), signal.SIGKILL)
        wait = None if math.isinf(left) else max(left, _POLL_SECONDS)
        ready, _, _ = select.select(watched, [], [], wait)
        if woken in ready:
            os.read(woken, select.PIPE_BUF)
        if sys.stdin.fileno() in ready:
            del watched[1:]
            deadline = min(deadline, time.monotonic() + grace_seconds)
            os.killpg(0, signal.SIGTERM)
    return -signal.SIGKILL if command.returncode is None else command.returncode


def _wake_pipe() -> int:
    """Return a file that has bytes to read after a signal; signals do nothing else here."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: None)  # a command starts with the defaults
    return woken


def _reap(command: subprocess.Popen[bytes]) -> bool:
    """Collect the children that have ended, and return whether one is left."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return True
            if pid == command.pid:
                command.returncode = os.waitstatus_to_exitcode(status)
    return False


def _descendants() -> set[int]:
    """Return the processes that this one has started, and those that they have started."""
    children: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            parent = int(file.read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(file.parent.name))
    found: set[int] = set()
    new = [os.getpid()]
    while new:
        new = [child for parent in new for child in children.get(parent, ())]
        found.update(new)
    return found


def _signal_all(processes: Iterable[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def main(grace_seconds: str, *words: str) -> None:
    """Run a command, and end as it did."""
    import resource  # Windows lacks it

    code = supervise(list(words), float(grace_seconds))
    if code >= 0:
        sys.exit(code)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command may have dumped its own
    with suppress(OSError):  # SIGKILL has no handler
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)


if __name__ == "__main__":
    main(*sys.argv[1:])
