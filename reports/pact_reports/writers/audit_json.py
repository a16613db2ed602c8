"""Files and checks of an audit as JSON values."""

from __future__ import annotations

from collections.abc import Sequence

from pact_eval._choices import Severity
from pact_eval._json import Json
from pact_eval.audit.findings import SEVERITIES, CheckResult, Finding, count, failed
from pact_eval.audit.registry import CODES
from pact_eval.data.files import DataFile, FileFacts
from pact_eval.hub.snapshots import hub_json
from pact_reports.writers.json import to_json


def file_json(file: DataFile, facts: FileFacts) -> dict[str, Json]:
    """Turn a file of a dataset into JSON values."""
    return {
        "name": file.name,
        "role": file.role,
        "sha256": facts.sha256,
        "rows": facts.rows,
        "record_fingerprint": facts.fingerprint,
        **hub_json(file.source),
    }


def checks_json(checks: Sequence[CheckResult], fail_on: Severity) -> dict[str, Json]:
    """Turn checks into JSON values, with counts by severity and whether all passed."""
    return {
        "checks": [_check(check) for check in checks],
        "counts": {severity: count(checks, severity) for severity in SEVERITIES},
        "passed": not failed(checks, fail_on),
    }


def _check(check: CheckResult) -> Json:
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


def _finding(finding: Finding) -> Json:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "file": finding.place.file,
        "line": finding.place.line,
        "id": finding.place.record_id,
        "expected": finding.expected,
        "found": finding.actual,
        "comparison": to_json(finding.comparison),
    }
