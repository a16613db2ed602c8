"""Prompts as token ids: our own prompts on a server, as the wires of vLLM and SGLang send them.

A server gets the ids of a prompt and of the letters, and returns the log-probability of each letter
as the next token. The prompt is that of a local run, so every kind of question has K views, and the
probabilities of the letters under the full distribution sum to the answer mass.

All views of an item are one request: they share most of their prompt, which servers then compute
once.

A server may be set to return logits in the place of log-probabilities. Their sum of `exp` has no
meaning and is rarely below 1. If one reply shows it, the answer mass of the whole run is unknown;
probabilities of the letters among themselves are the same either way.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pact_eval._json import Json
from pact_eval.data.records import Field
from pact_eval.prompts.encoding import Encoder
from pact_eval.runs.provenance import Contract
from pact_eval.scoring.servers.wire import (
    AskedView,
    Call,
    ReadReply,
    UnusableReplyError,
    Values,
    ViewAnswer,
    in_canonical_order,
    number,
)

MOST_PROMPTS: Final = 1024
"""Most prompts of one request: the limit of vLLM."""

_MOST_MASS: Final = 1.001
_MINUS_INFINITY: Final = -9999.0


@dataclass(frozen=True)
class TokenReply:
    """Reply of a server on the next token after some prompts.

    Attributes:
        model: the name of the model that has answered; None if it does not say.
        values: for each prompt, ids and their log-probabilities, as sent.
        prompt_tokens: how many tokens of the prompts the server has read; None if it does not say.
    """

    model: str | None
    values: Sequence[Sequence[tuple[int, float]]]
    prompt_tokens: int | None = None


class TokenIdWire(ABC):
    """A wire that sends token ids; see `Wire`.

    Args:
        encoder: makes the prompts.

    Attributes:
        encoder: makes the prompts.
        prompts_key: key of the prompts in a request.
    """

    name: str
    path: str
    prompts_key: str
    views_per_request = MOST_PROMPTS

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self._sends_logits = False

    @abstractmethod
    def body(
        self, model: str, prompts: Sequence[Sequence[int]], letters: Sequence[int]
    ) -> dict[str, Json]:
        """Return the request for the letters after some prompts."""

    @abstractmethod
    def parsed(self, reply: Json, count: int) -> TokenReply:
        """Return what a reply says of each prompt.

        Raises:
            UnusableReplyError: it is not a reply to so many prompts.
        """

    @property
    def values(self) -> Values:
        """Log-probabilities, or logits as soon as one reply has shown them."""
        return "logits" if self._sends_logits else "log-probabilities"

    @property
    def settings(self) -> Mapping[str, Json]:
        """The longest prompt."""
        return {"max_prompt_tokens": self.encoder.max_prompt_tokens}

    @property
    def prompts(self) -> Mapping[str, Json]:
        """The prompts, as a local run records them."""
        contract = self.encoder.contract
        return {
            "prompts_sha256": self.encoder.fingerprint,
            "contract": Contract(contract.name, contract.fingerprint).to_json(),
        }

    def permutes(self, field: Field) -> bool:
        """Return True: the prompt is ours, so every kind has views."""
        del field
        return True

    def calls(self, model: str, views: Sequence[AskedView]) -> list[Call]:
        """Return one request for the views of an item; several for more than 1,024 orders.

        Raises:
            PromptError: a prompt is over the limit.
            RequestError: the question has more answers than there are letters.
        """
        calls = []
        for start in range(0, len(views), self.views_per_request):
            part = tuple(views[start : start + self.views_per_request])
            first = part[0]
            encoded = self.encoder.encode_orders(
                first.state, first.field, [view.order for view in part]
            )
            prompts = [view.token_ids for view in encoded]
            calls.append(Call(self.path, self.body(model, prompts, encoded[0].code_tokens), part))
        return calls

    def read(self, call: Call, reply: Json) -> ReadReply:
        """Read the answers to the views of one item; see `Wire`."""
        parsed = self.parsed(reply, len(call.views))
        lengths = [len(prompt) for prompt in self._token_ids_of(call)]
        if parsed.prompt_tokens not in (None, sum(lengths)):
            raise UnusableReplyError(
                f"the server has read {parsed.prompt_tokens:,} tokens of prompts, not the "
                f"{sum(lengths):,} that were sent"
            )
        parts = zip(call.views, parsed.values, lengths, strict=True)
        return ReadReply(parsed.model, tuple(self._answer(*part) for part in parts))

    def _token_ids_of(self, call: Call) -> list[list[int]]:
        body: Any = call.body  # as `calls` has made it
        prompts: list[list[int]] = body[self.prompts_key]
        return prompts

    def _answer(
        self, view: AskedView, pairs: Sequence[tuple[int, float]], prompt_tokens: int
    ) -> ViewAnswer:
        values = _by_id(pairs)
        tokens = self.encoder.answer_tokens(view.field)
        letters = [_letter_value(values, token) for token in tokens]
        if all(math.isinf(value) for value in letters):
            raise UnusableReplyError("no letter has a probability above 0")
        logits = in_canonical_order(letters, view.order)
        # Of all ids that came: that of the sampled token shows logits best.
        if _sum_of_exp(values.values()) > _MOST_MASS:
            self._sends_logits = True
        mass = None if self._sends_logits else min(_sum_of_exp(letters), 1.0)
        return ViewAnswer(logits, mass, prompt_tokens)


def read_value(value: Json) -> float:
    """Return a log-probability; -9999 is how servers write minus infinity, which JSON has not.

    Raises:
        UnusableReplyError: it is not a number.

    Examples:
        >>> read_value(-0.5), read_value(-9999.0)
        (-0.5, -inf)
    """
    log_probability = number(value, "log-probability")
    return log_probability if log_probability > _MINUS_INFINITY else -math.inf


def read_id(value: Json) -> int:
    """Return a token id.

    Raises:
        UnusableReplyError: it is not one.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31:
        return value
    raise UnusableReplyError("expected a token id next to each log-probability")


def read_count(value: Json) -> int | None:
    """Return a number of tokens; None if it is not one.

    Examples:
        >>> read_count(90), read_count(None)
        (90, None)
    """
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _by_id(pairs: Sequence[tuple[int, float]]) -> dict[int, float]:
    values = dict(pairs)
    if len(values) < len(pairs):
        ids = [token for token, _ in pairs]
        twice = next(token for token in ids if ids.count(token) > 1)
        message = f"log-probabilities: expected one for each token id, got two for {twice}"
        raise UnusableReplyError(message)
    return values


def _letter_value(values: Mapping[int, float], token: int) -> float:
    if token not in values:
        message = f"log-probabilities: expected one for each letter asked, got none for id {token}"
        raise UnusableReplyError(message)
    return values[token]


def _sum_of_exp(values: Iterable[float]) -> float:
    return math.fsum(math.exp(min(value, 1.0)) for value in values)
