"""The wire of vLLM: `POST /v1/completions` with token ids and `logprob_token_ids`.

Read in vLLM 0.32.0, `entrypoints/openai/completion/`. `logprobs` must be set for
`logprob_token_ids` to count, and then has no effect. Penalties and filters are switched off by
name: the defaults of a model's `generation_config.json` would otherwise remove letters from the
distribution on servers that return processed log-probabilities.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pact_eval._json import Json, describe
from pact_eval.scoring.servers.answers import shown
from pact_eval.scoring.servers.token_ids import (
    TokenIdWire,
    TokenReply,
    read_count,
    read_value,
)
from pact_eval.scoring.servers.wire import UnusableReplyError

_TOKEN: Final = re.compile(r"token_id:([0-9]{1,9})")


class VLLM(TokenIdWire):
    """The wire of vLLM's `/v1/completions`; see `Wire`."""

    name = "vllm"
    path = "/v1/completions"
    prompts_key = "prompt"

    def body(
        self, model: str, prompts: Sequence[Sequence[int]], letters: Sequence[int]
    ) -> dict[str, Json]:
        """Return the request; see `TokenIdWire`."""
        return {
            "model": model,
            "prompt": [[*prompt] for prompt in prompts],
            "max_tokens": 1,
            "temperature": 0,
            "top_p": 1,
            "top_k": 0,
            "min_p": 0,
            "repetition_penalty": 1,
            "logprobs": 1,
            "logprob_token_ids": [*letters],
            "return_tokens_as_token_ids": True,
            "add_special_tokens": False,
        }

    def parsed(self, reply: Json, count: int) -> TokenReply:
        """Return what a reply says; its choices may be in any order. See `TokenIdWire`."""
        choices = reply.get("choices") if isinstance(reply, dict) else None
        if not isinstance(reply, dict) or not isinstance(choices, list):
            message = f"expected an object with a list of choices, got {describe(reply)}"
            raise UnusableReplyError(message)
        indexes = [
            read_count(choice.get("index")) for choice in choices if isinstance(choice, dict)
        ]
        if len(choices) != count or {*indexes} != {*range(count)}:
            got = shown([*indexes])
            message = f"choices: expected one for each of {count} prompts, got indexes {got}"
            raise UnusableReplyError(message)
        model, usage = reply.get("model"), reply.get("usage")
        return TokenReply(
            model if isinstance(model, str) and model else None,
            [_values(choices[indexes.index(index)]) for index in range(count)],
            read_count(usage.get("prompt_tokens")) if isinstance(usage, dict) else None,
        )


def _values(choice: Json) -> list[tuple[int, float]]:
    """Return the ids and values of the first token."""
    of_choice = choice.get("logprobs") if isinstance(choice, dict) else None
    tokens = of_choice.get("top_logprobs") if isinstance(of_choice, dict) else None
    first = tokens[0] if isinstance(tokens, list) and tokens else None
    if not isinstance(first, dict):
        message = f"logprobs.top_logprobs: expected an object for the token, got {describe(first)}"
        raise UnusableReplyError(message)
    return [(_token(name), read_value(value)) for name, value in first.items()]


def _token(name: str) -> int:
    match = _TOKEN.fullmatch(name)
    if match is None:
        message = f"logprobs.top_logprobs: expected token_id:N, got {shown(name)}"
        raise UnusableReplyError(message)
    return int(match[1])
