"""`pact-audit`: audit datasets and adapters."""

from __future__ import annotations

from typing import Final

import click

from pact_cli.commands import LazyCommands
from pact_cli.errors import PactGroup

__all__ = ["main"]

COMMANDS: Final = LazyCommands(
    {  # in the order of work, which `--help` shows
        "manifest": "pact_cli.audit.manifest:manifest",
        "convert": "pact_cli.audit.convert:convert",
        "data": "pact_cli.audit.data:data",
        "split": "pact_cli.audit.split:split",
        "ablate": "pact_cli.audit.ablate:ablate",
        "diff": "pact_cli.audit.diff:diff",
        "adapter": "pact_cli.audit.adapter:adapter",
    }
)


@click.group(
    cls=PactGroup,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="pact-eval")
def main() -> None:
    """Audit datasets of typed decisions, and the adapters that were trained on them.

    data and adapter report findings; manifest, convert, split and ablate write files; diff
    compares two versions of a file. None of them needs torch.

    Exit codes: 0 success, 1 failure, 2 usage, 3 findings of the severity of --fail-on, 5 a hash
    does not match.
    """
