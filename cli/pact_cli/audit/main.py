"""`pact-audit`: audit datasets and adapters."""

from __future__ import annotations

import click

from pact_cli.audit.ablate import ablate
from pact_cli.audit.adapter import adapter
from pact_cli.audit.data import data
from pact_cli.audit.diff import diff
from pact_cli.audit.manifest import manifest
from pact_cli.audit.split import split
from pact_cli.errors import PactGroup

__all__ = ["main"]


@click.group(
    cls=PactGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="pact-eval")
def main() -> None:
    """Audit datasets of typed decisions, and the adapters that were trained on them.

    data and adapter report findings; manifest, split and ablate write files; diff compares two
    versions of a file. None of them needs torch.

    Exit codes: 0 success, 1 failure, 2 usage, 3 findings of the severity of --fail-on, 5 a hash
    does not match.
    """


for command in (manifest, data, split, ablate, diff, adapter):  # in the order of work
    main.add_command(command)
