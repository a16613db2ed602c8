"""Source "chat": chat completions with the log-probabilities of their tokens.

    {"request": {"model", "messages", "logprobs": true, "top_logprobs": 20},
     "response": {"model", "choices": [{"message", "logprobs": {"content": [...]}}], "usage"}}

The options are those of `--options`, of the request (`guided_choice`), or the different right
answers. The answer is the only token that is an option. If no reply has such a token with its
log-probability, the answer is the text, and there are no probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pact_eval._json import Json, sha256_of_json
from pact_eval.data.labelled.answers import fold_label
from pact_eval.importing.exchange_rows import ExchangeSource, first_entries
from pact_eval.importing.exchanges import Exchange, parts_of
from pact_eval.importing.one_number import options_option
from pact_eval.importing.source import ImportOptions, Start, as_dict, as_list
from pact_eval.importing.table_cells import log_sum, scores_of
from pact_eval.importing.wire import Asked, Said

_NOT_LISTED: Final = -9999.0
_SYSTEM: Final = ("system", "developer")
_MOST_REPLIES: Final = 8
_LONGEST: Final = 20
_STOPPED: Final = {"content_filter": "refused", "length": "failed"}


class Chat(ExchangeSource):
    """Chat completions: one question, whose options the user names."""

    title = "chat completions"
    reads = "the same, with `top_logprobs`"
    id_keys = ("custom_id",)

    def recognises(self, start: Start) -> bool:
        """A file whose first objects have messages, or an id of a batch, and replies to them."""
        if start.path.is_dir():
            return False
        entries = first_entries(start)
        parts = [parts_of(entry) for entry in entries]
        asks = any("messages" in request for request, _ in parts)
        asks |= any("custom_id" in entry for entry in entries)
        listed = [
            choices for _, reply in parts if isinstance(choices := reply.get("choices"), list)
        ]
        return asks and any("message" in as_dict(c) for choices in listed for c in choices)

    def state(self, exchange: Exchange) -> Json:
        """Return the messages of the user: those of the system are the prompt."""
        messages = _messages(exchange)
        return [each for each in messages if each.get("role") not in _SYSTEM] or None

    def wording(self, exchange: Exchange) -> str:
        """Return the hash of the messages of the system."""
        prompt = [each for each in _messages(exchange) if each.get("role") in _SYSTEM]
        return sha256_of_json([*prompt])

    def questions(self, exchange: Exchange, options: ImportOptions) -> dict[str, Asked | None]:
        """Return the only question, with the options of the user, or of the request."""
        extra = exchange.request.get("extra_body")
        places = (exchange.request, as_dict(extra))
        guided = next((p["guided_choice"] for p in places if p.get("guided_choice")), None)
        listed = options.reading.options or tuple(map(str, as_list(guided, "guided_choice")))
        return {"": _asked(listed) if listed else None}

    def asked_by(self, answers: Sequence[Json], labels: Sequence[str]) -> Asked | None:
        """Return the question whose options are the different right answers.

        Raises:
            ValueError: there are fewer than two; the message says what the replies are.
        """
        if len(labels) >= 2:
            return _asked(labels)
        texts = {_word(_message(answer).get("content")) for answer in answers}
        replies = {fold_label(text): text for text in sorted(filter(None, texts))}
        listed = [text[:_LONGEST] for text in replies.values()]
        few = 2 <= len(listed) <= _MOST_REPLIES and max(map(len, replies.values())) <= _LONGEST
        offer = options_option(listed) if few else None
        raise ValueError(
            f"nothing tells the options; name them all: {offer or '--options A,B,C'}. Replies are: "
            f"{', '.join(listed[:_MOST_REPLIES])}"
        )

    def answers(self, exchange: Exchange, names: Sequence[str]) -> dict[str, Json]:
        """Return the reply as the answer to the only question."""
        return {names[0]: {**exchange.reply}}

    def samples(self, exchange: Exchange) -> list[Exchange]:
        """Return an exchange for each completion of a request with `n` above 1."""
        choices = exchange.reply.get("choices")
        if not isinstance(choices, list) or len(choices) < 2:
            return [exchange]
        return [replace(exchange, reply={**exchange.reply, "choices": [c]}) for c in choices]

    def said(self, answer: Json, asked: Asked) -> Said:
        """Read the token that is an option, with the log-probabilities of the others.

        Raises:
            ValueError: there are several completions, or log-probabilities of no known form.
        """
        choice, message = _choice(answer), _message(answer)
        if message.get("refusal"):
            return Said(status="refused", reason="the reply is a refusal")
        content = as_list(as_dict(choice.get("logprobs")).get("content"), "logprobs.content")
        tokens = [
            token for token in map(as_dict, content) if _at(token.get("token"), asked) is not None
        ]
        at = _at(message.get("content"), asked)
        if len(tokens) == 1:
            return Said(answer=_at(tokens[0].get("token"), asked), listed=_listed(tokens[0], asked))
        if at is not None:
            return Said(answer=at)
        status = _STOPPED.get(str(choice.get("finish_reason")), "failed")
        number = "several tokens" if tokens else "no token"
        return Said(status=status, reason=f"{number} of the reply are one of the options")


SOURCE: Final = Chat()
"""The entry of the registry."""


def _asked(options: Sequence[str]) -> Asked:
    return Asked("choice", tuple(options))


def _messages(exchange: Exchange) -> list[dict[str, Json]]:
    return [*map(as_dict, as_list(exchange.request.get("messages"), "messages"))]


def _choice(reply: Json) -> dict[str, Json]:
    choices = as_list(as_dict(reply).get("choices"), "choices")
    if len(choices) != 1:
        raise ValueError(
            f"choices: expected one completion, got {len(choices)}; log each in a line"
        )
    return as_dict(choices[0])


def _message(reply: Json) -> dict[str, Json]:
    return as_dict(_choice(reply).get("message"))


def _word(text: Json) -> str:
    """Return a token or text without the marks around it."""
    return text.strip(" \t\r\n.:;,()[]{}*\"'`") if isinstance(text, str) else ""


def _at(text: Json, asked: Asked) -> int | None:
    """Return the option that a token or text is; one letter has to be the same letter."""
    word = _word(text)
    if word in asked.options:
        return asked.options.index(word)
    return asked.index(word) if len(word) > 1 else None


def _listed(token: dict[str, Json], asked: Asked) -> tuple[float | None, ...] | None:
    """Return the log-probability of every option; None of those that are not listed."""
    if token.get("logprob") is None:
        return None
    scores = scores_of("log_probabilities", {"content": [token]})
    if scores is None or scores.names is None:
        return None
    by_option: dict[int, list[float]] = {}
    for name, number in zip(scores.names, scores.numbers, strict=True):
        at = _at(name, asked)
        if at is not None and number > _NOT_LISTED:
            by_option.setdefault(at, []).append(number)
    return tuple(
        log_sum(by_option[at]) if at in by_option else None for at in range(len(asked.options))
    )
