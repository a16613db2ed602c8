"""Waiting of idle OpenMP threads: a short spin, or sleep at once on a busy machine.

Idle OpenMP threads spin by default. On a shared machine they then take the cores that other
processes, and the threads they wait for, need: two scorings at once ran several times slower.
Threads that sleep at once are woken late: a small model then takes twice as long on a quiet
machine. GNU OpenMP, which torch's packages for Linux contain, can spin for a short time first.
docs/performance.md has the measurements. OpenMP reads the variables once, when torch is loaded.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Final

SHORT_SPIN: Final = "3000"
NO_SPIN: Final = "0"

_LOAD: Final = Path("/proc/loadavg")
# 2 ms in all, because `--help` waits too. Two scorings that start at once see each other: both
# import libraries meanwhile.
_SAMPLES: Final = 5
_SECONDS_BETWEEN: Final = 0.0005


def set_wait_policy(
    environment: MutableMapping[str, str],
    others: Callable[[], int] | None = None,
) -> None:
    """Set the variables of OpenMP, unless the user has set the policy.

    Args:
        environment: the environment variables, which are changed.
        others: returns how many tasks of other processes want the cores of this one; None looks.

    Examples:
        >>> quiet, busy, mine = {}, {}, {"OMP_WAIT_POLICY": "ACTIVE"}
        >>> set_wait_policy(quiet, lambda: 0)
        >>> set_wait_policy(busy, lambda: 1)
        >>> set_wait_policy(mine)
        >>> quiet["GOMP_SPINCOUNT"], busy["GOMP_SPINCOUNT"], mine
        ('3000', '0', {'OMP_WAIT_POLICY': 'ACTIVE'})
    """
    if "OMP_WAIT_POLICY" in environment:
        return
    environment["OMP_WAIT_POLICY"] = "PASSIVE"
    if "GOMP_SPINCOUNT" not in environment:
        shared = (others or other_tasks)() > 0
        environment["GOMP_SPINCOUNT"] = NO_SPIN if shared else SHORT_SPIN


def other_tasks(read: Callable[[], str] = _LOAD.read_text) -> int:
    """Return how many running tasks of others do not fit on the cores that are not ours.

    Args:
        read: returns the text of `/proc/loadavg`: its fourth field has the tasks that run or wait
            for a core now, this one included, over all tasks.

    Returns:
        The median of a few looks; 0 if the system has no such file.

    Examples:
        >>> other_tasks(lambda: "0.50 0.40 0.30 1/180 4242")
        0
        >>> other_tasks(lambda: "0.50 0.40 0.30 9000/9001 4242") > 0
        True
    """
    elsewhere = (os.cpu_count() or 1) - own_cores()
    looks = []
    for look in range(_SAMPLES):
        if look:
            time.sleep(_SECONDS_BETWEEN)
        try:
            running = int(read().split()[3].partition("/")[0])
        except (OSError, IndexError, ValueError):
            return 0
        looks.append(running - 1 - elsewhere)
    return max(0, sorted(looks)[_SAMPLES // 2])


def own_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
