"""Supervisor of one command, which ends it and its children when the experiment is gone.

A script: `supervise.py LOCK GRACE_SECONDS WORD...`. Its input is a pipe that the process of the
experiment holds open. It closes when that process ends, however that happens, or closes it. The
command then gets SIGTERM, time to save a checkpoint, and SIGKILL. While the command runs, the lock
keeps a repeated experiment from starting it a second time. The exit code is that of the command.

The supervisor is a child of the script's process, which only passes its exit code on. A Ray worker
that ends kills its own children: the supervisor outlives that, sees the pipe close, and can still
end the command.

If the supervisor is killed, the first process kills all that the command has started. If both are
killed, the kernel of Linux kills the command, so that none outlives the lock.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

LOCK_SECONDS = 180.0
"""Longest wait for the lock: a server of NFS keeps that of a machine that is gone for 90 s."""

_ANOTHER = "another process"
_CANNOT_START = 127
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_LOCKED = 1


def main(lock: str, grace_seconds: float, words: list[str]) -> int:
    """Run a command to its end, and return its exit code; 128 and more if a signal ended it."""
    # A handler, not SIG_IGN, which the command would inherit.
    signal.signal(signal.SIGTERM, lambda *_: None)
    if hasattr(os, "fork"):
        supervisor = os.fork()
        if supervisor:
            code = os.waitstatus_to_exitcode(os.waitpid(supervisor, 0)[1])
            if code < 0:
                _signal_group([], signal.SIGKILL)
            return _as_exit_code(code)
    processes: list[subprocess.Popen[bytes]] = []
    threading.Thread(target=_wait_for_end, args=(processes, grace_seconds), daemon=True).start()
    try:
        with FileLock(lock, timeout=LOCK_SECONDS):
            with suppress(OSError):
                holder = f"process {os.getpid()} on {platform.node()}"
                _holder_path(lock).write_text(holder, "utf-8")
            return _run(words, processes)
    except Timeout:
        print(still_held(lock), file=sys.stderr)  # noqa: T201
        return _LOCKED


def still_held(lock: str) -> str:
    """Return what to say of a lock that another process has held for too long.

    Examples:
        >>> still_held("locks/audit.lock")
        'locks/audit.lock: another process still works on this step; end it, or wait for it'
    """
    holder = _ANOTHER
    with suppress(OSError):
        holder = _holder_path(lock).read_text("utf-8", "replace").strip() or _ANOTHER
    return f"{lock}: {holder} still works on this step; end it, or wait for it"


def _holder_path(lock: str) -> Path:
    """Return the file that names the last supervisor with the lock: some locks empty their file."""
    return Path(lock).with_suffix(".holder")


def _run(words: list[str], processes: list[subprocess.Popen[bytes]]) -> int:
    try:
        process = subprocess.Popen(  # noqa: S603 -- no shell; one call into libc
            words, stdin=subprocess.DEVNULL, preexec_fn=_dying_with(os.getpid())
        )
    except OSError as error:
        print(f"{words[0]}: cannot be started: {error.strerror}", file=sys.stderr)  # noqa: T201
        return _CANNOT_START
    processes.append(process)
    return _as_exit_code(process.wait())


def _as_exit_code(code: int) -> int:
    """Return an exit code of Python's `subprocess` as a shell has it."""
    return code if code >= 0 else 128 - code


def _dying_with(parent: int) -> Callable[[], None] | None:
    """Return what a new process calls so that it is killed when `parent` ends; None elsewhere."""
    if _LIBC is None:
        return None

    def ask_kernel() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it has ended in between
            os.kill(os.getpid(), signal.SIGKILL)

    return ask_kernel


def _wait_for_end(processes: list[subprocess.Popen[bytes]], grace_seconds: float) -> None:
    """Wait until nobody holds the pipe open; then end the command and this process."""
    while os.read(sys.stdin.fileno(), 1):  # not its buffer, which the exit of Python waits for
        pass
    with suppress(OSError):
        _signal_group(processes, signal.SIGTERM)
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace_seconds)
    _signal_group(processes, getattr(signal, "SIGKILL", signal.SIGTERM))
    os._exit(1)


def _signal_group(processes: list[subprocess.Popen[bytes]], number: int) -> None:
    """Send a signal to the command and all that it started, if they are a group of their own.

    Whoever starts this script makes its process the leader of a session.
    """
    if hasattr(os, "killpg") and os.getpgrp() == os.getsid(0):
        os.killpg(0, number)
        return
    for process in processes:
        process.send_signal(number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), sys.argv[3:]))
