"""The audit of an adapter, or of two and their differences."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pact_eval._choices import Severity
from pact_eval.audit.adapter.audit import AdapterAudit
from pact_eval.audit.adapter.compare import AdapterComparison
from pact_reports.presenters.presenter import Presenter
from pact_reports.tables.adapter import adapter_parts, adapter_tampered, adapter_verdict
from pact_reports.writers.audit_json import checks_json
from pact_reports.writers.json import to_json

if TYPE_CHECKING:
    from pact_reports.ci.report import CiReport


def present(
    *audits: AdapterAudit,
    comparison: AdapterComparison | None = None,
    fail_on: Severity = "error",
) -> Presenter:
    """Present the audit of one adapter or of two.

    Args:
        audits: of each adapter.
        comparison: the differences between two.
        fail_on: the lowest severity that fails.
    """
    return Presenter(
        tables=partial(adapter_parts, audits, comparison, fail_on=fail_on),
        to_json=lambda: {
            "adapters": [
                {
                    "folder": str(audit.folder),
                    "headline": adapter_verdict(audit, fail_on).text,
                    "facts": to_json(audit.facts),
                    "scale": audit.facts.scale,
                    **checks_json(audit.checks, fail_on),
                    "tampered": adapter_tampered(audit),
                    "leaks": to_json(audit.leaks),
                }
                for audit in audits
            ],
            "fail_on": fail_on,
            "comparison": to_json(comparison),
        },
        headline=lambda: [adapter_verdict(audit, fail_on).text for audit in audits[:1]],
        headed=True,
        ci=lambda: _ci(audits, fail_on),
    )


def _ci(audits: tuple[AdapterAudit, ...], fail_on: Severity) -> CiReport:
    from pact_reports.ci.audits import adapters_report

    return adapters_report(
        audits, [adapter_verdict(audit, fail_on).text for audit in audits], fail_on
    )
