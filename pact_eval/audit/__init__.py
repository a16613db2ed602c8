"""Audits: is a dataset honest, and is an adapter what it says?

One question a file. A check of a dataset looks at the index (`index`), a row a record, and reads
records again where it needs their texts; it collects findings (`findings`) under codes that stand
in one table (`codes`). No check needs torch.
"""

from pact_eval.audit.adapter import (
    AdapterAudit,
    AdapterComparison,
    AdapterFacts,
    WeightsComparison,
    audit_adapter,
    compare_adapters,
)
from pact_eval.audit.balance import Balance
from pact_eval.audit.certificates import Coverage
from pact_eval.audit.codes import CODES, CheckName, Severity
from pact_eval.audit.dataset import (
    DataAudit,
    DataAuditSettings,
    DatasetSource,
    NamedTokenizer,
    audit_data,
)
from pact_eval.audit.findings import SEVERITIES, CheckResult, Finding, count, failed, failed_checks
from pact_eval.audit.lengths import Lengths
from pact_eval.audit.neighbours import NearDuplicates
from pact_eval.audit.shortcuts import Shortcuts

__all__ = [
    "CODES",
    "SEVERITIES",
    "AdapterAudit",
    "AdapterComparison",
    "AdapterFacts",
    "Balance",
    "CheckName",
    "CheckResult",
    "Coverage",
    "DataAudit",
    "DataAuditSettings",
    "DatasetSource",
    "Finding",
    "Lengths",
    "NamedTokenizer",
    "NearDuplicates",
    "Severity",
    "Shortcuts",
    "WeightsComparison",
    "audit_adapter",
    "audit_data",
    "compare_adapters",
    "count",
    "failed",
    "failed_checks",
]
