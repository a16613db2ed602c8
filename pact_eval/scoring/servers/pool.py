"""A pool of threads that does not keep the process alive.

The threads of `concurrent.futures` are joined when Python ends: a user who presses Ctrl-C would
wait for every request under way, which may take minutes. These are daemon threads.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")

_PATIENCE_SECONDS = 2.0


class Pool:
    """Runs functions in a few daemon threads.

    Args:
        threads: number of threads.

    Examples:
        >>> pool = Pool(2)
        >>> [future.result() for future in [pool.submit(lambda: 1), pool.submit(lambda: 2)]]
        [1, 2]
        >>> pool.close()
    """

    def __init__(self, threads: int) -> None:
        self._waiting: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = (
            queue.SimpleQueue()
        )
        self._closed = threading.Event()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[[], Result]) -> Future[Result]:
        """Run a function in a thread, in the order of the calls."""
        future: Future[Result] = Future()
        self._waiting.put((future, function))
        return future

    def close(self) -> None:
        """Start no further function; wait for those under way, but not for long."""
        self._closed.set()
        for _ in self._threads:
            self._waiting.put(None)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def _work(self) -> None:
        while (found := self._waiting.get()) is not None:
            future, function = found
            if self._closed.is_set() or not future.set_running_or_notify_cancel():
                future.cancel()
                continue
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 -- whoever asks for the result gets it
                future.set_exception(error)
