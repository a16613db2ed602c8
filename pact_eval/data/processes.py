"""Work that several processes or threads share: tasks in, their results in the same order.

Results do not depend on the number of processes. Starting processes takes a second or two, so
callers work in this process if there is little to do. Threads start at once, but only numerical
code of libraries can use several cores that way.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import IO, Final, TypeVar, cast

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


_CHILD: Final = """
import pickle, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.path[:] = pickle.load(sys.stdin.buffer)
from pact_eval.data.processes import work_for_parent
work_for_parent()
"""


@contextmanager
def another_process(work: Callable[[], Result]) -> Iterator[Callable[[], Result]]:
    """Do work in one more process, and give the function that waits for its result.

    The process ends with the block, whether its work is done or not. If it dies before, the work is
    done in this process.

    Args:
        work: can be pickled, and so can its result.

    Examples:
        >>> with another_process(dict) as result:
        ...     result()
        {}
    """
    with subprocess.Popen(  # noqa: S603 -- this Python, and our code
        [sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            with suppress(BrokenPipeError), cast("IO[bytes]", process.stdin) as to_child:
                pickle.dump(sys.path, to_child)
                pickle.dump(work, to_child)
            yield partial(_result, process, work)
        finally:
            process.kill()


def _result(process: subprocess.Popen[bytes], work: Callable[[], Result]) -> Result:
    try:
        done, reply = pickle.load(cast("IO[bytes]", process.stdout))  # noqa: S301 -- of our process
    except (EOFError, pickle.UnpicklingError):
        return work()
    if not done:
        raise reply
    result: Result = reply
    return result


def work_for_parent() -> None:
    """Do the work that stands in the standard input, and write its result to the output."""
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # what the work prints is not its result
        work = pickle.load(sys.stdin.buffer)  # noqa: S301 -- of our parent
        try:
            reply = True, work()
        except Exception as error:  # noqa: BLE001 -- raised in the parent
            reply = False, error
        pickle.dump(reply, out)


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
