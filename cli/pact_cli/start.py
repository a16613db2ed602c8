"""Start of the programs, with a message also for Ctrl-C during their imports."""

from __future__ import annotations

import sys
from importlib import import_module


def _run(module: str, name: str) -> None:
    try:
        program = import_module(module).main
    except KeyboardInterrupt:
        sys.exit("Error: interrupted; nothing was written")
    program(prog_name=name)


def pact_eval() -> None:
    """Run `pact-eval`."""
    _run("pact_cli.main", "pact-eval")


def pact_audit() -> None:
    """Run `pact-audit`."""
    _run("pact_cli.audit.main", "pact-audit")
