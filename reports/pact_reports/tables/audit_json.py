"""An audit as one JSON object."""

from __future__ import annotations

from pact_eval._json import Json
from pact_eval.audit import (
    CODES,
    SEVERITIES,
    CheckResult,
    DataAudit,
    DataAuditSettings,
    Finding,
    Severity,
    count,
    failed,
)
from pact_eval.data import DataFile, FileFacts, Manifest, WrittenManifest
from pact_reports.writers.json_values import to_json

__all__ = ["check_json", "data_audit_json", "manifest_json"]


def data_audit_json(
    audit: DataAudit,
    *,
    settings: DataAuditSettings,
    manifest: Manifest | None,
    fail_on: Severity,
) -> dict[str, Json]:
    """Turn the audit of a dataset into JSON values.

    Args:
        audit: what was found.
        settings: what the checks allowed.
        manifest: what the files were held against.
        fail_on: the severity that fails.

    Returns:
        `settings`, `manifest`, `files`, `checks`, counts by severity, and the verdict. What is
        undefined is null.
    """
    return {
        "settings": _settings(settings),
        "manifest": None if manifest is None else manifest.name,
        "files": [
            _file(file, facts) | {"families": families}
            for file, facts, families in zip(audit.files, audit.facts, audit.families, strict=True)
        ],
        "checks": [check_json(check) for check in audit.checks],
        "counts": {severity: count(audit.checks, severity) for severity in SEVERITIES},
        "fail_on": fail_on,
        "tampered": audit.tampered,
        "passed": not failed(audit.checks, fail_on),
    }


def manifest_json(written: WrittenManifest) -> dict[str, Json]:
    """Turn a manifest that was written into JSON values: where it lies, and the files' facts."""
    return {
        "manifest": str(written.path),
        "changed": written.changed,
        "files": [
            _file(file, facts) for file, facts in zip(written.files, written.facts, strict=True)
        ],
    }


def _settings(settings: DataAuditSettings) -> dict[str, Json]:
    return {
        "only": None if settings.only is None else list(settings.only),
        "max_edit_words": settings.max_edit_words,
        "near_duplicate": settings.near_duplicate,
        "keep": settings.keep,
        "k": settings.k,
        "seed": settings.seed,
        "tokenizer": None if settings.tokenizer is None else settings.tokenizer.name,
    }


def _file(file: DataFile, facts: FileFacts) -> dict[str, Json]:
    return {
        "name": file.name,
        "role": file.role,
        "sha256": facts.sha256,
        "rows": facts.rows,
        "record_fingerprint": facts.fingerprint,
    }


def check_json(check: CheckResult) -> dict[str, Json]:
    """Turn one check into JSON values: its scope, counts by code, findings and numbers."""
    return {
        "check": check.check,
        "skipped": check.skipped,
        "scope": check.scope,
        "codes": {
            code: {"severity": CODES[code].severity, "count": n} for code, n in check.counts.items()
        },
        "findings": [_finding(finding) for finding in check.findings],
        "measured": to_json(check.measured),
    }


def _finding(finding: Finding) -> dict[str, Json]:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "file": finding.place.file,
        "line": finding.place.line,
        "id": finding.place.record_id,
        "expected": finding.expected,
        "found": finding.found,
        "comparison": to_json(finding.comparison),
    }
