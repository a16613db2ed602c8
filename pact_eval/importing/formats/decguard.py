"""Source "decguard": production records of decguard, a decision per line.

{"id", "timestamp", "decision", "input", "probabilities", "selected", "confidence", "model",
 "outcome", "outcome_correct", "latency_ms", "cost", "metadata"}
"""

from __future__ import annotations

from typing import Final

from pact_eval.importing.exchange_rows import ExchangeSource


class Decguard(ExchangeSource):
    """Production records of decguard."""

    title = "decguard"
    reads = "records"
    keys = ("decision", "probabilities", "selected")
    question_key = "decision"
    alone = True


SOURCE: Final = Decguard()
"""The entry of the registry."""
