"""Loopback servers that get token ids, as vLLM 0.32 and SGLang 0.5.23 answer (read in source)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scoring.servers.loopback import Response, Sent

Scored = Callable[[str, Sequence[int], Sequence[int]], list[float]]
"""Log-probabilities of some ids after a prompt, by a model of some name."""

VLLM_MODELS: dict[str, list[dict[str, Any]]] = {
    "data": [
        {"id": "base", "owned_by": "vllm", "root": "/not/here", "parent": None},
        {"id": "mine", "owned_by": "vllm", "root": "/not/here/either", "parent": "base"},
    ]
}
SGLANG_MODELS = {
    "data": [{**card, "owned_by": "sglang"} for card in VLLM_MODELS["data"]],
}
SAMPLED = 7
"""The token that every server samples; it is not a letter."""


def by_hash(model: str, prompt: Sequence[int], ids: Sequence[int]) -> list[float]:
    """Log-probabilities by the model's name, the prompt and the id; their mass is 0.9."""
    weights = [
        1 + hashlib.sha256(f"{model} {list(prompt)} {token}".encode()).digest()[0] for token in ids
    ]
    return [math.log(0.9 * weight / sum(weights)) for weight in weights]


def vllm(sent: Sent, scored: Scored = by_hash, **changes: Any) -> Response:
    """Answers `/v1/completions`; the choices come in reverse order."""
    body = sent.body
    choices = []
    for index, prompt in enumerate(body["prompt"]):
        values = scored(body["model"], prompt, body["logprob_token_ids"])
        log_probability_of = {f"token_id:{SAMPLED}": -20.0}
        log_probability_of |= {
            f"token_id:{token}": max(value, -9999.0)
            for token, value in zip(body["logprob_token_ids"], values, strict=True)
        }
        choices.append({"index": index, "logprobs": {"top_logprobs": [log_probability_of]}})
    usage = {"prompt_tokens": sum(map(len, body["prompt"]))}
    found_ = {"model": body["model"], "choices": choices[::-1], "usage": usage}
    return Response(found_ | changes)


def sglang(sent: Sent, scored: Scored = by_hash, base: str = "base") -> Response:
    """Answers `/generate`; the ids come in reverse order."""
    body = sent.body
    model = body.get("lora_path", base)
    parts = []
    for prompt, ids in zip(body["input_ids"], body["token_ids_logprob"], strict=True):
        pairs = [
            [value, token, None]
            for token, value in zip(ids, scored(model, prompt, ids), strict=True)
        ]
        meta = {"prompt_tokens": len(prompt), "output_token_ids_logprobs": [pairs[::-1]]}
        parts.append({"text": "B", "meta_info": meta})
    return Response(parts)


def answering(
    answers: Mapping[str, Callable[[Sent], Response]],
) -> Callable[[Sent], Response]:
    """Answers by path; 404 elsewhere."""

    def respond(sent: Sent) -> Response:
        answer = answers.get(sent.path)
        return Response({"detail": "Not Found"}, 404) if answer is None else answer(sent)

    return respond
