"""An audit as one JSON object."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pact_eval.audit.codes import CODES, Severity
from pact_eval.audit.dataset import DataAudit
from pact_eval.audit.findings import SEVERITIES, CheckResult, Finding, count, failed
from pact_eval.strict_json import Json

__all__ = ["check_json", "data_audit_json", "to_json"]


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


def to_json(value: Any) -> Json:
    """Turn frozen objects, mappings and sequences into JSON; NaN and infinities become null.

    Example:
        >>> to_json({"gain": float("nan"), "words": ("a", 1)})
        {'gain': None, 'words': ['a', 1]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
