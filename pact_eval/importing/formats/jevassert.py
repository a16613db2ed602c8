"""Source "jevassert": recordings of jevassert, the answers to one case per line.

    {"case_id", "model", "latency_ms", "usage", "answers": {question: {...}} | null, "error"}

Right answers are in the cases of its pack: `--data PACK/cases.jsonl`.
"""

from __future__ import annotations

from typing import Final

from pact_eval.data.labelled.answers import TEXT
from pact_eval.importing.exchange_rows import ExchangeSource


class Jevassert(ExchangeSource):
    """Recordings of jevassert."""

    title = "jevassert"
    reads = "recording, `--data cases.jsonl`"
    keys = ("case_id", "answers", "latency_ms")
    id_keys = ("case_id",)
    alone = True
    levels = TEXT


SOURCE: Final = Jevassert()
"""The entry of the registry."""
