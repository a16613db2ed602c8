"""The steps of a command: lines on stderr while it works, and remains of an interrupted one.

Every command watches the steps of the library (`pact_eval.progress`). Lines are drawn if stderr is
a terminal and the command was started without `-q`.
"""

from __future__ import annotations

import gc
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pact_cli.console import announce, quiet
from pact_eval.plain_text import one_line
from pact_eval.progress import Step, step, watched

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_COMMAND_SECONDS: Final = 0.7  # a command that is faster shows no line
_STEP_SECONDS: Final = 0.5  # nor does a faster step inside another
_LEAST_TOLD_SECONDS: Final = 0.2
_WAIT_SECONDS: Final = 30.0  # between two lines about what is waited for
_MOST_FILES: Final = 3
LOADING: Final = "Loading libraries"
"""The only step that is shown at once, because nothing came before it."""

_WIDE: Final = 100  # columns from which counts are shown next to shares
_TEXT_WIDTH: Final = 52  # columns that a line usually needs besides its bar
_UNCOUNTED: Final = ("bytes", "parts")
_PREFIXES: Final = ("", "k", "M", "G", "T")
_THREADS: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
"""Variables that OpenBLAS reads when numpy is imported; the first counts."""


@dataclass(eq=False, slots=True)
class StepLine:
    """One open step, as a line shows it.

    Attributes:
        step: the step.
        depth: number of steps around it.
        started: time of its start in seconds, of a monotonic clock.
        first: how much was done before it started.
    """

    step: Step
    depth: int
    started: float
    first: float

    @property
    def name(self) -> str:
        """The name, indented if the step is inside another, and safe to print."""
        return "  " * (self.depth > 0) + one_line(self.step.name)

    @property
    def seconds(self) -> float:
        """Time since the start in seconds."""
        return time.monotonic() - self.started

    @property
    def per_second(self) -> float:
        """Units per second since the start, without what was done before."""
        return (self.step.reached - self.first) / max(self.seconds, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """Time left at this rate in seconds; None if it cannot be known yet."""
        if self.step.total is None or self.per_second <= 0:
            return None
        return max(0.0, self.step.total - self.step.reached) / self.per_second

    @property
    def numbers(self) -> str:
        """What is known of the result so far, in percent; "" if nothing is.

        Example:
            >>> step = Step("Scoring", numbers={"accuracy": 0.52, "answer_mass": 0.034})
            >>> StepLine(step, 0, 0.0, 0.0).numbers
            'accuracy 52.0%, answer mass 3.4%'
        """
        numbers = self.step.numbers.items()
        return ", ".join(f"{name.replace('_', ' ')} {100 * share:.1f}%" for name, share in numbers)

    @property
    def rate(self) -> str:
        """The rate in words; "" for parts, and before anything is done.

        Example:
            >>> line = StepLine(Step("Reading", 9e6, "bytes", done=3e6), 0, time.monotonic() - 1, 0)
            >>> line.rate
            '3.0 MB/s'
        """
        unit, rate = self.step.unit, self.per_second
        if unit == "parts" or rate <= 0:
            return ""
        if rate < 0.5 and unit != "bytes":
            return f"{_number(1 / rate)} s/{unit.removesuffix('s')}"
        power = 0
        while rate >= (1_000 if unit == "bytes" else 10_000) and power + 1 < len(_PREFIXES):
            rate, power = rate / 1_000, power + 1
        if unit == "bytes":
            return f"{_number(rate)} {_PREFIXES[power]}B/s"
        return f"{_number(rate)}{_PREFIXES[power]} {unit}/s"


def _number(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


class CommandSteps:
    """Observer of the steps of a command, which shows them and remembers the written files.

    Args:
        told: print each step that is over, with its time.

    Attributes:
        written: the files, in order.
    """

    def __init__(self, *, told: bool) -> None:
        self.written: list[Path] = []
        self._told = told
        self._drawn = not quiet() and sys.stderr.isatty()
        self._lines: list[StepLine] = []
        self._started = time.monotonic()
        self._waits_told = -math.inf
        self._live: Live | None = None

    def started(self, step: Step, depth: int) -> None:
        """Show a step that begins."""
        self._lines.append(StepLine(step, depth, time.monotonic(), step.done))
        if depth == 0:
            _restore_python_interrupts()
        if not self._drawn or depth:
            return
        if step.name == LOADING:
            # Without rich, which takes long to import too.
            click.echo(LOADING, nl=False, err=True)
        else:
            self._live = _live_lines(self._steps_to_show)
            self._live.start()

    def ended(self, depth: int, *, failed: bool) -> None:
        """Remove the line of a step that is over, and of those inside."""
        ended = self._lines[depth : depth + 1]
        del self._lines[depth:]
        if depth:
            return
        if self._live is not None:
            self._live.stop()
            self._live = None
        for line in ended:
            if self._drawn and line.step.name == LOADING:
                click.echo(f"\r{'':{len(LOADING)}}\r", nl=False, err=True)
            if self._told and not failed and line.seconds >= _LEAST_TOLD_SECONDS:
                texts = (f"{line.seconds:.1f} s", line.rate, line.numbers)
                announce([f"{line.name}: {', '.join(text for text in texts if text)}"])

    def wrote(self, path: Path) -> None:
        """Remember a file."""
        if path not in self.written:
            self.written.append(path)

    def waits(self, what: str) -> None:
        """Say now and then what the command waits for."""
        if time.monotonic() - self._waits_told >= _WAIT_SECONDS:
            self._waits_told = time.monotonic()
            announce([f"Waiting for {what}"])

    def _steps_to_show(self) -> Sequence[StepLine]:
        """Return the outermost step and the innermost; another thread draws them."""
        if time.monotonic() - self._started < _COMMAND_SECONDS:
            return ()
        lines = [*self._lines]
        inner = [line for line in lines[1:] if line.seconds > _STEP_SECONDS]
        measured = [line for line in inner if line.step.total is not None]
        return [*lines[:1], *(measured or inner)[-1:]]


def _live_lines(shown: Callable[[], Sequence[StepLine]]) -> Live:
    """Return lines on stderr that show open steps and leave nothing when they are stopped.

    Args:
        shown: returns the steps to show now.
    """
    from rich.console import Console  # rich takes a third of the time of `pact-eval --help`
    from rich.live import Live

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
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

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


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let numpy start no threads if the block imports it: they wait busily for work.

    On two cores, this took a tenth of the CPU time of a page. A number that the user has set
    counts. The variable is gone when the block ends: torch and other processes do not see it.
    """
    if any(name in os.environ for name in _THREADS):
        yield
        return
    os.environ[_THREADS[0]] = "1"
    try:
        yield
    finally:
        del os.environ[_THREADS[0]]


@contextmanager
def loading(title: str) -> Iterator[None]:
    """Import modules in a step, without garbage collection then or later of what they make.

    It took 1.7 s of the 5.2 s in which torch, transformers and PEFT are loaded and left again.

    Args:
        title: of the step.
    """
    collects, module_count = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        with step(title):
            yield
    finally:
        if len(sys.modules) > module_count:
            gc.freeze()
        if collects:
            gc.enable()


@contextmanager
def watched_steps(*, told: bool, targets: Iterable[Path] = ()) -> Iterator[None]:
    """Show the steps of the block, and say after Ctrl-C what the block has written.

    Args:
        told: print each step that is over, with its time.
        targets: files that the block replaces if it gets so far.

    Raises:
        KeyboardInterrupt: with the message of the interrupt, or one about the files.
    """
    steps = CommandSteps(told=told)
    old = [path for path in targets if path.is_file()]
    with watched(steps):
        try:
            yield
        except KeyboardInterrupt as error:
            untouched = [path for path in old if path not in steps.written]
            # Parts of a run are gone when the run is complete.
            left = files_left([path for path in steps.written if path.exists()], untouched)
            raise KeyboardInterrupt(str(error) or left) from None


def files_left(written: Sequence[Path], untouched: Sequence[Path] = ()) -> str:
    """Say what an interrupted command has written.

    Args:
        written: the files that it has completed.
        untouched: older files that it would have replaced.

    Example:
        >>> files_left([], [Path("page.html")])
        'nothing was written; page.html is as it was'
        >>> files_left([Path("a.svg"), Path("b.svg")])
        'written: a.svg, b.svg; no other file was changed'
    """
    if written:
        named = [one_line(str(path)) for path in written]
        more = len(named) - _MOST_FILES
        rest = f" and {more:,} more" if more > 0 else ""
        return f"written: {', '.join(named[:_MOST_FILES])}{rest}; no other file was changed"
    kept = "".join(f"; {one_line(str(path))} is as it was" for path in untouched)
    return f"nothing was written{kept}"


def _restore_python_interrupts() -> None:
    """Make Python handle Ctrl-C again.

    polars installs its own handler in front of Python's. While it wrote tables, 300 interrupts
    raised about 400 errors; with Python's handler alone they raise 300. An ignored signal (nohup)
    stays ignored.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)
