"""Order of the windows: first those that wait, at the end those of stragglers once more."""

from __future__ import annotations

import statistics
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

from pact_eval.errors import WorkerError
from pact_eval.scoring.windows import Window

MOST_FAILURES: Final = 3
"""A window that fails so many times stops the run."""

_SLOW: Final = 1.5  # times the usual time, from which a window is scored by a second worker too
_MOST_RUNNERS: Final = 2


class Schedule:
    """The windows that are not scored yet.

    Args:
        windows: the windows, in file order.

    Examples:
        >>> schedule = Schedule([Window(0, ()), Window(1, ())])
        >>> [schedule.take(0.0).number, schedule.take(0.0).number, schedule.take(0.0)]
        [0, 1, None]
        >>> schedule.finished(0, 2.0), schedule.left
        (True, 1)
        >>> schedule.take(2.5) is None, schedule.take(3.5).number
        (True, 1)
        >>> schedule.finished(1, 4.0), schedule.finished(1, 9.0), schedule.left
        (True, False, 0)
    """

    def __init__(self, windows: Sequence[Window]) -> None:
        self._windows = {window.number: window for window in windows}
        self._waiting = deque(self._windows)
        self._running: dict[int, list[float]] = {}
        self._seconds: list[float] = []
        self._failures: Counter[int] = Counter()

    @property
    def left(self) -> int:
        """Number of windows without rows."""
        return len(self._windows)

    @property
    def items_left(self) -> int:
        """Number of records in them."""
        return sum(len(window.records) for window in self._windows.values())

    def take(self, now: float) -> Window | None:
        """Return the window that an idle worker scores.

        When no window waits, it is the oldest one that takes longer than usual, for a second
        worker: whoever is first gives the rows, which are the same.

        Args:
            now: time in seconds, of a monotonic clock.
        """
        number = self._waiting.popleft() if self._waiting else self._slowest(now)
        if number is None:
            return None
        self._running.setdefault(number, []).append(now)
        return self._windows[number]

    def finished(self, number: int, seconds: float) -> bool:
        """Note that a window was scored; return whether its rows are the first.

        Args:
            number: number of the window.
            seconds: time that scoring it took.
        """
        self._seconds.append(seconds)
        self._running.pop(number, None)
        return self._windows.pop(number, None) is not None

    def failed(self, number: int, reason: str) -> None:
        """Let a window wait again, before all others.

        Args:
            number: number of the window.
            reason: why it was not scored.

        Raises:
            WorkerError: it has failed three times.
        """
        if number not in self._windows:
            return
        self._failures[number] += 1
        if self._failures[number] >= MOST_FAILURES:
            ids = ", ".join(record.id for record in self._windows[number].records)
            message = (
                f"window {number} has failed {MOST_FAILURES} times, last: {reason}; windows that "
                f"are written are kept. Its records: {ids}"
            )
            raise WorkerError(message)
        runners = self._running.get(number, [])
        if len(runners) > 1:  # another worker still scores it
            runners.pop()
            return
        self._running.pop(number, None)
        self._waiting.appendleft(number)

    def _slowest(self, now: float) -> int | None:
        if not self._seconds:
            return None
        usual = statistics.median(self._seconds)
        slow = [
            (starts[0], number)
            for number, starts in self._running.items()
            if len(starts) < _MOST_RUNNERS and now - starts[0] > _SLOW * usual
        ]
        return min(slow)[1] if slow else None
