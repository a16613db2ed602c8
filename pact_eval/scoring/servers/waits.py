"""Waits of threads, with their deadlines, and threads whose results can be waited for.

A wait of the main thread is a poll: a signal handler of another library, such as polars', may let
a blocked lock sleep on after Ctrl-C.
"""

from __future__ import annotations

import datetime as dt
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pact_eval.progress import waiting

Result = TypeVar("Result")

_PATIENCE_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.2
_TOLD_SECONDS: Final = 5.0


class ThreadPool:
    """Runs functions in a few daemon threads.

    Args:
        threads: number of threads.

    Examples:
        >>> pool = ThreadPool(2)
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
        if self._closed.is_set():
            future.set_exception(RuntimeError("the threads have ended"))
        else:
            self._waiting.put((future, function))
        return future

    def close(self) -> None:
        """Start no further function; wait for those under way, but not for long."""
        if self._closed.is_set():
            return
        self._closed.set()
        for _ in self._threads:
            self._waiting.put(None)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            future, function = item
            if self._closed.is_set() or not future.set_running_or_notify_cancel():
                future.cancel()
                continue
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 -- whoever asks for the result gets it
                future.set_exception(error)


@dataclass(eq=False, frozen=True)
class Wait:
    """A thread that waits.

    Attributes:
        what: what it waits for.
        since: time of the start in seconds, of a monotonic clock.
        until: when it ends at the latest, of the same clock.
    """

    what: str
    since: float
    until: float

    def sentence(self, now: float) -> str:
        """Say what it waits for, since when, and until what time of the day."""
        end = dt.datetime.now().astimezone() + dt.timedelta(seconds=self.until - now)
        return f"{self.what}: {now - self.since:.0f} s so far, at most until {end:%H:%M:%S}"


class Waits:
    """The waits of all threads of a client."""

    def __init__(self) -> None:
        self._open: dict[Wait, None] = {}
        self._lock = threading.Lock()

    @contextmanager
    def waiting(self, what: str, until: float) -> Iterator[None]:
        """Be waiting during the block."""
        opened = Wait(what, time.monotonic(), until)
        with self._lock:
            self._open[opened] = None
        try:
            yield
        finally:
            with self._lock:
                del self._open[opened]

    def finished(self, futures: Collection[Future[Result]]) -> Iterator[Future[Result]]:
        """Yield futures as they finish; tell who watches the progress of waits that take long."""
        done: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()
        for future in futures:
            future.add_done_callback(done.put)
        left = len(futures)
        while left:
            try:
                yield done.get(timeout=_POLL_SECONDS)
                left -= 1
            except queue.Empty:
                self._tell()

    def _tell(self) -> None:
        now = time.monotonic()
        with self._lock:
            oldest = min(self._open, key=lambda request: request.since, default=None)
        if oldest is not None and now - oldest.since >= _TOLD_SECONDS:
            waiting(oldest.sentence(now))
