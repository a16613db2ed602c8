"""Audit of one adapter, or of two and their differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pact_eval._choices import Severity
from pact_eval.audit.adapter.audit import AdapterAudit, AdapterFacts
from pact_eval.audit.adapter.compare import AdapterComparison, WeightsComparison
from pact_eval.audit.adapter.overlap import MeasuredOverlap
from pact_eval.evaluation.conclusions.data import DataLeak
from pact_eval.plain_text import one_line
from pact_reports.table import Cell, Column, Line, Part, Row, Table
from pact_reports.tables.audit import checks_table, findings, measured_text, verdict
from pact_reports.tables.cells import leak_lines

_UNKNOWN: Final = "unknown"
_TAMPERED: Final = {
    "base-differs": "the base's weights are not those that the adapter names",
    "training-base-differs": "the base's weights are not those of the training",
    "training-edited": "the training record was edited, or belongs to another adapter",
    "training-other-weights": "the training record belongs to other weights",
}
_HASH_WIDTH: Final = 17  # enough to distinguish files; --json has all of it
_VALUE_WIDTH: Final = 100


def adapter_parts(
    audits: Sequence[AdapterAudit], comparison: AdapterComparison | None, *, fail_on: Severity
) -> tuple[Part, ...]:
    """Lay out the audit of one adapter or of two.

    Args:
        audits: one or two audits.
        comparison: what differs between the two.
        fail_on: the severity that fails.

    Returns:
        Facts, findings, checks and verdict of each; then the differences.
    """
    parts: list[Part] = []
    for number, audit in enumerate(audits):
        if number:
            parts.append(Line(""))
        facts = (one_line(f"  {name + ':':<14}{value}") for name, value in _facts(audit.facts))
        parts += leak_lines(DataLeak.joined(audit.leaks))
        parts += [Line(one_line(str(audit.folder)), "strong"), Line("\n".join(facts))]
        if comparison is None:
            parts.append(_files_table(audit.facts))
        parts += findings(audit.checks)
        parts.append(checks_table(audit.checks, fail_on=fail_on))
        parts.append(adapter_verdict(audit, fail_on))
    if comparison is not None:
        parts.append(_differences(comparison, audits))
        parts.append(Line(_weights_line(comparison.weights)))
    return tuple(parts)


def adapter_verdict(audit: AdapterAudit, fail_on: Severity) -> Line:
    """Write the verdict on an adapter; a finding of a severity or a worse one fails it."""
    tampered = next(_tampering(audit), None)
    return verdict(audit.checks, subject="adapter", fail_on=fail_on, tampered=tampered)


def adapter_tampered(audit: AdapterAudit) -> bool:
    """Return whether a hash does not match: that of the base, or of the training record."""
    return next(_tampering(audit), None) is not None


def _tampering(audit: AdapterAudit) -> Iterator[str]:
    """Explain each hash that does not match."""
    codes = {code for check in audit.checks for code in check.counts}
    return (text for code, text in _TAMPERED.items() if code in codes)


def _facts(facts: AdapterFacts) -> Iterator[tuple[str, str]]:
    settings = facts.settings
    if facts.hub is not None:
        yield "from the Hub", str(facts.hub.name)
    if settings is not None:
        rule = "alpha/sqrt(r), rsLoRA" if settings.use_rslora else "alpha/r"
        scale = _UNKNOWN if facts.scale is None else f"{facts.scale:g}"
        rank, alpha = settings.rank or _UNKNOWN, settings.alpha or _UNKNOWN
        dora = ", DoRA" if settings.use_dora else ""
        yield "LoRA", f"rank {rank}, alpha {alpha}, scale {scale} ({rule}){dora}"
        targets = settings.targets
        yield "targets", targets if isinstance(targets, str) else ", ".join(targets or [_UNKNOWN])
    if facts.n_parameters is not None and facts.dtypes is not None:
        dtypes = ", ".join(sorted(facts.dtypes)) or "no dtype"
        where = f"{facts.n_modules:,} modules in {facts.n_layers:,} layers"
        yield "tensors", f"{where}, {facts.n_parameters:,} parameters, {dtypes}"
    revision = facts.base_revision or "not named"
    yield "base model", f"{facts.base_model or _UNKNOWN}, revision {revision}"
    stated = ", stated by the user" if facts.contract_stated_by == "user" else ""
    yield "contract", f"{facts.contract_task or _UNKNOWN}{stated}"
    yield "fingerprint", facts.contract_fingerprint or _UNKNOWN
    if settings is not None:
        yield "written by", f"PEFT {settings.peft_version or _UNKNOWN}"


def _files_table(facts: AdapterFacts) -> Table:
    rows = []
    for file in facts.files:
        size = "" if file.size_bytes is None else f"{file.size_bytes:,}"
        rows.append(Row((Cell(file.name), Cell(size), Cell(file.sha256 or "not opened"))))
    columns = (Column("file", "left"), Column("bytes"), Column("SHA-256", "left"))
    return Table("files", "", "", columns, tuple(rows))


def _differences(comparison: AdapterComparison, audits: Sequence[AdapterAudit]) -> Part:
    if not comparison.differences:
        return Line("The adapters do not differ: facts, configurations and files are the same.")
    rows = []
    for row in comparison.differences:
        name = row.name if row.topic == "fact" else f"{row.topic}: {row.name}"
        limit = _HASH_WIDTH if row.topic == "file" else _VALUE_WIDTH
        values = (Cell(_short(value, limit)) for value in (row.left, row.right))
        rows.append(Row((Cell(name), *values)))
    folders = (Column(str(audit.folder), "left", width=0.4) for audit in audits)
    return Table("differences", "", "", (Column("differs", "left"), *folders), tuple(rows))


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


@measured_text.register
def _(measured: MeasuredOverlap) -> str:
    texts = f"{measured.at_hand:,} of {measured.recorded:,} records of the training are at hand"
    return f"{measured.learnt_families:,} of them in the training; {texts}"
