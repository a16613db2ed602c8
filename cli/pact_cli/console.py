"""Output: tables to stdout, progress to stderr; with `--json`, one object to stdout."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import click
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
from rich.text import Text

from pact_eval._json import Json
from pact_reports.plain_text import visible

_PIPED_WIDTH = 120
_ASCII_LIKE = "pact-ascii-like"
_NOT_ASCII = re.compile(r"[^\n -~]")  # JSON has line feeds only between values
_LIKENESS = {"↑": "^", "↓": "v", "–": "-", "±": "+-", "∞": "inf", "…": "..."}
_LIKENESS |= {sign: f"({number})" for number, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}


def output(*, to_stderr: bool = False) -> Console:
    """Return a console; piped output is plain, and 120 columns wide unless COLUMNS differs."""
    stream = sys.stderr if to_stderr else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        # A terminal that cannot show an arrow shows an ASCII substitute, not a traceback.
        stream.reconfigure(errors=_ASCII_LIKE)
    console = _Console(stderr=to_stderr, highlight=False)
    if console.is_terminal:
        return console
    given = os.environ.get("COLUMNS", "")
    width = int(given) if given.isdigit() and int(given) > 0 else _PIPED_WIDTH
    return _Console(stderr=to_stderr, highlight=False, width=width, color_system=None)


class _Console(Console):
    """A console that exits with 0 if the reader closes the pipe (`| head`)."""

    def on_broken_pipe(self) -> None:
        try:
            super().on_broken_pipe()
        except SystemExit:
            raise SystemExit(0) from None


def print_json(value: Mapping[str, Json]) -> None:
    """Print one JSON object to stdout, in ASCII if the encoding of stdout is not Unicode.

    Characters that are not printable are escaped, because they could control a terminal. UTF-8
    cannot encode a lone surrogate.
    """
    ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
    text = json.dumps(value, ensure_ascii=ascii_only, allow_nan=False, indent=2)
    click.echo(_NOT_ASCII.sub(_json_escape, text))


def warn(warnings: Iterable[str]) -> None:
    """Print warnings to stderr."""
    for warning in warnings:
        click.echo(f"Warning: {visible(warning)}", err=True)


def _json_escape(match: re.Match[str]) -> str:
    sign = match[0]
    return sign if sign.isprintable() else json.dumps(sign)[1:-1]


def _ascii_like(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(
        _LIKENESS.get(sign, "?") if sign.isprintable() else ascii(sign)[1:-1] for sign in text
    ), error.end


codecs.register_error(_ASCII_LIKE, _ascii_like)


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar with items per second and the time left on stderr; yield a function to move it."""
    bar = Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        _ItemsPerSecond(),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        refresh_per_second=4,
    )
    task = bar.add_task(what, total=None)
    _restore_python_interrupts()
    with bar:
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _restore_python_interrupts() -> None:
    """Make Python handle Ctrl-C again.

    polars installs its own handler in front of Python's. While it wrote tables, 300 interrupts
    raised about 400 errors; with Python's handler alone they raise 300. An ignored signal (nohup)
    stays ignored.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
