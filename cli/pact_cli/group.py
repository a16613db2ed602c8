"""The one place where errors become messages and exit codes."""

from __future__ import annotations

import sys
from typing import Any

import click

from pact_eval.errors import PactError, Problem, RecordError
from pact_reports.plain_text import one_line, visible

__all__ = ["PactGroup", "error_text"]

_INTERRUPTED = 1


class PactGroup(click.Group):
    """A command group whose errors are one clear message on stderr, never a traceback.

    Exit codes: 0 fine, 1 could not do its work, 2 usage, 3 a gate failed, 4 inconclusive where a
    verdict was demanded, 5 tampered.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn errors that are ours, or the system's, into a message."""
        try:
            return super().invoke(ctx)
        except PactError as error:
            _fail(error_text(error), error.exit_code)
        except BrokenPipeError:
            # The reader of our output has gone (`| head`): nothing is left to say, and to nobody.
            sys.stderr.close()
            sys.exit(0)
        except OSError as error:
            where = f"{one_line(str(error.filename))}: " if error.filename else ""
            _fail(f"{where}{error.strerror or error}", 1)
        except KeyboardInterrupt:
            _fail(
                "interrupted; a run keeps what was scored, and the same command goes on",
                _INTERRUPTED,
            )


def error_text(error: PactError) -> str:
    """Return an error's message, safe to print; each problem of a file stays one line."""
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


def _fail(message: str, exit_code: int) -> None:
    click.echo(f"Error: {visible(message)}", err=True)
    sys.exit(exit_code)
