"""A command that is killed before each of its changes to a folder, and then repeated.

    python killed.py FOLDER PROGRAM ARGUMENT ...

`{out}` in an argument becomes a new folder for each kill: FOLDER/0, FOLDER/1, ... The command in
the last one was not killed. Prints the exit codes of the repeated commands as JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pact_cli.audit.main import main as audit
from pact_cli.main import main as evaluate

_CHANGES = ("open", "os.rename", "os.mkdir", "os.remove", "os.link", "os.symlink", "os.truncate")
_WRITES = os.O_WRONLY | os.O_RDWR


def kill_before(change: int, folder: Path) -> None:
    """Let this process be killed before its next change number `change` to a folder, from 0."""
    changes = itertools.count()

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CHANGES and isinstance(arguments[0], str | os.PathLike):
            is_change = event != "open" or bool(arguments[2] & _WRITES)
            if is_change and str(folder) in os.fspath(arguments[0]) and next(changes) == change:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def kill_beyond(size: int) -> None:
    """Let this process be killed in the middle of a write that makes a file longer than `size`."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def ended(
    words: list[str], prepare: Callable[[], None] = lambda: None, modules: Path | None = None
) -> int:
    """Run a command in a fork of this process, and return its exit code; -N for signal N.

    Args:
        words: the command.
        prepare: what the fork does first.
        modules: file for the names of the modules that it has imported.
    """
    pid = os.fork()
    if pid == 0:
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            prepare()
            code = 1
            with contextlib.suppress(BaseException):
                try:
                    {"pact-audit": audit, "pact-eval": evaluate}[words[0]](words[1:])
                except SystemExit as error:
                    code = int(error.code or 0)
        if modules is not None:
            modules.write_text("\n".join(sys.modules))
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def import_what_it_needs(folder: Path, words: list[str]) -> None:
    """Import what a command imports, so that forks need not. Running it here starts threads."""
    report = folder.with_suffix(".modules")
    here = [word.replace("{out}", str(folder / "first")) for word in words]
    ended(here, modules=report)
    for name in report.read_text().split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def main(folder: Path, words: list[str]) -> None:
    """Kill before every change, and beyond sizes of files; repeat each command."""
    import_what_it_needs(folder, words)
    codes = []
    kills: list[Callable[[Path], None]] = [
        lambda _out, size=size: kill_beyond(size)  # type: ignore[misc]
        for size in (0, 1, 100, 1000)
    ]
    for number in itertools.count():
        out = folder / str(number)
        here = [word.replace("{out}", str(out)) for word in words]
        change = number - len(kills)
        how = kills[number] if change < 0 else lambda out, n=change: kill_before(n, out)
        code = ended(here, lambda: how(out))  # noqa: B023 -- it is called at once
        if code == 0 and change >= 0:
            break
        codes.append(ended(here))
    sys.stdout.write(json.dumps(codes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
