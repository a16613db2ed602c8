"""An audit as one JSON object."""

from __future__ import annotations

from pact_eval.audit.codes import CODES, Severity
from pact_eval.audit.dataset import DataAudit
from pact_eval.audit.findings import SEVERITIES, CheckResult, Finding, count, failed
from pact_eval.strict_json import Json
from pact_reports.json_values import to_json

__all__ = ["check_json", "data_audit_json"]


def data_audit_json(audit: DataAudit, *, fail_on: Severity) -> dict[str, Json]:
    """Turn the audit of a dataset into JSON values.

    Args:
        audit: what was found.
        fail_on: the severity that fails.

    Returns:
        `files`, `checks`, counts by severity, and the verdict. What is undefined is null.
    """
    return {
        "files": [
            {
                "name": file.name,
                "role": file.role,
                "sha256": facts.sha256,
                "rows": facts.rows,
                "families": families,
                "record_fingerprint": facts.fingerprint,
            }
            for file, facts, families in zip(audit.files, audit.facts, audit.families, strict=True)
        ],
        "checks": [check_json(check) for check in audit.checks],
        "counts": {severity: count(audit.checks, severity) for severity in SEVERITIES},
        "fail_on": fail_on,
        "tampered": audit.tampered,
        "passed": not failed(audit.checks, fail_on),
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
