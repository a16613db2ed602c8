"""Prompts of chat contracts: messages through the tokenizer's chat template, then token ids.

`ChatPrompts` checks once that every letter is exactly one ordinary token at the answer boundary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pact_eval._json import Json
from pact_eval.data.records import LETTERS, Field, parse_field
from pact_eval.errors import PromptError
from pact_eval.prompts.code_orders import code_orders
from pact_eval.prompts.contract import ChatContract, ChatTokenizer, Message, PromptRequest


def prompt_text(
    tokenizer: ChatTokenizer,
    contract: ChatContract,
    state: Json,
    fields: Sequence[Field],
    requested: str,
    code_order: Sequence[int],
) -> str:
    """Render one request through the contract and the tokenizer's chat template.

    The generation prompt is added and thinking is switched off; templates without such a switch
    ignore it.

    Raises:
        RequestError: the request does not fit the contract.
        PromptError: the tokenizer has no chat template, or it fails or alters the messages.
    """
    messages = contract.messages(state, fields, requested, code_order)
    return "".join(_rendered(tokenizer, messages))


def _rendered(tokenizer: ChatTokenizer, messages: Sequence[Message]) -> tuple[str, str]:
    """Return the prompt up to the end of the last message, and the text after it."""
    try:
        text = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
    except Exception as error:  # templates raise whatever their authors chose
        message = f"the tokenizer's chat template cannot render the contract: {error}"
        raise PromptError(message) from error
    end = 0
    for part in messages:
        start = str(text).find(part["content"], end)
        if start < 0:
            message = (
                f"the tokenizer's chat template drops or alters the {part['role']} message; the "
                "contract is byte-exact"
            )
            raise PromptError(message)
        end = start + len(part["content"])
    return str(text)[:end], str(text)[end:]


class ChatPrompts:
    """A chat contract with a tokenizer; see `BoundContract`.

    Args:
        tokenizer: a Hugging Face tokenizer with a chat template.
        contract: the prompt contract.

    Attributes:
        code_tokens: token of each letter A to Z.
        fingerprint: SHA-256 of a probe's text, token ids and letter tokens: it changes with the
            contract, the chat template and the tokenizer.

    Raises:
        PromptError: the letters A to Z are not 26 distinct, ordinary single tokens at the answer
            boundary; the message lists those that are not.
    """

    def __init__(self, tokenizer: ChatTokenizer, contract: ChatContract) -> None:
        self._tokenizer = tokenizer
        self._contract = contract
        probe = parse_field("decision", {"type": "noul", "instructions": "Is it so?"})
        messages = contract.messages("It is so.", [probe], "decision", (0, 1))
        prompt, self._boundary = _rendered(tokenizer, messages)
        self.code_tokens = _code_tokens(tokenizer, prompt + self._boundary)
        ids = self._tokenise([prompt + self._boundary])[0]
        rendered = f"{prompt}{self._boundary}\n{ids}\n{self.code_tokens}"
        self.fingerprint = hashlib.sha256(rendered.encode("utf-8")).hexdigest()

    def orders(self, field: Field, key: str, *, k: int, seed: int) -> list[tuple[int, ...]]:
        """Return the orders of the K views of a question: every kind can be permuted."""
        return code_orders(seed, key, len(field.answers), k)

    def most_answers(self, field: Field) -> int:
        """Return the number of letters, for every kind."""
        del field
        return len(LETTERS)

    def answer_tokens(self, field: Field) -> tuple[int, ...]:
        """Return the tokens of the first letters, one for each answer."""
        return self.code_tokens[: len(field.answers)]

    def text(self, request: PromptRequest) -> str:
        """Render one request.

        Raises:
            RequestError: the request does not fit the contract.
            PromptError: the chat template fails, alters messages, or ends prompts differently.
        """
        messages = self._contract.messages(
            request.state, request.fields, request.requested, request.order
        )
        prompt, boundary = _rendered(self._tokenizer, messages)
        if boundary != self._boundary:
            message = (
                "expected the chat template to end every prompt in the same way, got two endings"
            )
            raise PromptError(message)
        return prompt + boundary

    def token_ids(self, requests: Sequence[PromptRequest]) -> list[list[int]]:
        """Render and tokenise full prompts; see `text`."""
        return self._tokenise([self.text(request) for request in requests])

    def _tokenise(self, texts: list[str]) -> list[list[int]]:
        if not texts:
            return []
        ids: list[list[int]] = self._tokenizer(texts, add_special_tokens=False, verbose=False)[
            "input_ids"
        ]
        return ids


def _code_tokens(tokenizer: ChatTokenizer, prompt: str) -> tuple[int, ...]:
    """Tokenise prompt + letter and compare with the prompt's own ids, for all 26 letters."""
    texts = [prompt, *(prompt + code for code in LETTERS)]
    bare, *coded = tokenizer(texts, add_special_tokens=False)["input_ids"]
    special = set(tokenizer.all_special_ids)
    letters_by_token: dict[int, str] = {}
    faults: dict[str, list[str]] = {}
    for code, ids in zip(LETTERS, coded, strict=True):
        extra = list(ids[len(bare) :])
        if list(ids[: len(bare)]) != list(bare) or len(extra) != 1:
            faults.setdefault("not a single token", []).append(code)
        elif extra[0] in special:
            faults.setdefault("a special token", []).append(code)
        elif extra[0] in letters_by_token:
            faults.setdefault(f"the same token as {letters_by_token[extra[0]]}", []).append(code)
        else:
            letters_by_token[extra[0]] = code
    if faults:
        message = (
            "expected each letter to be one ordinary token after the prompt; this tokenizer fails: "
        ) + "; ".join(f"{', '.join(codes)}: {fault}" for fault, codes in faults.items())
        raise PromptError(message)
    return tuple(letters_by_token)
