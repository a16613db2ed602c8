"""Options, exit codes and provenance that the auditing commands share."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import metadata
from typing import TYPE_CHECKING, NoReturn

import click

from pact_cli.commands import NATURAL, SHARE, Command, choice, option
from pact_eval._choices import FINDINGS_KEPT, NEAR_DUPLICATE, Severity
from pact_eval._json import Json
from pact_eval.errors import GateError, InputError, TamperedError

if TYPE_CHECKING:
    from pact_eval.audit.findings import CheckResult

__all__ = [
    "exit_with",
    "findings_options",
    "near_duplicate_option",
    "provenance",
]


def findings_options(command: Command) -> Command:
    """Add --fail-on and --max-findings."""
    command = option(
        "--max-findings",
        group="Checks",
        type=NATURAL,
        default=FINDINGS_KEPT,
        show_default=True,
        help="Findings shown per code; the rest are counted.",
    )(command)
    return option(
        "--fail-on",
        group="Checks",
        type=choice(Severity),
        default="error",
        show_default=True,
        help="Exit with 3 on a finding of this severity or higher.",
    )(command)


near_duplicate_option = option(
    "--near-duplicate",
    group="Checks",
    type=SHARE,
    default=NEAR_DUPLICATE,
    show_default=True,
    help="Cosine similarity of character 5-grams at which two contexts count as near duplicates.",
)


def exit_with(
    checks: Sequence[CheckResult], fail_on: Severity, *, tampered: bool, all_wanted: bool = False
) -> NoReturn:
    """End the command with the exit code for the results, which have been printed.

    Args:
        checks: the results.
        fail_on: the lowest severity that fails.
        tampered: whether a hash does not match.
        all_wanted: whether all checks were requested by name, so none may be skipped.

    Raises:
        InputError: a requested check was skipped, and nothing else fails.
    """
    from pact_eval.audit.findings import failed

    if tampered:
        code = TamperedError.exit_code
    else:
        code = GateError.exit_code if failed(checks, fail_on) else 0
    skipped = [f"{check.check} ({check.skipped})" for check in checks if check.skipped is not None]
    if code == 0 and all_wanted and skipped:
        message = f"expected every check of --only to run, skipped {', '.join(skipped)}"
        raise InputError(message)
    click.get_current_context().exit(code)


def provenance() -> dict[str, Json]:
    """Return the provenance of an audit: the tool, its version, and the command line as given."""
    return {
        "tool": "pact-audit",
        "version": metadata.version("pact-eval"),
        "command_line": [*sys.argv],
    }
