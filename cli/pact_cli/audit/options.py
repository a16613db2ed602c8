"""Options and output that the auditing commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from pact_cli.console import output
from pact_eval.errors import GateError, TamperedError

if TYPE_CHECKING:
    from pact_eval.audit.codes import Severity
    from pact_eval.audit.findings import CheckResult

__all__ = ["exit_with", "findings_options", "stages"]

Command = TypeVar("Command", bound=Callable[..., Any])


def findings_options(command: Command) -> Command:
    """Add what decides how findings are shown and when they fail: --fail-on, --max-findings."""
    command = click.option(
        "--max-findings",
        type=click.IntRange(min=0),
        default=5,
        show_default=True,
        help="Findings shown of each code; the rest are counted.",
    )(command)
    return click.option(
        "--fail-on",
        type=click.Choice(["error", "warning", "note"]),
        default="error",
        show_default=True,
        help="Exit with 3 on a finding of this severity, or of a worse one.",
    )(command)


def exit_with(checks: Sequence[CheckResult], fail_on: Severity, *, tampered: bool) -> NoReturn:
    """End the command with the exit code of what was found; the report has said why."""
    from pact_eval.audit.findings import failed

    if tampered:
        code = TamperedError.exit_code
    else:
        code = GateError.exit_code if failed(checks, fail_on) else 0
    click.get_current_context().exit(code)


@contextmanager
def stages(what: str) -> Iterator[Callable[[str], None]]:
    """Show on stderr, where that is a terminal, which stage is being worked on."""
    console = output(to_stderr=True)
    with console.status(what) as status:
        yield lambda stage: status.update(f"{what}: {stage}")
