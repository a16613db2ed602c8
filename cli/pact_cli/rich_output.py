"""Console output with rich: a console, and lines of steps.

`pact_cli.console` imports this module when a command prints: rich takes a third of the time of
`pact-eval --help`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pact_cli.steps import StepLine
    from pact_eval.experiments.progress_table import ExperimentProgress
    from pact_eval.experiments.steps import Step

_WIDE: Final = 100  # columns from which counts are shown next to shares
_TEXT_WIDTH: Final = 52  # columns that a line usually needs besides its bar
_LINES_AROUND: Final = 5  # of a table of models: two of its header, all, more, the end
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


def live_experiment(progress: ExperimentProgress) -> Live:
    """Return a table of arms by seeds on stderr that leaves nothing when it is stopped.

    Args:
        progress: of the experiment.
    """
    console = Console(stderr=True)
    return Live(
        get_renderable=lambda: _experiment_table(progress, console.height),
        console=console,
        refresh_per_second=2,
        transient=True,
        redirect_stdout=False,
    )


def _experiment_table(progress: ExperimentProgress, height: int) -> RenderableType:
    """Lay out an experiment: a row per arm and seed, and how far all of it is.

    Args:
        progress: of the experiment.
        height: lines of the terminal; of more models, those that run or have failed are shown.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("arm", overflow="ellipsis")
    for title in ("seed", "steps", "now", "time", "step", "loss", "selection\nNLL"):
        table.add_column(title, justify="left" if title == "now" else "right", no_wrap=True)
    models = sorted(progress.models, key=lambda model: _rank(progress, model))
    room = max(1, height - _LINES_AROUND)
    shown = {None, *(models if len(models) <= room else models[: room - 1])}
    for model in (None, *progress.models):
        done, total = progress.done_of(model)
        step, seed = progress.running(model), progress.seed(model)
        if model in shown and total and (model is not None or step is not None):
            arm = "all" if model is None else model.removesuffix(f"-{seed}")
            row = (arm, "" if seed is None else str(seed), f"{done}/{total}")
            table.add_row(*row, *_now(progress, model, step))
    hidden = len(models) + 1 - len(shown)
    more = [Text(f"and {hidden:,} more", style="dim")] if hidden else []
    end = f"{progress.over} of {len(progress.steps)} steps{_left(progress)}"
    return Group(table, *more, Text(end, style="dim"))


def _rank(progress: ExperimentProgress, model: str) -> int:
    """Return the place of a model among those that are shown: running, failed, waiting, over."""
    done, total = progress.done_of(model)
    if progress.running(model) is not None:
        return 0
    if progress.has_failed(model):
        return 1
    return 2 if done < total else 3


def _left(progress: ExperimentProgress) -> str:
    left = progress.time_left()
    if left is None:
        return ""
    return f", {'at least ' if left.is_least else ''}{_clock(left.seconds)} left"


def _now(progress: ExperimentProgress, model: str | None, step: Step | None) -> tuple[str, ...]:
    """Return what a model is in, for how long, and what its training has logged."""
    if step is None:
        return ("failed" if progress.has_failed(model) else "", "", "", "", "")
    logged = progress.logged(step)
    numbers = (logged.loss, logged.selection_nll_nats)
    return (
        step.part or step.stage,
        _clock(time.monotonic() - progress.started[step.name]),
        "" if logged.step is None else f"{logged.step:,}",
        *("" if number is None else f"{number:.3f}" for number in numbers),
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
