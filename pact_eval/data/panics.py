"""Panics of polars: stacks of Rust that its threads print to the error stream on damaged files."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from polars.exceptions import PanicException

_ERRORS: Final = 2
_ONE_AT_A_TIME: Final = threading.RLock()
"""The error stream is one for all threads; polars itself reads in all cores."""


@contextmanager
def without_panics() -> Iterator[None]:
    """Hold back what is written to the error stream, and drop it if the block raises a panic.

    Examples:
        >>> with without_panics():
        ...     answer = 6 * 7
    """
    with _ONE_AT_A_TIME, ExitStack() as stack:
        held = None
        with suppress(OSError):  # without an error stream, there is nothing to hold
            saved = os.dup(_ERRORS)
            stack.callback(os.close, saved)
            held = stack.enter_context(tempfile.TemporaryFile())
            _flush()
            os.dup2(held.fileno(), _ERRORS)
        panic = False
        try:
            yield
        except PanicException:
            panic = True
            raise
        finally:
            if held is not None:
                _flush()
                os.dup2(saved, _ERRORS)
                held.seek(0)
                if not panic and (written := held.read()):
                    os.write(_ERRORS, written)


def _flush() -> None:
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
