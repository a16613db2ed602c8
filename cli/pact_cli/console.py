"""Output: tables to stdout, progress to stderr; with `--json`, one object to stdout."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pact_eval._choices import CiFormat
from pact_eval._json import Json
from pact_eval.plain_text import one_line, visible

if TYPE_CHECKING:  # --help prints no table: it waits neither for rich nor for what is printed
    from rich.console import Console

    from pact_reports.cases import CiReport
    from pact_reports.views.presenter import Presenter

JSON_PRINTED = "pact.json_printed"
"""Key in the context of a command: whether its JSON object is already on stdout."""

CI_FORMAT = "pact.ci_format"
"""Key in the context of a command: the value of `--format`, if the command has it."""

JSON = "pact.json"
"""Key in the context of a command: whether it prints one JSON object."""

QUIET = "pact.quiet"
"""Key in the context of a command: whether progress and remarks are left out."""

VERBOSE = "pact.verbose"
"""Key in the context of a command: whether details are printed too."""

_SUMMARY = "GITHUB_STEP_SUMMARY"
_PIPED_WIDTH = 120
_ASCII_LIKE = "pact-ascii-like"
_NOT_ASCII = re.compile(r"[^\n -~]")  # JSON has line feeds only between values
_LIKENESS = {"↑": "^", "↓": "v", "–": "-", "±": "+-", "∞": "inf", "…": "..."}
_LIKENESS |= {sign: f"({number})" for number, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}


@dataclass(frozen=True)
class Shown:
    """What of a result a command prints.

    Attributes:
        full: every table, instead of the first screen.
        items: number of items to list; None lists none.
        data: datasets with the texts of items.
    """

    full: bool = False
    items: int | None = None
    data: tuple[Path, ...] = ()


FIRST_SCREEN: Final = Shown()
"""Of a command without options."""


def output(*, to_stderr: bool = False) -> Console:
    """Return a console; piped output is plain, and 120 columns wide unless COLUMNS differs."""
    from rich.console import Console

    stream = sys.stderr if to_stderr else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        # A terminal that cannot show an arrow shows an ASCII substitute, not a traceback.
        stream.reconfigure(errors=_ASCII_LIKE)
    console = Console(stderr=to_stderr, highlight=False)
    if console.is_terminal:
        return console
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdigit() and int(columns) > 0 else _PIPED_WIDTH
    return Console(stderr=to_stderr, highlight=False, width=width, color_system=None)


def print_json(value: Mapping[str, Json]) -> None:
    """Print one JSON object to stdout, in ASCII if the encoding of stdout is not Unicode.

    Characters that are not printable are escaped, because they could control a terminal. UTF-8
    cannot encode a lone surrogate.
    """
    context = click.get_current_context(silent=True)
    if context is not None:
        context.find_root().meta[JSON_PRINTED] = True
    ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
    text = json.dumps(value, ensure_ascii=ascii_only, allow_nan=False, indent=2)
    click.echo(_NOT_ASCII.sub(_json_escape, text))


def _noted(key: str) -> Any:
    """Return what a command noted under a key of its context; None outside a command."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(key)


def quiet() -> bool:
    """Return whether the command was started with `-q`."""
    return bool(_noted(QUIET))


def verbose() -> bool:
    """Return whether the command was started with `-v`."""
    return bool(_noted(VERBOSE))


def as_json() -> bool:
    """Return whether the command was started with `--json`."""
    return bool(_noted(JSON))


def ci_format() -> CiFormat | None:
    """Return the value of `--format`; None without it."""
    form: CiFormat | None = _noted(CI_FORMAT)
    return form


def announce(remarks: Iterable[str]) -> None:
    """Print remarks to stderr, one line each, unless the command was started with `-q`."""
    if quiet():
        return
    for remark in remarks:
        click.echo(one_line(remark), err=True)


def warn(warnings: Iterable[str]) -> tuple[str, ...]:
    """Print warnings to stderr, and return them."""
    printed = tuple(warnings)
    for warning in printed:
        click.echo(f"Warning: {visible(warning)}", err=True)
    return printed


def tell(lines: Iterable[str]) -> None:
    """Print lines to stdout: files that were written, answers, the next command."""
    for line in lines:
        click.echo(one_line(line))


def emit(
    presenter: Presenter,
    *,
    files: Iterable[Path] = (),
    warned: Collection[str] = (),
    full: bool = True,
) -> None:
    """Print a result: its warnings to stderr, and then its JSON, its first screen, or everything.

    A warning that is among the first lines is not printed twice.

    With `--format`, print its cases instead, and nothing else.

    Args:
        presenter: the result.
        files: those that were written; JSON does not name them.
        warned: warnings that are printed already.
        full: print everything, and not the first screen alone.
    """
    warnings = [sentence for sentence in presenter.warnings if sentence not in warned]
    if as_json() or ci_format():
        warn(warnings)
    if as_json():
        # The command line follows the tool and its version, which the result has.
        heads = dict.fromkeys(("tool", "version")) | {"command_line": [*sys.argv]}
        print_json({**(heads if presenter.tool else {}), **presenter.json()})
        return
    if form := ci_format():
        command = f"pact-eval {click.get_current_context().info_name}"
        print_ci(presenter.cases(command), form)
        return
    from pact_reports.writers.terminal import show

    blocks = iter(presenter.printed(full=full))
    first = [*next(blocks, ())]
    said = {getattr(part, "text", "") for part in first}
    warn(sentence for sentence in warnings if f"Caution: {sentence}." not in said)
    if remarks := [*presenter.remarks()]:
        show(output(to_stderr=True), remarks)
    show(output(), first)
    tell(f"wrote {path}" for path in files)
    for block in blocks:
        show(output(), block)


def print_ci(report: CiReport, form: CiFormat) -> None:
    """Print the cases and annotations of a result.

    Args:
        report: the result.
        form: sarif, junit or github. github also appends Markdown to the file that the
            variable `GITHUB_STEP_SUMMARY` names.
    """
    from pact_reports.writers.ci import to_github, to_junit, to_sarif, to_step_summary

    if form == "sarif":
        print_json(to_sarif(report))
    elif form == "junit":
        click.echo(to_junit(report))
    else:
        console_file = output().file  # characters that the encoding lacks are replaced
        for line in to_github(report):
            click.echo(line, file=console_file)
        if path := os.environ.get(_SUMMARY):
            _append(Path(path), to_step_summary(report))


def _append(path: Path, text: str) -> None:
    """Append to a file that the other commands of the step write to as well.

    The exit code is that of the gate, so a file that cannot be written is a warning.
    """
    try:
        with path.open("ab") as file:
            file.write(text.encode())
    except OSError as error:
        warn([f"{path}: the step summary was not written: {error.strerror or error}"])


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
