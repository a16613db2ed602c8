"""A disk that is full: the system refuses to let files grow beyond a number of bytes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let every write beyond `size` bytes of a file fail with an error of the system (EFBIG).

    As on a full disk, the first bytes are written before the error. Nothing is replaced by a mock.
    Python does not notice that it wrote a part of the bytecode of a module, and every later process
    would fail to import it: no bytecode is written meanwhile.
    """
    import resource  # Windows lacks it

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    writes_no_bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = writes_no_bytecode
