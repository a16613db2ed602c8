"""The audit of an adapter folder: one question per file, read as bytes and plain JSON."""

from pact_eval.audit.adapter.audit import (
    ADAPTER_CHECKS,
    AdapterAudit,
    AdapterFacts,
    audit_adapter,
)
from pact_eval.audit.adapter.compare import AdapterComparison, WeightsComparison, compare_adapters
from pact_eval.audit.adapter.overlap import MeasuredOverlap

__all__ = [
    "ADAPTER_CHECKS",
    "AdapterAudit",
    "AdapterComparison",
    "AdapterFacts",
    "MeasuredOverlap",
    "WeightsComparison",
    "audit_adapter",
    "compare_adapters",
]
