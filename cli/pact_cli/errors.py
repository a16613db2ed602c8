"""Errors as messages and exit codes, for all commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from pact_eval._files import advice_on_full_disk
from pact_eval.errors import MissingExtraError, PactError, Problem, RecordError
from pact_reports.plain_text import one_line, visible

_INTERRUPTED = 1
_EXTRA_MODULES = ("torch", "transformers", "peft", "safetensors", "jinja2", "huggingface_hub")


class PactGroup(click.Group):
    """A command group that turns errors into one message on stderr, never a traceback.

    Exit codes: 0 success, 1 failure, 2 usage, 3 a gate failed, 4 inconclusive when a verdict was
    required, 5 tampered.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn our errors and system errors into a message."""
        try:
            return super().invoke(ctx)
        except PactError as error:
            _fail(error_text(error), error.exit_code)
        except BrokenPipeError:
            # The reader of our output has closed the pipe (`| head`), so a message is not needed.
            sys.stderr.close()
            sys.exit(0)
        except OSError as error:
            where = f"{one_line(str(error.filename))}: " if error.filename else ""
            _fail(f"{where}{error.strerror or error}{advice_on_full_disk(error)}", 1)
        except KeyboardInterrupt:
            _fail(
                "interrupted; scored items are kept, and the same command resumes the run",
                _INTERRUPTED,
            )


def error_text(error: PactError) -> str:
    """Return an error's message, safe to print; each problem of a file is on one line."""
    if not isinstance(error, RecordError):
        return visible(str(error))
    problems = [
        Problem(
            problem.line,
            None if problem.record_id is None else one_line(problem.record_id),
            one_line(problem.message),
        )
        for problem in error.problems
    ]
    return str(RecordError(one_line(error.source), problems))


@contextmanager
def needs_model_extra() -> Iterator[None]:
    """Raise an error that names the extra to install if torch or transformers is missing."""
    try:
        yield
    except ImportError as error:
        if error.name is None or error.name.split(".")[0] not in _EXTRA_MODULES:
            raise
        message = (
            f"this command needs a model, and {error.name} is not installed; install the extra: "
            "pip install --constraint constraints.txt '.[model]'"
        )
        raise MissingExtraError(message) from error


def _fail(message: str, exit_code: int) -> None:
    click.echo(f"Error: {visible(message)}", err=True)
    sys.exit(exit_code)
