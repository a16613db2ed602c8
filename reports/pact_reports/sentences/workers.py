"""Progress of the workers of a run, in words."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # not needed to read runs
    from pact_eval.scoring.workers.pool import PoolProgress

_MOST_NAMED: Final = 8


def progress_sentence(progress: PoolProgress, now: dt.datetime) -> str:
    """Return the remaining windows, the rate of each worker, and the expected end.

    Args:
        progress: how far the workers are.
        now: the time.

    Examples:
        >>> from pact_eval.scoring.workers.pool import PoolProgress
        >>> progress = PoolProgress(30, 1900, {"worker 1": 0.55, "worker 2": 0.4})
        >>> progress_sentence(progress, dt.datetime(2026, 3, 1, 9, 30))
        '30 windows left; items/s: worker 1 0.55, worker 2 0.4; done in 34 min, at 10:03'
    """
    rates = progress.items_per_second
    rate_text = f"{progress.windows_left:,} windows left; items/s: {_rates(rates)}"
    left = progress.seconds_left
    if left is None or not progress.windows_left:
        return rate_text
    end = now + dt.timedelta(seconds=left)
    day = "" if end.date() == now.date() else f"{end:%Y-%m-%d} "
    return f"{rate_text}; done in {math.ceil(left / 60):,} min, at {day}{end:%H:%M}"


def thread_remarks(workers: int, threads: int, cores: int) -> list[str]:
    """Return settings to change if the workers of this machine compete for its cores.

    Args:
        workers: number of workers.
        threads: threads of each.
        cores: cores of the machine.

    Examples:
        >>> thread_remarks(2, 4, 8)
        []
        >>> thread_remarks(4, 8, 8)
        ['4 workers of 8 threads share 8 cores; OMP_NUM_THREADS=2 is faster, with other last bits']
    """
    if workers * threads <= cores:
        return []
    share = max(1, cores // workers)
    better = f"; OMP_NUM_THREADS={share} is faster, with other last bits" if share < threads else ""
    return [f"{workers} workers of {threads} threads share {cores} cores{better}"]


def _rates(rates: Mapping[str, float]) -> str:
    if len(rates) <= _MOST_NAMED:
        return ", ".join(f"{name} {rate:.2g}" for name, rate in rates.items())
    slowest = min(rates, key=lambda name: rates[name])
    high, total = max(rates.values()), sum(rates.values())
    low = rates[slowest]
    return f"{total:.3g} by {len(rates)} workers, {low:.2g} ({slowest}) to {high:.2g}"
