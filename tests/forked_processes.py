"""Commands as users start them, for tests that need another process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

_OURS = {"pact-eval": "pact_cli", "pact-audit": "pact_cli.audit"}


def forked(*words: object) -> list[str]:
    """Return the command line of `pact-eval`, `pact-audit` or `python` with its words."""
    program, *rest = map(str, words)
    return [sys.executable, *(["-m", _OURS[program]] if program in _OURS else []), *rest]


def fork_of(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> psutil.Process | None:
    return psutil.Process(process.pid)


@contextmanager
def forked_steps() -> Iterator[None]:
    yield
