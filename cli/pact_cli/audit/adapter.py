"""`pact-audit adapter`: audit one adapter folder, or compare two."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pact_cli.audit.options import (
    exit_with,
    findings_options,
    near_duplicate_option,
    provenance,
)
from pact_cli.commands import command, option
from pact_cli.console import announce, emit
from pact_cli.hub_places import adapter_here, data_here
from pact_cli.options import ADAPTER, DATASET, PATH, ci_option, json_option, path_argument
from pact_eval.models.folders import SCHEMA_CONFIG
from pact_eval.progress import tracked
from pact_eval.templates.statement import write_contract as write_stated_contract

if TYPE_CHECKING:
    from pact_eval._choices import CiFormat, Severity

__all__ = ["adapter"]


@command(loads=("pact_eval.audit.adapter.audit",))
@path_argument("folder", "DIR_OR_ID", ADAPTER)
@click.argument("other", type=ADAPTER, metavar="[OTHER]", required=False)
@option(
    "--base-model",
    group="Model",
    type=PATH,
    help="Folder of the base model to compare with. Default: the one that the adapter names, if "
    "that is a local folder. It is never downloaded.",
)
@option(
    "--data",
    group="Data",
    type=DATASET,
    multiple=True,
    help="Dataset, file or folder, to compare with the training record: was the adapter trained or "
    "selected on what it evaluates with? May be given several times.",
)
@option(
    "--write-contract",
    group="Model",
    type=click.Choice(["nimble"]),
    help="Before the audit, write into the folder that you state its prompt contract, for an "
    "adapter of a trainer that records none.",
)
@near_duplicate_option
@findings_options
@ci_option
@json_option
def adapter(
    folder: Path,
    other: Path | None,
    base_model: Path | None,
    data: tuple[Path, ...],
    write_contract: str | None,
    near_duplicate: float,
    fail_on: Severity,
    max_findings: int,
    ci_format: CiFormat | None,
    as_json: bool,
) -> None:
    """Audit a LoRA adapter without loading it.

    DIR_OR_ID is a folder, or a hub id (organisation/name[@revision]); a local folder wins. Of the
    Hub, only the files that an adapter needs are downloaded; the others are judged by their names.

    With OTHER, audit both and show the differences between them.
    """
    from pact_eval.audit.adapter.audit import audit_adapter
    from pact_eval.audit.adapter.compare import compare_adapters
    from pact_reports.views.audit import adapter_tampered, present_adapter_audit

    if write_contract is not None:
        _write_contract(folder, other)
    places = [folder] if other is None else [folder, other]
    adapters = [adapter_here(place, audited=True) for place in places]
    datasets = [data_here(place) for place in data]
    audits = [
        audit_adapter(
            adapter.folder,
            base_model=base_model,
            data=datasets,
            near_duplicate=near_duplicate,
            others=adapter.others,
            keep=max_findings,
        )
        for adapter in tracked(adapters, "Auditing", "adapters")
    ]
    comparison = None if other is None else compare_adapters(*audits)
    presenter = present_adapter_audit(*audits, comparison=comparison, fail_on=fail_on)
    emit(presenter, provenance=provenance(), ci_format=ci_format, as_json=as_json)
    checks = [check for audit in audits for check in audit.checks]
    exit_with(checks, fail_on, tampered=any(map(adapter_tampered, audits)))


def _write_contract(folder: Path, other: Path | None) -> None:
    """Write the contract that the user states into the folder of an adapter."""
    if other is not None or not folder.is_dir():
        message = "--write-contract: expected one adapter, in a local folder"
        raise click.UsageError(message)
    write_stated_contract(folder)
    announce([f"{folder / SCHEMA_CONFIG}: written, contract stated by the user"])
