"""Source "jev-eval": caches of jev-eval, an answer with its question and right answer per line.

    {"model", "row", "state_hash", "id", "question_hash", "question", "answer", "gold", "meta"}

Right answers of scores are the texts of levels.
"""

from __future__ import annotations

from typing import Final

from pact_eval.data.labelled.answers import TEXT
from pact_eval.importing.exchange_rows import ExchangeSource


class JevEval(ExchangeSource):
    """Caches of jev-eval."""

    title = "jev-eval"
    reads = "cache"
    keys = ("row", "state_hash", "question_hash", "question")
    id_keys = ("row",)
    question_key = "id"
    alone = True
    levels = TEXT


SOURCE: Final = JevEval()
"""The entry of the registry."""
