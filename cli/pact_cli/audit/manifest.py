"""`pact-audit manifest`: write the manifest of a dataset, or check it."""

from __future__ import annotations

from pathlib import Path

import click

from pact_cli.audit.options import exit_with
from pact_cli.console import output
from pact_cli.options import path_argument

__all__ = ["manifest"]


@click.command()
@path_argument("folder", "DIR")
@click.option("--check", is_flag=True, help="Hold the files against the manifest; write nothing.")
def manifest(folder: Path, check: bool) -> None:
    """Write or update DIR/manifest.json: hashes, roles and rows of the dataset's files.

    Keys that are not ours are kept. --check is the check "bytes" of `pact-audit data`.
    """
    from pact_eval.audit.dataset import DataAuditSettings, DatasetSource, audit_data
    from pact_eval.dataset_manifest import write_manifest
    from pact_reports.audit_report import data_audit_report, manifest_report

    console = output()
    plain = not console.is_terminal
    if not check:
        console.print(manifest_report(write_manifest(folder), plain=plain))
        return
    settings = DataAuditSettings(only=["bytes"])
    audit = audit_data(DatasetSource.of_folder(folder), settings)
    for part in data_audit_report(audit, fail_on="warning", plain=plain):
        console.print(part)
    exit_with(audit.checks, "warning", tampered=audit.tampered)
