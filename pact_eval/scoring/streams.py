"""Passes on several streams at once: each is a thread with its share of torch's threads.

The threads of one pass wait for each other at every operation, and for its Python code. Passes on
two streams fill each other's gaps, and each needs half as many threads. On an AMD EPYC with two
cores, two streams of one thread took 0.74 to 0.98 of the time of one stream of two threads. The
gain is largest with small models.

A task does some work and returns the tasks that it makes possible. The newest task runs first: one
stream then goes down a tree as recursion would, and few intermediate results stay in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, Final

import torch

STREAMS: Final = 2
"""Streams of a model: more would hold more passes in memory."""

Task = Callable[[], Sequence[Any]]
"""Does some work and returns the tasks, of this type, that follow it. The first of them runs first.
"""


def stream_count(tasks: int) -> int:
    """Return on how many streams to run tasks: one if they are few, or torch has one thread.

    Args:
        tasks: number of tasks that can start at once.
    """
    return STREAMS if min(tasks, torch.get_num_threads()) >= STREAMS else 1


def run_tasks(tasks: Sequence[Task], streams: int = 1) -> None:
    """Run tasks and all that follow from them, in inference mode.

    Args:
        tasks: the tasks; the first starts first.
        streams: number of tasks that run at once, one of them in this thread.

    Raises:
        BaseException: the first error of a task. It is raised when the tasks that run have ended;
            no other starts.

    Examples:
        >>> def task(name: str, *following: Task) -> Task:
        ...     return lambda: print(name) or following
        >>> run_tasks([task("trunk", task("left", task("leaf")), task("right")), task("other")])
        trunk
        left
        leaf
        right
        other
    """
    stack = _Stack(tasks)
    helpers = [
        threading.Thread(target=copy_context().run, args=(stack.drain,)) for _ in range(streams - 1)
    ]
    with threads_of_stream(streams):
        for helper in helpers:
            helper.start()
        try:
            stack.drain()
        finally:
            stack.stop()
            for helper in helpers:
                helper.join()
    stack.raise_error()


class _Stack:
    """Tasks that wait for a stream."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._waiting = [*reversed(tasks)]
        self._running = 0
        self._stopped = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    @torch.inference_mode()
    def drain(self) -> None:
        """Run tasks until none waits and none runs, or until one fails."""
        while self._ran():
            pass

    def stop(self) -> None:
        """Start no other task."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def raise_error(self) -> None:
        """Raise the first error, if there is one, and forget it: it keeps the tensors of a pass."""
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error

    def _ran(self) -> bool:
        """Run one task; return whether there was one. Nothing of it is kept while others wait."""
        task = self._taken()
        if task is None:
            return False
        try:
            following = task()
        except BaseException as error:  # noqa: BLE001 -- raised again by `raise_error`
            self._ended((), error)
        else:
            self._ended(following, None)
        return True

    def _taken(self) -> Task | None:
        """Wait for a task; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopped or not self._running)
            if self._stopped or not self._waiting:
                return None
            self._running += 1
            return self._waiting.pop()

    def _ended(self, following: Sequence[Task], error: BaseException | None) -> None:
        with self._changed:
            self._running -= 1
            self._waiting += reversed(following)
            self._error = self._error or error
            self._stopped = self._stopped or error is not None
            self._changed.notify_all()


@contextmanager
def threads_of_stream(streams: int) -> Iterator[None]:
    """Give operations of this thread, and of those that it starts, their share of torch's threads.

    Args:
        streams: number of streams that share them.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, before // streams))
    try:
        yield
    finally:
        torch.set_num_threads(before)
