"""Console output with rich: a console, and lines of steps.

`pact_cli.console` imports this module when a command prints: rich takes a third of the time of
`pact-eval --help`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pact_cli.steps import StepLine

_WIDE: Final = 100  # columns from which counts are shown next to shares
_TEXT_WIDTH: Final = 52  # columns that a line usually needs besides its bar
_UNCOUNTED: Final = ("bytes", "parts")


def live_lines(shown: Callable[[], Sequence[StepLine]]) -> Live:
    """Return lines on stderr that show open steps and leave nothing when they are stopped.

    Args:
        shown: returns the steps to show now.
    """
    console = Console(stderr=True)
    return Live(
        get_renderable=lambda: _lines(shown(), console.width),
        console=console,
        refresh_per_second=5,
        transient=True,
        redirect_stdout=False,
    )


def _lines(steps: Sequence[StepLine], width: int) -> RenderableType:
    """Lay out steps: name, bar, share and count, rate and time left."""
    if not steps:
        return Text()
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, overflow="ellipsis")
    for _ in range(3):
        table.add_column(no_wrap=True, justify="right")
    bar_width = max(8, min(40, width - _TEXT_WIDTH))
    for line in steps:
        total, share = line.step.total, line.step.share
        bar = ProgressBar(
            total=None if share is None else 1.0, completed=share or 0.0, width=bar_width
        )
        done = "" if share is None else f"{math.floor(100 * share)}%"
        if total is not None and line.step.unit not in _UNCOUNTED and width >= _WIDE:
            done = f"{line.step.reached:,.0f}/{total:,.0f}  {done}"
        table.add_row(line.name, bar, done, f"{line.rate}  {_time_of(line)}".strip())
    numbers = [Text(f"  {line.numbers} so far", style="dim") for line in steps if line.numbers]
    return Group(table, *numbers)


def _time_of(line: StepLine) -> str:
    left = line.seconds_left
    if left is None:
        return _clock(line.seconds)
    return f"{_clock(left)} left"


def _clock(seconds: float) -> str:
    """Return a time as hours, minutes and seconds, rounded up.

    >>> _clock(75), _clock(3675.2)
    ('1:15', '1:01:16')
    """
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
