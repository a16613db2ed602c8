"""One thread of BLAS, where others gain nothing on a quiet machine and spin on a busy one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let numpy and scipy multiply in one thread: our matrices are tall and narrow.

    Resampling took 2.5 times as long beside a busy process with two threads. Fitting a calibrator
    on 100,000 items takes half the CPU time with one.

    Examples:
        >>> from threadpoolctl import threadpool_info
        >>> with one_blas_thread():
        ...     {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        {1}
    """
    with _libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries(_with_scipy: bool) -> ThreadpoolController:
    """Return the BLAS of numpy, and of scipy once it is loaded. Finding them takes 5 ms."""
    return ThreadpoolController()
