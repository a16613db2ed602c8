"""Audits: is a dataset honest, and is an adapter what it says?

Each check answers one question in one file, which holds its entry for the registry (`registry`),
the codes of its findings and the function that runs it. A check of a dataset looks at an index with
one row per record, and reads records again if it needs their texts. No check needs torch.
"""

from pact_eval._choices import Severity
from pact_eval.audit.adapter import (
    ADAPTER_CHECKS,
    AdapterAudit,
    AdapterComparison,
    AdapterFacts,
    MeasuredOverlap,
    WeightsComparison,
    audit_adapter,
    compare_adapters,
)
from pact_eval.audit.balance import Balance
from pact_eval.audit.certificates import Coverage
from pact_eval.audit.context import (
    DataAuditSettings,
    DataContext,
    DatasetSource,
    NamedTokenizer,
)
from pact_eval.audit.dataset import DATA_CHECKS, DataAudit, audit_data
from pact_eval.audit.findings import (
    SEVERITIES,
    CheckResult,
    Collector,
    Finding,
    Leak,
    count,
    failed,
    failed_checks,
)
from pact_eval.audit.lengths import Lengths
from pact_eval.audit.near_duplicates import NearDuplicates
from pact_eval.audit.registry import CODES, Check
from pact_eval.audit.shortcuts import Shortcuts

__all__ = [
    "ADAPTER_CHECKS",
    "CODES",
    "DATA_CHECKS",
    "SEVERITIES",
    "AdapterAudit",
    "AdapterComparison",
    "AdapterFacts",
    "Balance",
    "Check",
    "CheckResult",
    "Collector",
    "Coverage",
    "DataAudit",
    "DataAuditSettings",
    "DataContext",
    "DatasetSource",
    "Finding",
    "Leak",
    "Lengths",
    "MeasuredOverlap",
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
