"""Errors as messages and exit codes, for all commands."""

from __future__ import annotations

import errno
import io
import os
import shlex
import sys
from collections import UserDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, TypeAlias, cast

import click
from click.shell_completion import CompletionItem

from pact_cli.console import CI_FORMAT, JSON_PRINTED, QUIET, print_json
from pact_cli.steps import LOADING, loading, one_blas_thread, watched_steps
from pact_eval._files import advice_on_full_disk, is_url
from pact_eval._json import Json
from pact_eval.errors import PactError, RecordError, model_extra, ray_extra
from pact_eval.plain_text import error_text, one_line, visible

# Windows answers EINVAL where others answer EPIPE.
_LEFT: Final = frozenset({errno.EPIPE, *((errno.EINVAL,) if os.name == "nt" else ())})


class _Pipe(io.RawIOBase):
    """A stream that is dropped from the moment on when its reader has left (`| head`)."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self.name = raw.name

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def isatty(self) -> bool:
        return self._raw.isatty()

    def write(self, data: bytes, /) -> int | None:  # type: ignore[override]
        try:
            return self._raw.write(data)
        except OSError as error:
            if error.errno not in _LEFT:
                raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
        return len(data)


def outlive_readers() -> None:
    """Let standard output and error be closed by their readers without an error."""
    sys.stdout, sys.stderr = _outliving(sys.stdout), _outliving(sys.stderr)


def _outliving(stream: IO[str]) -> IO[str]:
    """Return the stream, or another over the same file. Streams of tests have no file."""
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(raw, io.FileIO):
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Pipe(raw)),  # type: ignore[type-var]
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


_INTERRUPTED = 1
_LONGEST_LINE = 10_000
_AS_JSON = "pact.as_json"

Sections: TypeAlias = Mapping[str, Mapping[str, tuple[str, str]]]
"""By heading of `--help` and name of a command: its module in `pact_cli`, with the function if its
name is another one, such as `import_rows:import_rows`, and the first sentence of its help."""


class LazyCommands(UserDict[str, Any]):
    """Commands by name, each imported when it is asked for: `report` does not wait for `score`.

    Args:
        places: by name, the module in `pact_cli`, with the function in it if it is named otherwise,
            or the command.

    Examples:
        >>> commands = LazyCommands({"paper": "paper"})
        >>> commands["paper"].name
        'paper'
    """

    def __getitem__(self, name: str) -> click.Command:
        entry = self.data[name]
        if isinstance(entry, str):
            module, _, attribute = entry.partition(":")
            self.data[name] = entry = getattr(
                import_module(f"pact_cli.{module}"), attribute or name
            )
        return cast("click.Command", entry)


class PactGroup(click.Group):
    """A command group that turns errors into one message on stderr, never a traceback.

    Exit codes: 0 success, 1 failure, 2 usage, 3 a gate failed, 4 inconclusive when a verdict was
    required, 5 tampered.

    Args:
        arguments: as for `click.Group`.
        sections: the commands that are imported when they are asked for, in the order of `--help`.
        words: by word that people type and that is no command, what does it.
        of_file: the command for a file or folder in place of a command; `{}` is the file.
        one_thread: those whose numpy gets one thread of BLAS.
        attributes: as for `click.Group`.
    """

    def __init__(
        self,
        *arguments: Any,
        sections: Sections | None = None,
        words: Mapping[str, str] | None = None,
        of_file: str = "",
        one_thread: Sequence[str] = (),
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.sections = sections or {}
        self.words = words or {}
        self.of_file = of_file
        self.one_thread = one_thread
        places = {
            name: place
            for commands in self.sections.values()
            for name, (place, _) in commands.items()
        }
        if places:
            self.commands = LazyCommands(places)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program; a reader that leaves (`| head`) changes no exit code."""
        outlive_readers()
        return super().main(*args, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note whether errors are printed as JSON as well."""
        ctx.meta[_AS_JSON] = "--json" in args
        ctx.meta[QUIET] = any(name in args for name in ("-q", "--quiet"))
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; the terminal says that its libraries are loaded."""
        if ctx.resilient_parsing or cmd_name not in self.commands:
            return super().get_command(ctx, cmd_name)
        thread = one_blas_thread() if cmd_name in self.one_thread else nullcontext()
        with watched_steps(told=False), loading(LOADING), thread:
            return self.commands[cmd_name]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first word; refuse another word with the command meant."""
        word = args[0]
        if word not in self.commands and (message := self._meant(word)):
            raise click.UsageError(message, ctx)
        return super().resolve_command(ctx, args)

    def _meant(self, word: str) -> str:
        """Return the message on a word that is no command; "" if nothing is known of it."""
        place = self.words.get(word.lower())
        if place is not None:
            return f"{word} is not a command; use: {place}"
        if self.of_file and (is_url(word) or Path(word).exists()):
            return f"expected a command, got a path; use: {self.of_file.format(shlex.quote(word))}"
        return ""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, without importing any."""
        if not self.sections:
            return super().shell_complete(ctx, incomplete)
        commands = [
            CompletionItem(name, help=text)
            for section in self.sections.values()
            for name, (_, text) in section.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of work, as they were added."""
        del ctx
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under the headings of their sections."""
        if not self.sections:
            super().format_commands(ctx, formatter)
        width = max(map(len, self.commands))
        for heading, commands in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(name.ljust(width), text) for name, (_, text) in commands.items()]
                )

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn our errors and system errors into a message."""
        try:
            return super().invoke(ctx)
        except PactError as error:
            _print_as_json(ctx, error, error.exit_code)
            _annotate(ctx, error)
            _fail(_with_notes(error_text(error), error), error.exit_code)
        except click.UsageError as error:
            _print_as_json(ctx, error, error.exit_code)
            raise
        except OSError as error:
            _print_as_json(ctx, error, 1)
            where = f"{one_line(str(error.filename))}: " if error.filename else ""
            _fail(f"{where}{error.strerror or error}{advice_on_full_disk(error)}", 1)
        except KeyboardInterrupt as error:
            message = f"interrupted; {str(error) or 'nothing was written'}"
            _print_as_json(ctx, KeyboardInterrupt(message), _INTERRUPTED)
            _fail(message, _INTERRUPTED)


def _with_notes(text: str, error: BaseException) -> str:
    """Return a message with the lines that commands have added to an error."""
    return "\n".join([text, *getattr(error, "__notes__", ())])


def _print_as_json(ctx: click.Context, error: BaseException, exit_code: int) -> None:
    """Print an error as JSON to stdout, if JSON was requested and nothing was printed yet.

    A gate that fails, for example, has already printed what it judged.
    """
    if not ctx.meta[_AS_JSON] or ctx.find_root().meta.get(JSON_PRINTED):
        return
    problems = error.problems if isinstance(error, RecordError) else ()
    details: dict[str, Json] = {
        "kind": type(error).__name__,
        "exit_code": exit_code,
        "message": error.format_message()
        if isinstance(error, click.UsageError)
        else _with_notes(str(error), error),
        "problems": [
            {
                "line": problem.line,
                "id": problem.record_id,
                "message": problem.message,
                "kind": problem.kind,
                "remedy": problem.remedy,
            }
            for problem in problems
        ],
    }
    print_json({"error": details})


def _annotate(ctx: click.Context, error: PactError) -> None:
    """Print an error as workflow commands of GitHub, if that format was requested."""
    if ctx.meta.get(CI_FORMAT) == "github":
        from pact_reports.writers.ci import error_commands

        for line in error_commands(error):
            click.echo(line)


@contextmanager
def needs_model_extra() -> Iterator[None]:
    """Show that torch is loaded; raise an error that names the extra if it is missing."""
    with loading("Loading torch"), model_extra():
        yield


@contextmanager
def needs_ray_extra() -> Iterator[None]:
    """Show that Ray is loaded; raise an error that names the extra if it is missing."""
    with loading("Loading Ray"), ray_extra():
        yield


def _shorten(message: str) -> str:
    """Return a message whose lines have at most `_LONGEST_LINE` characters.

    Messages quote what files hold, and a key may have 10 MB.

    Examples:
        >>> len(_shorten("k" * 10**7))
        10000
    """
    lines = message.split("\n")
    return "\n".join(
        line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 3]}..." for line in lines
    )


def _fail(message: str, exit_code: int) -> None:
    click.echo(f"Error: {_shorten(visible(message))}", err=True)
    sys.exit(exit_code)
