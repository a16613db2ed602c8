"""Source "openai-decisions": requests of `/v1/decisions` and replies, recorded as System One's.

    {"request": {"model", "input", "questions": [{"type": "choice", "name", "choices": [...]}]},
     "response": {"model", "answers": [{"type": "choice", "choice", "probabilities": [...]}]}}

Answers have the order of the questions. Ids may be the `custom_id` of a batch.
"""

from __future__ import annotations

from typing import Final

from pact_eval.importing.formats.system_one import SystemOne


class OpenAIDecisions(SystemOne):
    """Requests and replies of OpenAI decisions: their questions and answers are lists."""

    title = "OpenAI decisions"
    reads = "requests and replies, batches"
    questions_are = list
    id_keys = ("custom_id",)


SOURCE: Final = OpenAIDecisions()
"""The entry of the registry."""
