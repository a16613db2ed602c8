"""Audits of datasets and adapters as cases: one per check, with its findings at their lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pact_eval._choices import Severity
from pact_eval.audit.adapter.audit import AdapterAudit
from pact_eval.audit.dataset import DataAudit
from pact_eval.audit.findings import CheckResult, Finding, failed
from pact_eval.audit.registry import CODES
from pact_reports.ci.report import Annotation, Case, CaseStatus, CiReport, Rule
from pact_reports.views.audit import scope_text


def data_report(audit: DataAudit, answer: str, fail_on: Severity) -> CiReport:
    """Return the cases of a dataset's audit.

    Args:
        audit: what was found.
        answer: the verdict in a sentence.
        fail_on: the lowest severity that fails a check.
    """
    paths = {file.name: file.source for file in audit.files}
    manifest = audit.source.manifest
    folder = paths[audit.files[0].name].parent if manifest is None else manifest.folder
    first = audit.files[0].source

    def path_of(name: str) -> Path:
        return paths.get(name) or _existing(folder, name) or first

    return CiReport(
        "pact-audit data", answer, _cases(audit.checks, path_of, fail_on), _rules(audit.checks)
    )


def adapters_report(
    audits: Sequence[AdapterAudit], answers: Sequence[str], fail_on: Severity
) -> CiReport:
    """Return the cases of the audits of one adapter, or of two.

    Args:
        audits: what was found, by adapter.
        answers: the verdict on each adapter, a sentence each.
        fail_on: the lowest severity that fails a check.
    """
    cases: list[Case] = []
    for audit in audits:
        prefix = f"{audit.folder}: " if len(audits) > 1 else ""
        cases += _cases(audit.checks, _adapter_paths(audit.folder), fail_on, prefix)
    rules = _rules(check for audit in audits for check in audit.checks)
    return CiReport("pact-audit adapter", " ".join(answers), tuple(cases), rules)


def _adapter_paths(folder: Path) -> Callable[[str], Path]:
    def path_of(name: str) -> Path:
        return _existing(folder, name) or _existing(Path(), name) or folder

    return path_of


def _existing(folder: Path, name: str) -> Path | None:
    """Return a path in a folder if something is there; a name may be any text."""
    try:
        return folder / name if (folder / name).exists() else None
    except (OSError, ValueError):
        return None


def _cases(
    checks: Iterable[CheckResult],
    path_of: Callable[[str], Path],
    fail_on: Severity,
    prefix: str = "",
) -> tuple[Case, ...]:
    return tuple(
        Case(
            f"{prefix}{check.check}",
            _status(check, fail_on),
            scope_text(check),
            tuple(_annotation(finding, path_of) for finding in check.findings),
            _counted_only(check),
        )
        for check in checks
    )


def _status(check: CheckResult, fail_on: Severity) -> CaseStatus:
    if failed([check], fail_on):
        return "failed"
    return "passed" if check.skipped is None else "skipped"


def _counted_only(check: CheckResult) -> dict[str, int]:
    kept = Counter(finding.code for finding in check.findings)
    return {code: n - kept[code] for code, n in check.counts.items() if n > kept[code]}


def _annotation(finding: Finding, path_of: Callable[[str], Path]) -> Annotation:
    place, path = finding.place, path_of(finding.place.file)
    # A finding on something that is not a file is shown at another file.
    parts = [f"{place.file}: "] if Path(place.file).name != path.name else []
    parts += [] if place.record_id is None else [f"{place.record_id}: "]
    parts.append(f"expected {finding.expected}, found {finding.actual}")
    return Annotation(finding.code, finding.severity, "".join(parts), path, place.line)


def _rules(checks: Iterable[CheckResult]) -> dict[str, Rule]:
    return {
        code: Rule(CODES[code].meaning, CODES[code].severity)
        for check in checks
        for code in check.counts
    }
