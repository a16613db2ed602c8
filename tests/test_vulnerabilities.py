"""The check of known vulnerabilities says what was checked, and never passes without a check."""

from __future__ import annotations

import json

import vulnerabilities
from messages import assert_says
from vulnerabilities import read_audit

# As pip-audit 2.10.1 writes them.
SAFE = {"name": "numpy", "version": "2.4.0", "vulns": []}
UNKNOWN = {
    "name": "absl-py",
    "skip_reason": "Dependency not found on PyPI and could not be audited: absl-py (2.5.1)",
}
VULNERABLE = {
    "name": "flask",
    "version": "0.5",
    "vulns": [
        {"id": "PYSEC-2019-179", "fix_versions": ["1.0"], "aliases": [], "description": "..."},
        {"id": "PYSEC-2018-66", "fix_versions": [], "aliases": [], "description": "..."},
    ],
}


def audit(*packages: object) -> vulnerabilities.Audit:
    return read_audit(json.dumps({"dependencies": packages, "fixes": []}), "")


def test_versions_that_were_checked_are_counted() -> None:
    assert audit(SAFE).exit_code == 0
    assert audit(SAFE).text.splitlines()[0] == "checked: 1 versions, 0 vulnerable"
    assert "not checked: torch" in audit(SAFE).text


def test_without_an_answer_of_pypi_nothing_passes() -> None:
    """pip-audit says "No known vulnerabilities found" then, and ends with 0."""
    for packages in ([UNKNOWN], [UNKNOWN, SAFE]):
        result = audit(*packages)
        assert result.exit_code == 4
        assert_says(result.text, "not checked", "no answer", "(absl-py)")
    assert audit().exit_code == 4


def test_a_vulnerable_version_fails_whatever_else_was_not_checked() -> None:
    result = audit(SAFE, UNKNOWN, VULNERABLE)
    assert result.exit_code == 1
    parts = ("vulnerable: flask 0.5", "PYSEC-2019-179", "1.0", "PYSEC-2018-66", "no version")
    assert_says(result.text.splitlines()[0], *parts)


def test_a_traceback_of_pip_audit_is_one_line() -> None:
    errors = "Traceback (most recent call last):\n  ...\nProxyError: cannot connect to pypi.org\n"
    result = read_audit("", errors)
    assert result.exit_code == 4
    assert_says(result.text, "not checked", "no result", "ProxyError")
