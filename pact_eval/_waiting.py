"""Waiting for threads that Ctrl-C does not wait for.

A request may hang for as long as its limit allows. Python does not see Ctrl-C inside a call of a
library, and waits at its end for the threads of a pool. The threads here end with the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Final

Task = Callable[[Event], None]
"""Does a part of the work; it stops early if the event is set."""

_MOST_THREADS: Final = 8
_SECONDS: Final = 0.05


def in_background(tasks: Sequence[Task], look: Callable[[], None] = lambda: None) -> None:
    """Do tasks in at most 8 threads.

    Args:
        tasks: the tasks; after the first exception, no other task begins.
        look: called every 50 ms in the thread that waits.

    Raises:
        Exception: the first that a task raises.
    """
    waiting: SimpleQueue[Task] = SimpleQueue()
    for task in tasks:
        waiting.put(task)
    failures: list[BaseException] = []
    stopped = Event()

    def work() -> None:
        try:
            while not stopped.is_set():
                waiting.get_nowait()(stopped)
        except Empty:
            return
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            failures.append(error)
            stopped.set()

    threads = [Thread(target=work, daemon=True) for _ in range(min(_MOST_THREADS, len(tasks)))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(_SECONDS)
                look()
    finally:
        stopped.set()
    if failures:
        raise failures[0]
