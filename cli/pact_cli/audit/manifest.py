"""`pact-audit manifest`: write the manifest of a dataset, or check it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NoReturn

from pact_cli.audit.options import exit_with, print_data_audit, provenance
from pact_cli.commands import command
from pact_cli.console import output, print_json
from pact_cli.options import json_option, path_argument
from pact_cli.parameters import option

__all__ = ["manifest"]

_FAIL_ON: Final = "warning"


@command(loads=("pact_eval.data.manifest",))
@path_argument("folder", "DIR")
@option(
    "--check",
    group="Data",
    is_flag=True,
    help="Compare the files with the manifest; write nothing.",
)
@json_option
def manifest(folder: Path, check: bool, as_json: bool) -> None:
    """Write or update DIR/manifest.json, or check it.

    It holds the hashes, roles and rows of the dataset's files. Unknown keys are kept.
    --check runs the check "hashes" of `pact-audit data`.
    """
    if check:
        _check(folder, as_json=as_json)
    from pact_eval.data.manifest import write_manifest
    from pact_reports.tables.dataset import manifest_parts
    from pact_reports.writers.json import manifest_json
    from pact_reports.writers.terminal import show

    written = write_manifest(folder)
    if as_json:
        print_json(provenance() | manifest_json(written))
        return
    show(output(), manifest_parts(written))


def _check(folder: Path, *, as_json: bool) -> NoReturn:
    from pact_eval.audit.context import DataAuditSettings, DatasetSource
    from pact_eval.audit.dataset import audit_data

    settings = DataAuditSettings(only=["hashes"])
    source = DatasetSource.of_folder(folder)
    audit = audit_data(source, settings)
    print_data_audit(audit, source, settings, fail_on=_FAIL_ON, as_json=as_json)
    exit_with(audit.checks, _FAIL_ON, tampered=audit.tampered)
