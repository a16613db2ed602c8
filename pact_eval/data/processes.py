"""Work that several processes or threads share: tasks in, their results in the same order.

Results do not depend on the number of processes. Starting processes takes a second or two, so
callers work in this process if there is little to do. Threads start at once, but only numerical
code of libraries can use several cores that way.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Final, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

_MOST_PROCESSES: Final = 8


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_processes(work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
    """Yield the results of tasks, in their order, from a process per core, at most 8.

    The processes are kept for the next call. They end with this one, also if it is interrupted.

    Args:
        work: does one task; it can be pickled, and so can tasks and results.
        tasks: the tasks.

    Raises:
        Exception: what a task raises.

    Examples:
        >>> list(in_processes(len, ["one", "three"]))
        [3, 5]
    """
    processes = min(usable_cores(), _MOST_PROCESSES, len(tasks))
    if processes <= 1:
        yield from map(work, tasks)
        return
    from joblib import Parallel, delayed  # slow to import

    parallel = Parallel(n_jobs=processes, return_as="generator", batch_size=1, max_nbytes=None)
    yield from parallel(delayed(work)(task) for task in tasks)


@contextmanager
def another_process() -> Iterator[Callable[[Callable[[], Result]], Future[Result]]]:
    """Give a function that starts work in one more process and returns its future result.

    The process ends with the block, whether its work is done or not.

    Examples:
        >>> with another_process() as start:
        ...     start(dict).result()
        {}
    """
    from joblib.externals.loky import ProcessPoolExecutor  # slow to import

    pool = ProcessPoolExecutor(1)
    try:
        yield pool.submit
    finally:
        pool.shutdown(kill_workers=True)


def in_threads(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """Yield the results of tasks, in their order, from a thread per core, at most 8.

    Few tasks are begun before their results are asked for, so few results wait in memory.

    Args:
        work: does one task.
        tasks: the tasks.

    Raises:
        Exception: what a task raises.

    Examples:
        >>> list(in_threads(len, ["one", "three"]))
        [3, 5]
    """
    threads = min(usable_cores(), _MOST_PROCESSES)
    rest = iter(tasks)
    with ThreadPoolExecutor(threads) as pool:
        begun: deque[Future[Result]] = deque()
        begun.extend(pool.submit(work, task) for task in islice(rest, threads + 1))
        try:
            while begun:
                result = begun.popleft().result()
                begun.extend(pool.submit(work, task) for task in islice(rest, 1))
                yield result
        finally:
            for future in begun:
                future.cancel()
