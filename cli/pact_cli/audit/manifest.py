"""`pact-audit manifest`: write the manifest of a dataset, or check it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NoReturn

from pact_cli.audit.options import exit_with, provenance
from pact_cli.commands import command, option
from pact_cli.console import emit
from pact_cli.options import json_option, path_argument

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
    from pact_reports.views.datasets import present_written_manifest

    emit(present_written_manifest(write_manifest(folder)), provenance=provenance(), as_json=as_json)


def _check(folder: Path, *, as_json: bool) -> NoReturn:
    from pact_eval.audit.context import DataAuditSettings, DatasetSource
    from pact_eval.audit.dataset import audit_data
    from pact_reports.views.audit import present_data_audit

    audit = audit_data(DatasetSource.of_folder(folder), DataAuditSettings(only=["hashes"]))
    emit(present_data_audit(audit, _FAIL_ON), provenance=provenance(), as_json=as_json)
    exit_with(audit.checks, _FAIL_ON, tampered=audit.tampered)
