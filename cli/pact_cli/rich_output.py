"""What the commands use of rich: a console that survives a closed pipe, and a bar with a rate.

`pact_cli.console` imports this module when a command prints: rich takes a third of the time of
`pact-eval --help`.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.status import Status
from rich.text import Text


class PipeConsole(Console):
    """A console that exits with 0 if the reader closes the pipe (`| head`).

    Attributes:
        without_status: whether it shows no spinner.
    """

    without_status = False

    def status(self, *arguments: Any, **options: Any) -> Status:
        """Return a spinner, which shows nothing if the console is without."""
        if self.without_status:
            return Console(quiet=True).status(*arguments, **options)
        return super().status(*arguments, **options)

    def on_broken_pipe(self) -> None:
        """Exit with 0 where rich would exit with 1."""
        try:
            super().on_broken_pipe()
        except SystemExit:
            raise SystemExit(0) from None


def rate_bar(what: str, *, hidden: bool = False) -> Progress:
    """Return a bar on stderr with items per second and the time left; hidden, it shows nothing."""
    return Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        _ItemsPerSecond(),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        refresh_per_second=4,
        disable=hidden,
    )


class _ItemsPerSecond(ProgressColumn):
    """Items per second of this process; items that an earlier process scored do not count."""

    def __init__(self) -> None:
        super().__init__()
        self._first: tuple[float, float] | None = None

    def render(self, task: Task) -> Text:
        if task.total is None or task.elapsed is None:
            return Text("loading")
        if self._first is None:
            self._first = (task.completed, task.elapsed)
        items, seconds = task.completed - self._first[0], task.elapsed - self._first[1]
        return Text(f"{items / seconds:.1f} items/s" if items > 0 and seconds > 0 else "- items/s")
