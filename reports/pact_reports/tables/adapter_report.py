"""The terminal report of one adapter, or of two beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.box import ASCII2, SIMPLE_HEAD, Box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pact_eval._json import Json
from pact_eval.audit import (
    SEVERITIES,
    AdapterAudit,
    AdapterComparison,
    AdapterFacts,
    Severity,
    WeightsComparison,
    count,
    failed,
)
from pact_reports.plain_text import cell, lines, one_line
from pact_reports.tables.audit_json import check_json
from pact_reports.tables.audit_tables import checks_table, finding_lines, verdict_line
from pact_reports.writers.json_values import to_json

__all__ = ["adapter_tampered", "adapters_json", "adapters_report"]

_UNKNOWN = "unknown"
_TAMPERED = "the base's weights are not those that the adapter names"
_HASH_WIDTH = 17  # enough to tell files apart; --json has all of it
_VALUE_WIDTH = 100


def adapters_report(
    audits: Sequence[AdapterAudit],
    comparison: AdapterComparison | None,
    *,
    fail_on: Severity,
    plain: bool,
) -> Iterator[RenderableType]:
    """Lay out the audit of one adapter or of two.

    Args:
        audits: one or two audits.
        comparison: what differs between the two.
        fail_on: the severity that fails.
        plain: ASCII rules and marks, for output that is piped.

    Yields:
        Facts, findings, checks and verdict of each; then the differences.
    """
    box = ASCII2 if plain else SIMPLE_HEAD
    for audit in audits:
        yield cell(str(audit.folder), style="bold")
        yield _facts(audit.facts)
        if comparison is None:
            yield _files_table(audit.facts, box)
        if any(check.counts for check in audit.checks):
            yield Text("\nFindings\n", style="bold")
            yield from finding_lines(audit.checks, plain=plain)
        yield checks_table(audit.checks, fail_on=fail_on, plain=plain)
        tampered = _TAMPERED if adapter_tampered(audit) else None
        yield verdict_line(audit.checks, subject="adapter", fail_on=fail_on, tampered=tampered)
        yield Text()
    if comparison is not None:
        yield _differences_table(comparison, audits, box)
        yield Text(_weights_line(comparison.weights))


def adapter_tampered(audit: AdapterAudit) -> bool:
    """Tell whether a hash does not match: the base's weights are not those that are named."""
    return any("base-differs" in check.counts for check in audit.checks)


def _facts(facts: AdapterFacts) -> Text:
    return lines(f"  {name + ':':<13}{value}" for name, value in _fact_rows(facts))


def _fact_rows(facts: AdapterFacts) -> Iterator[tuple[str, str]]:
    settings = facts.settings
    if settings is not None:
        rule = "alpha/sqrt(r), rsLoRA" if settings.use_rslora else "alpha/r"
        scale = _UNKNOWN if facts.scale is None else f"{facts.scale:g}"
        rank, alpha = settings.rank or _UNKNOWN, settings.alpha or _UNKNOWN
        dora = ", DoRA" if settings.use_dora else ""
        yield "LoRA", f"rank {rank}, alpha {alpha}, scale {scale} ({rule}){dora}"
        targets = settings.targets
        shown = targets if isinstance(targets, str) else ", ".join(targets or [_UNKNOWN])
        yield "targets", shown
    if facts.n_parameters is not None and facts.dtypes is not None:
        dtypes = ", ".join(sorted(facts.dtypes)) or "no dtype"
        where = f"{facts.n_modules:,} modules in {facts.n_layers:,} layers"
        yield "tensors", f"{where}, {facts.n_parameters:,} parameters, {dtypes}"
    revision = facts.base_revision or "not named"
    yield "base model", f"{facts.base_model or _UNKNOWN}, revision {revision}"
    yield "contract", facts.contract_task or _UNKNOWN
    yield "fingerprint", facts.contract_fingerprint or _UNKNOWN
    if settings is not None:
        yield "written by", f"PEFT {settings.peft_version or _UNKNOWN}"


def _files_table(facts: AdapterFacts, box: Box) -> Table:
    table = Table(box=box, pad_edge=False, header_style="bold")
    table.add_column("file")
    table.add_column("bytes", justify="right")
    table.add_column("SHA-256", overflow="ellipsis", no_wrap=True)
    for file in facts.files:
        size = "" if file.size_bytes is None else f"{file.size_bytes:,}"
        table.add_row(cell(file.name), size, file.sha256 or "not opened")
    return table


def _differences_table(
    comparison: AdapterComparison, audits: Sequence[AdapterAudit], box: Box
) -> RenderableType:
    if not comparison.differences:
        return Text("Nothing differs: facts, configurations and files are the same.")
    table = Table(box=box, pad_edge=False, header_style="bold")
    table.add_column("differs")
    for audit in audits:
        table.add_column(cell(str(audit.folder)), overflow="fold")
    for row in comparison.differences:
        name = row.name if row.topic == "fact" else f"{row.topic}: {row.name}"
        limit = _HASH_WIDTH if row.topic == "file" else _VALUE_WIDTH
        table.add_row(cell(name), *(cell(_short(each, limit)) for each in (row.left, row.right)))
    return table


def _short(value: str | None, limit: int) -> str:
    if value is None:
        return "(none)"
    return value if len(value) <= limit else f"{value[: limit - 1]}…"


def _weights_line(weights: WeightsComparison | None) -> str:
    if weights is None:
        return "Tensors were not compared: those of one adapter cannot be read."
    if weights.identical_bytes:
        return "The weights are the same, byte for byte."
    parts = [f"{weights.different:,} of {weights.compared:,} tensors compared differ"]
    if weights.largest_name is not None:
        parts.append(
            f"most {weights.largest_name}, by {100 * weights.largest_difference:.1f}% of the norm"
        )
    for n, what in (
        (len(weights.only_left), "only in the first"),
        (len(weights.only_right), "only in the second"),
        (len(weights.reshaped), "of another shape"),
        (weights.not_compared, "not compared"),
    ):
        if n:
            parts.append(f"{n:,} {what}")
    return one_line("; ".join(parts)) + "."


def adapters_json(
    audits: Sequence[AdapterAudit],
    comparison: AdapterComparison | None,
    *,
    fail_on: Severity,
) -> dict[str, Json]:
    """Turn the audit of one adapter or of two into JSON values."""
    return {
        "adapters": [
            {
                "folder": str(audit.folder),
                "facts": to_json(audit.facts),
                "scale": audit.facts.scale,
                "checks": [check_json(check) for check in audit.checks],
                "counts": {severity: count(audit.checks, severity) for severity in SEVERITIES},
                "tampered": adapter_tampered(audit),
                "passed": not failed(audit.checks, fail_on),
            }
            for audit in audits
        ],
        "fail_on": fail_on,
        "comparison": to_json(comparison),
    }
