"""The wire of SGLang: `POST /generate` with token ids and `token_ids_logprob`.

Read in SGLang 0.5.23, `managers/io_struct.py` and `managers/tokenizer_manager.py`; not run. A
request has no name of a model: it is for the one model that is served, with the adapter that
`lora_path` names. Replies do not name it either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pact_eval._json import Json, describe
from pact_eval.prompts.encoding import Encoder
from pact_eval.scoring.servers.token_ids import (
    TokenIdWire,
    TokenReply,
    read_count,
    read_id,
    read_value,
)
from pact_eval.scoring.servers.wire import UnusableReplyError


class SGLang(TokenIdWire):
    """The wire of SGLang's `/generate`; see `Wire`.

    Args:
        encoder: makes the prompts.
        base_names: names of the model itself; any other name is that of an adapter.
    """

    name = "sglang"
    path = "/generate"
    prompts_key = "input_ids"

    def __init__(self, encoder: Encoder, base_names: Sequence[str]) -> None:
        super().__init__(encoder)
        self._base_names = base_names

    def body(
        self, model: str, prompts: Sequence[Sequence[int]], letters: Sequence[int]
    ) -> dict[str, Json]:
        """Return the request; see `TokenIdWire`."""
        adapter: dict[str, Json] = {} if model in self._base_names else {"lora_path": model}
        return {
            "input_ids": [[*prompt] for prompt in prompts],
            # At temperature 1 the log-probabilities are those of the model.
            "sampling_params": {"max_new_tokens": 1, "temperature": 1},
            "return_logprob": True,
            "logprob_start_len": -1,
            "token_ids_logprob": [[*letters] for _ in prompts],
            **adapter,
        }

    def parsed(self, reply: Json, count: int) -> TokenReply:
        """Return what a reply says: one object per prompt, in their order. See `TokenIdWire`."""
        if not isinstance(reply, list) or len(reply) != count:
            got = f"{len(reply):,}" if isinstance(reply, list) else describe(reply)
            message = f"expected a list with one object for each of {count} prompts, got {got}"
            raise UnusableReplyError(message)
        metas = [choice.get("meta_info") if isinstance(choice, dict) else None for choice in reply]
        meta_infos = [meta if isinstance(meta, dict) else {} for meta in metas]
        counts = [read_count(meta.get("prompt_tokens")) for meta in meta_infos]
        reported = [tokens for tokens in counts if tokens is not None]
        read = sum(reported) if len(reported) == count else None
        return TokenReply(None, [_values(meta) for meta in meta_infos], read)


def _values(meta: Mapping[str, Json]) -> list[tuple[int, float]]:
    """Return the ids and values of the first token, in any order."""
    tokens = meta.get("output_token_ids_logprobs")
    first = tokens[0] if isinstance(tokens, list) and tokens else None
    if not isinstance(first, list):
        message = (
            f"meta_info.output_token_ids_logprobs: expected a list for the token, got "
            f"{describe(first)}"
        )
        raise UnusableReplyError(message)
    return [_pair(pair) for pair in first]


def _pair(value: Json) -> tuple[int, float]:
    """Return the id and the value of `[log-probability, id, text]`."""
    if not isinstance(value, list) or len(value) < 2:
        message = f"output_token_ids_logprobs: expected [value, id, text], got {describe(value)}"
        raise UnusableReplyError(message)
    return read_id(value[1]), read_value(value[0])
