"""Panics of polars: stacks of Rust that its threads print to the error stream on damaged files."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Final

from polars.exceptions import PanicException

_ERRORS: Final = 2


class _Held:
    """Text written to the error stream while polars reads, in any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers = 0
        self._panic = False
        self._saved = -1
        self._file: IO[bytes] | None = None

    def begin(self) -> None:
        with self._lock:
            self._readers += 1
            if self._readers > 1:
                return
            self._panic = False
            with suppress(OSError):  # without an error stream, there is nothing to hold
                self._saved = os.dup(_ERRORS)
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `end`
                _flush()
                os.dup2(self._file.fileno(), _ERRORS)

    def end(self, *, panic: bool) -> None:
        with self._lock:
            self._readers -= 1
            self._panic |= panic
            if self._readers or self._saved < 0 or self._file is None:
                return
            _flush()
            os.dup2(self._saved, _ERRORS)
            os.close(self._saved)
            self._saved = -1
            with self._file as file:
                file.seek(0)
                held = file.read()
            if held and not self._panic:
                os.write(_ERRORS, held)


def _flush() -> None:
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()


_HELD: Final = _Held()


@contextmanager
def without_panics() -> Iterator[None]:
    """Hold back what is written to the error stream, and drop it if the block raises a panic.

    Examples:
        >>> with without_panics():
        ...     answer = 6 * 7
    """
    _HELD.begin()
    panic = False
    try:
        yield
    except BaseException as error:
        panic = isinstance(error, PanicException)
        raise
    finally:
        _HELD.end(panic=panic)
