"""Prompts: the contract interface, the Nimble contract, letter orders, requests, and token ids."""

from pact_eval.prompts.chat_prompts import ChatPrompts, prompt_text
from pact_eval.prompts.code_orders import code_orders, to_canonical
from pact_eval.prompts.contract import (
    LETTERS,
    BoundContract,
    ChatContract,
    ChatTokenizer,
    PromptContract,
    PromptRequest,
    canonical_code_order,
    position_name,
)
from pact_eval.prompts.encoding import EncodedView, Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.prompts.requests import Decision, read_context, read_schema
from pact_eval.prompts.training_prompts import (
    STATED_PROMPTS,
    TrainingPrompts,
    sha256_of_tokenizer,
)

__all__ = [
    "LETTERS",
    "NIMBLE",
    "STATED_PROMPTS",
    "BoundContract",
    "ChatContract",
    "ChatPrompts",
    "ChatTokenizer",
    "Decision",
    "EncodedView",
    "Encoder",
    "PromptContract",
    "PromptRequest",
    "TrainingPrompts",
    "canonical_code_order",
    "code_orders",
    "position_name",
    "prompt_text",
    "read_context",
    "read_schema",
    "sha256_of_tokenizer",
    "to_canonical",
]
