"""Source "s1ops": `s1-record/1` and `jev-record/1`, an answer of System One per line.

    {"schema", "dataset", "item_id", "state_sha256", "question_id", "primitive", "model_requested",
     "model_served", "p" | "choice", "score", "probabilities", "label", "latency_ms", "timestamp"}

Right answers of scores are levels from 0.
"""

from __future__ import annotations

from typing import Final

from pact_eval.data.labelled.answers import POSITIONS
from pact_eval.importing.exchange_rows import ExchangeSource


class S1ops(ExchangeSource):
    """Decision records of s1ops."""

    title = "s1ops"
    reads = "`s1-record/1`, `jev-record/1`"
    keys = ("schema", "item_id", "question_id", "primitive")
    id_keys = ("dataset", "item_id")
    question_key = "question_id"
    alone = True
    levels = POSITIONS[0]


SOURCE: Final = S1ops()
"""The entry of the registry."""
