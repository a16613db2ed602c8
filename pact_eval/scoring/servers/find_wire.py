"""Choice of the wire of a server: the one that was named, or the one that its answers show.

`auto` asks for `/v1/models` and sends each route a request without a question, which no server
answers: where a route exists, the request is refused as incomplete (400, 422); where it does not,
the status is 404, 405 or 501. `/v1/completions` and `/generate` are spoken by many servers. They
count if `/v1/models` says `owned_by` vllm or sglang, or else if the server's description of itself
(`/openapi.json`) has the parameter that returns log-probabilities of chosen tokens.

A route that exists may still not answer: vLLM has `/v1/systemone` for models that it cannot ask.
If several wires are possible, the first of these is taken:

1. `vllm` or `sglang`, if the tokenizer is known: the prompts are then ours, so every kind of
   question has K views and an answer mass;
2. `systemone`;
3. `openai-decisions`. SGLang's own route of that name is another format and is left out.

Above the choice stand the wires of vLLM, SGLang, `POST /v1/systemone` and OpenAI's
`POST /v1/decisions`. Each is a `Wire` (`wire.py`): it words the requests of views, and reads the
replies.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

from pact_eval._json import Json, describe, dumps
from pact_eval.data.records import Field
from pact_eval.errors import (
    AdapterError,
    ContractMismatchError,
    PromptError,
    ServerError,
    missing_extra,
)
from pact_eval.hub import model_name
from pact_eval.models import model_folder
from pact_eval.progress import step
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.request import request_of_local
from pact_eval.scoring.servers.client import Client, Look
from pact_eval.scoring.servers.token_ids import (
    TokenIdWire,
    TokenReply,
    read_count,
    read_id,
    read_value,
)
from pact_eval.scoring.servers.wire import (
    AskedView,
    Call,
    NoAnswer,
    QuestionWire,
    ReadReply,
    ServerRequest,
    UnusableReplyError,
    ViewAnswer,
    Wire,
    check_choice,
    check_score,
    checked_log_probabilities,
    error_text,
    in_canonical_order,
    is_loopback,
    number,
    prompt_tokens,
    shortened,
    shown,
)

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
        raise UnusableReplyError(f"logprobs.top_logprobs: expected token_id:N, got {shown(name)}")
    return int(match[1])


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
        return TokenReply(None, [_listed_log_probs(meta) for meta in meta_infos], read)


def _listed_log_probs(meta: Mapping[str, Json]) -> list[tuple[int, float]]:
    """Return the ids and values of the first token, in any order."""
    tokens = meta.get("output_token_ids_logprobs")
    first = tokens[0] if isinstance(tokens, list) and tokens else None
    if not isinstance(first, list):
        raise UnusableReplyError(
            f"meta_info.output_token_ids_logprobs: expected a list for the token, got "
            f"{describe(first)}"
        )
    return [_pair(pair) for pair in first]


def _pair(value: Json) -> tuple[int, float]:
    """Return the id and the value of `[log-probability, id, text]`."""
    if not isinstance(value, list) or len(value) < 2:
        message = f"output_token_ids_logprobs: expected [value, id, text], got {describe(value)}"
        raise UnusableReplyError(message)
    return read_id(value[1]), read_value(value[0])


_REPLY_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "choice": ("choice",),
    "boolean": ("noul", "boolean"),
    "score": ("score",),
}
_SLACK: Final = 1e-3


class SystemOne(QuestionWire):
    """The wire of `/v1/systemone`; see `QuestionWire`."""

    name = "systemone"
    path = "/v1/systemone"

    def request_fields(self, view: AskedView) -> dict[str, Json]:
        """Return the context and the question of a request."""
        return {
            "state": _state(view.state),
            "questions": {view.field.name: systemone_question(view.field, view.order)},
        }

    def read(self, call: Call, reply: Json) -> ReadReply:
        """Read the answer to one view; see `Wire`."""
        (view,) = call.views
        fields, model, answers = _open(reply, dict, "answers")
        answer = answers.get(view.field.name)
        if answer is None:
            return ReadReply(model, (_MISSING,))
        mass = _answer_mass(fields, answer, view.field.name)
        tokens = prompt_tokens(fields)
        return ReadReply(model, (ViewAnswer(_logits_of(view, answer), mass, tokens),))


def systemone_question(field: Field, order: Sequence[int]) -> dict[str, Json]:
    """Return a question as a request has it, with its answers in some order.

    Args:
        field: the question.
        order: the canonical index at each position.

    Examples:
        >>> from pact_eval.data.records import parse_field
        >>> field = parse_field("team", {"type": "choice", "instructions": "Who?",
        ...                              "criteria": {"sales": "Prices", "support": None}})
        >>> systemone_question(field, (1, 0))["criteria"]
        {'support': None, 'sales': 'Prices'}
    """
    answers = [field.answers[index] for index in order]
    body: dict[str, Json] = {
        "type": _REPLY_TYPES[field.kind][0],
        "instructions": field.instructions,
    }
    if field.kind == "choice":
        body["criteria"] = {answer.key: answer.description for answer in answers}
    elif field.kind == "score":
        # A level without a description is refused by servers: its number describes it.
        body["criteria"] = [
            answer.key if answer.description is None else answer.description for answer in answers
        ]
    else:
        descriptions = {a.key: a.description for a in answers if a.description is not None}
        body |= {"criteria": dict(descriptions)} if descriptions else {}
    return body


def _state(state: Json) -> Json:
    """Return a context as servers take it: text, an object or a list."""
    return state if isinstance(state, str | dict | list) else dumps(state)


def _logits_of(view: AskedView, answer: Json) -> tuple[float, ...]:
    """Return the log-probabilities of an answer in canonical order; names are compared exactly."""
    fields = _check_type(answer, _REPLY_TYPES[view.field.kind])
    if view.field.kind == "boolean":
        return _of_boolean(fields, "noul")
    names = [view.field.answers[index].key for index in view.order]
    if view.field.kind == "score":
        names = [str(position) for position in range(len(names))]
    given = fields.get("probabilities")
    if not isinstance(given, dict) or given.keys() != set(names):
        raise _other_names(names, given, given if isinstance(given, dict) else {})
    return _of_distribution(view, fields, names, given, range(len(names)))


_Answers = TypeVar("_Answers", dict[str, Any], list[Any])
_MISSING: Final = NoAnswer("missing", "the reply has no answer to it")


def _open(
    reply: Json, kind: type[_Answers], expected: str
) -> tuple[dict[str, Json], str | None, _Answers]:
    """Return the object of a reply, the name of the model that answered, and the answers."""
    answers = reply.get("answers") if isinstance(reply, dict) else None
    if not isinstance(reply, dict) or not isinstance(answers, kind):
        raise UnusableReplyError(f"expected an object with {expected}, got {describe(reply)}")
    model = reply.get("model")
    return reply, model if isinstance(model, str) and model else None, answers


def _check_type(answer: Json, types: Sequence[str]) -> dict[str, Json]:
    """Return an answer that is an object of one of these types."""
    kind = answer.get("type") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or kind not in types:
        raise UnusableReplyError(f"expected an answer of type {types[0]}, got {shown(kind)}")
    return answer


def _of_boolean(answer: Mapping[str, Json], key: str) -> tuple[float, ...]:
    true = number(answer.get(key), key)
    return checked_log_probabilities([1.0 - true, true])


def _of_distribution(
    view: AskedView,
    answer: Mapping[str, Json],
    names: Sequence[str],
    given: Mapping[str, Json],
    levels: Sequence[int],
) -> tuple[float, ...]:
    """Return the log-probabilities of names by position in canonical order; check the answer."""
    positions = [number(given[name], f"probabilities.{shortened(name)}") for name in names]
    logits = checked_log_probabilities(positions)
    if view.field.kind == "choice":
        check_choice(answer.get("choice"), names, positions)
    else:
        check_score(answer.get("score"), levels, positions)
    return in_canonical_order(logits, view.order)


def _other_names(
    names: Sequence[str], probabilities: Json, given: Collection[str]
) -> UnusableReplyError:
    """Return the error of probabilities that are not those of the answers asked."""
    got = describe(probabilities)
    if isinstance(probabilities, dict | list):
        got = f"{len(probabilities):,} names"
    other = next((name for name in given if name not in names), None)
    such = "" if other is None else f", such as {shown(other)}"
    expected = f"probabilities: expected those of the {len(names)} answers asked"
    return UnusableReplyError(f"{expected}, got {got}{such}")


def _answer_mass(reply: Mapping[str, Json], answer: Json, name: str) -> float | None:
    """Return the mass on the labels where a server tells it (vLLM, SGLang)."""
    diagnostics = reply.get("diagnostics")
    of_name = diagnostics.get(name) if isinstance(diagnostics, dict) else None
    for place, key in ((of_name, "label_mass"), (answer, "x_label_mass")):
        mass = place.get(key) if isinstance(place, dict) else None
        if isinstance(mass, int | float) and not isinstance(mass, bool) and 0 <= mass <= 1 + _SLACK:
            return min(float(mass), 1.0)
    return None


_TYPES: Final[Mapping[str, str]] = {"choice": "choice", "boolean": "predicate", "score": "score"}


class OpenAIDecisions(QuestionWire):
    """The wire of `/v1/decisions`; see `QuestionWire`."""

    name = "openai-decisions"
    path = "/v1/decisions"

    def request_fields(self, view: AskedView) -> dict[str, Json]:
        """Return the context and the question of a request."""
        return {
            "input": _text(view.state),
            "questions": [decision_question(view.field, view.order)],
        }

    def read(self, call: Call, reply: Json) -> ReadReply:
        """Read the answer to one view; see `Wire`."""
        (view,) = call.views
        fields, model, answers = _open(reply, list, "a list of answers")
        if not answers:
            return ReadReply(model, (_MISSING,))
        if len(answers) > 1 or not isinstance(answers[0], dict):
            raise UnusableReplyError(f"answers: expected one object, got {len(answers):,} values")
        answer = answers[0]
        name = answer.get("name")
        if name is not None and name != view.field.name:
            message = f"answers: expected that of {view.field.name}, got that of {shown(name)}"
            raise UnusableReplyError(message)
        if answer.get("type") == "refusal":
            return ReadReply(model, (NoAnswer("refused", "the model declined to answer it"),))
        return ReadReply(model, (ViewAnswer(_logits(view, answer), None, prompt_tokens(fields)),))


def decision_question(field: Field, order: Sequence[int]) -> dict[str, Json]:
    """Return a question as a request has it, with its answers in some order.

    Args:
        field: the question.
        order: the canonical index at each position.

    Examples:
        >>> from pact_eval.data.records import parse_field
        >>> field = parse_field("team", {"type": "choice", "instructions": "Who?",
        ...                              "criteria": {"sales": "Prices", "support": None}})
        >>> decision_question(field, (1, 0))["choices"]
        [{'value': 'support'}, {'value': 'sales', 'description': 'Prices'}]
    """
    body: dict[str, Json] = {
        "type": _TYPES[field.kind],
        "name": field.name,
        "instructions": _text(field.instructions),
    }
    described = [(answer.key, answer.description) for answer in field.answers]
    if field.kind == "boolean":
        meanings = [f"\n{key}: {text}" for key, text in described if text is not None]
        return body | {"instructions": "".join([_text(field.instructions), *meanings])}
    if field.kind == "choice":
        choices: list[dict[str, Json]] = [
            {"value": key, **({} if text is None else {"description": text})}
            for key, text in described
        ]
        return body | {"choices": [choices[index] for index in order]}
    labels = _labels(field)
    levels: list[Json] = [
        {"label": label, **({} if text in (None, label) else {"description": text})}
        for label, (_, text) in zip(labels, described, strict=True)
    ]
    return body | {"levels": [levels[index] for index in order]}


def _labels(field: Field) -> list[str]:
    """Return the labels of the levels: their descriptions, or their numbers if two are the same."""
    labels = [
        answer.key if answer.description is None else answer.description for answer in field.answers
    ]
    return labels if len(set(labels)) == len(labels) else [answer.key for answer in field.answers]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else dumps(value)


def _logits(view: AskedView, answer: Mapping[str, Json]) -> tuple[float, ...]:
    """Return the log-probabilities of an answer in canonical order."""
    fields = _check_type(dict(answer), (_TYPES[view.field.kind],))
    if view.field.kind == "boolean":
        return _of_boolean(fields, "probability")
    is_choice = view.field.kind == "choice"
    names = [answer.key for answer in view.field.answers] if is_choice else _labels(view.field)
    names = [names[index] for index in view.order]
    listed = fields.get("probabilities")
    key, entries = "value" if is_choice else "label", listed if isinstance(listed, list) else []
    by_name: dict[str, dict[str, Json]] = {
        str(entry[key]): entry
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get(key), str)
    }
    if len(entries) != len(names) or by_name.keys() != set(names):
        raise _other_names(names, listed, by_name)
    levels = range(len(names)) if is_choice else _levels(by_name, names)
    given = {name: entry.get("probability") for name, entry in by_name.items()}
    return _of_distribution(view, fields, names, given, levels)


def _levels(entries_by_name: Mapping[str, Mapping[str, Json]], names: Sequence[str]) -> list[int]:
    """Return the number of each level, which must increase with its position."""
    values = [entries_by_name[name].get("value") for name in names]
    levels = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    if len(levels) != len(names) or levels != sorted(set(levels)):
        message = f"value: expected increasing numbers of levels, got {shown(values)}"
        raise UnusableReplyError(message)
    return levels


Card = Mapping[str, Json]


@dataclass(frozen=True)
class ServedModels:
    """The models that a server lists.

    Attributes:
        cards: by name, the entry of `/v1/models`; empty without the page.
        info: the page `/model_info`; empty without it.
    """

    cards: Mapping[str, Card] = field(default_factory=dict)
    info: Card = field(default_factory=dict)

    @property
    def owner(self) -> str | None:
        """Stated owner of the models: servers give their own name, such as "vllm"."""
        owners = [_told(card.get("owned_by")) for card in self.cards.values()]
        return next(filter(None, owners), None)

    @property
    def base_names(self) -> tuple[str, ...]:
        """Names of models that are not adapters of another one."""
        served = _told(self.info.get("served_model_name"))
        listed = [name for name, card in self.cards.items() if not _told(card.get("parent"))]
        return tuple(dict.fromkeys([*listed, *([served] if served else [])]))

    def base_of(self, model: str) -> str | None:
        """Return the name of the base model if a model is listed as an adapter of it.

        Examples:
            >>> cards = {"base": {"root": "/models/b"}, "mine": {"parent": "base"}}
            >>> ServedModels(cards).base_of("mine"), ServedModels(cards).base_of("base")
            ('base', None)
        """
        parent = _told(self.cards.get(model, {}).get("parent"))
        return None if parent in (None, model) else parent

    def folder_of(self, model: str) -> str | None:
        """Return the folder or hub id of the base model's files, as the server has it.

        Examples:
            >>> cards = {"base": {"root": "/models/b"}, "mine": {"parent": "base"}}
            >>> ServedModels(cards).folder_of("mine")
            '/models/b'
        """
        for key in ("tokenizer_path", "model_path"):
            folder = _told(self.info.get(key))
            if folder is not None:
                return folder
        base = self.base_of(model) or model
        base = base if base in self.cards or not self.base_names else self.base_names[0]
        return _told(self.cards.get(base, {}).get("root"))


def read_cards(page: Json) -> dict[str, Card]:
    """Return the entries of a page `/v1/models` by name."""
    entries: list[Json] = []
    for key in ("data", "models"):
        listed = page.get(key) if isinstance(page, dict) else None
        entries += listed if isinstance(listed, list) else []
    return {
        str(entry.get("id", entry.get("name"))): entry
        for entry in entries
        if isinstance(entry, dict)
    }


def read_served(client: Client) -> ServedModels:
    """Ask a server for the models that it lists."""
    served = ServedModels(read_cards(client.get("/v1/models")))
    if served.owner != "sglang":
        return served
    info = client.get("/model_info")
    return ServedModels(served.cards, info if isinstance(info, dict) else {})


def _told(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


_FILES: Final = ("tokenizer*", "*.json", "*.jinja", "vocab.txt", "merges.txt", "*.model")


def find_encoder(request: ServerRequest, served: ServedModels) -> tuple[Encoder, str] | None:
    """Return the encoder for prompts that are sent as token ids, and which tokenizer it has.

    None if no tokenizer is known.

    Args:
        request: names a tokenizer or a local model.
        served: what the server lists.

    Raises:
        MissingExtraError: a tokenizer is known, and transformers is not installed.
        AdapterError: the tokenizer or the local model cannot be read.
        PromptError: the tokenizer cannot render the contract.
    """
    try:
        if request.tokenizer is not None:
            return _encoder(request.tokenizer), f"tokenizer {request.tokenizer}"
        if request.local is not None:
            return _prompts_of_local(request)
        return _prompts_of_server(request, served)
    except ModuleNotFoundError as error:
        purpose, otherwise = "a prompt as token ids", "--wire systemone if the server speaks it"
        raise missing_extra(purpose, str(error.name), "model", otherwise) from error


def _prompts_of_server(request: ServerRequest, served: ServedModels) -> tuple[Encoder, str] | None:
    """Return the tokenizer that a server on this machine has loaded; None if it cannot be used."""
    folder = served.folder_of(request.model)
    if folder is None or not all(map(is_loopback, request.urls)):
        return None
    # Not Path.is_dir, which raises an error for a name that is too long.
    if not os.path.isabs(folder) or not os.path.isdir(folder):  # noqa: PTH112, PTH117
        return None
    try:
        return _encoder(folder), f"tokenizer of the server, {folder}"
    except (AdapterError, PromptError):  # nobody has asked for it
        return None


def _prompts_of_local(request: ServerRequest) -> tuple[Encoder, str]:
    from pact_eval.scoring.model import identify  # needs torch

    encoder = identify(request_of_local(request), may_differ=False).encoder
    if encoder.contract is not NIMBLE:
        raise ContractMismatchError(
            f"{request.local}: its contract is {encoder.contract.label}; a server of this wire "
            f"gets prompts of {NIMBLE.label}"
        )
    return encoder, f"tokenizer of {request.local}"


def _encoder(name: str) -> Encoder:
    """Return the encoder with the tokenizer of a folder or a hub id."""
    from pact_eval.scoring.contracts import load_tokenizer, longest_prompt

    folder, hub_name = Path(name), model_name(name)
    if not folder.is_dir() and hub_name is not None:
        folder = model_folder(hub_name, _FILES)
    tokenizer = load_tokenizer(folder)
    limit = longest_prompt(folder, {}) if (folder / "config.json").exists() else None
    return Encoder(tokenizer, NIMBLE, limit)


_ROUTES: Final[Mapping[str, str]] = {
    wire.name: wire.path for wire in (VLLM, SGLang, SystemOne, OpenAIDecisions)
}
_PARAMETERS: Final[Mapping[str, str]] = {
    "vllm": "logprob_token_ids",
    "sglang": "token_ids_logprob",
}
_REFUSED: Final = (200, 400, 413, 415, 422, 500)
_DENIED: Final = (401, 403)
_NEEDS_TOKENIZER: Final = (
    "give the base model's tokenizer by --tokenizer FOLDER_OR_ID, or --local ADAPTER"
)


@dataclass(frozen=True)
class FoundWire:
    """The wire to use for a server.

    Attributes:
        wire: the wire.
        why: why this one, for the user.
        base_name: name of the base model, if the server lists the model as an adapter of it.
    """

    wire: Wire
    why: str
    base_name: str | None = None


def find_wire(request: ServerRequest) -> FoundWire:
    """Return the wire to use for a server; see the module.

    Raises:
        ServerError: the server cannot be reached, or speaks no wire that we know; the message lists
            what was tried.
        MissingExtraError: prompts need a tokenizer, and transformers is not installed.
        AdapterError: the tokenizer or the local model cannot be read.
        PromptError: the tokenizer cannot render the contract.
    """
    with step("Finding out what the server speaks"), Client(request) as client:
        served = read_served(client)
        if request.wire == "auto":
            return _detect(request, client, served)
    base = served.base_of(request.model)
    if request.wire not in _PARAMETERS:
        return FoundWire(_plain(request.wire, request), "as given", base)
    prompts = find_encoder(request, served)
    if prompts is None:
        raise ServerError(f"--wire {request.wire} sends token ids: {_NEEDS_TOKENIZER}")
    encoder, tokenizer = prompts
    return FoundWire(_of_ids(request.wire, encoder, served), f"as given; {tokenizer}", base)


def _detect(request: ServerRequest, client: Client, served: ServedModels) -> FoundWire:
    looks = {name: client.look(path, {"model": request.model}) for name, path in _ROUTES.items()}
    if all(look.status is None for look in looks.values()):
        problem = next(iter(looks.values())).problem
        raise ServerError(
            f"{request.urls[0]}: no route answers ({problem}); is the server running? If it is, it "
            "may hang up on requests without a question: name its wire, --wire"
        )
    names = [name for name, look in looks.items() if _exists(look, request.model)]
    if served.owner == "sglang" and "openai-decisions" in names:
        names.remove("openai-decisions")
    reasons = {name: f"{_ROUTES[name]} exists" for name in names}
    for name in [name for name in names if name in _PARAMETERS]:
        reason = _why_of_ids(name, client, served)
        if reason is None:
            names.remove(name)
        else:
            reasons[name] = reason
    if not names:
        raise ServerError(_explain_no_wire(request, looks))
    return _chosen(names, reasons, request, served)


def _chosen(
    names: list[str], reasons: Mapping[str, str], request: ServerRequest, served: ServedModels
) -> FoundWire:
    """Return the first possible wire, and say which others are."""
    base = served.base_of(request.model)
    of_ids = next((name for name in names if name in _PARAMETERS), None)
    plain = next((name for name in names if name not in _PARAMETERS), None)
    prompts = None if of_ids is None else find_encoder(request, served)
    if of_ids is not None and prompts is not None:
        other = "" if plain is None else f"; {_ROUTES[plain]} exists too (--wire {plain})"
        encoder, tokenizer = prompts
        why = f"{reasons[of_ids]}; {tokenizer}{other}"
        return FoundWire(_of_ids(of_ids, encoder, served), why, base)
    if plain is None:
        message = f"{request.urls[0]} speaks the wire {of_ids} ({reasons[str(of_ids)]}): "
        raise ServerError(message + _NEEDS_TOKENIZER)
    others = [name for name in names if name not in (of_ids, plain)]
    also = [f"{_ROUTES[name]} exists too (--wire {name})" for name in others]
    why = "; ".join([reasons[plain], *also])
    if of_ids is not None:
        why += f"; with --tokenizer, --wire {of_ids} would give every kind K views"
    return FoundWire(_plain(plain, request), why, base)


def _plain(name: str, request: ServerRequest) -> Wire:
    if name == OpenAIDecisions.name:
        return OpenAIDecisions(score_views=request.score_views)
    return SystemOne(score_views=request.score_views)


def _of_ids(name: str, encoder: Encoder, served: ServedModels) -> Wire:
    return SGLang(encoder, served.base_names) if name == SGLang.name else VLLM(encoder)


def _exists(look: Look, model: str) -> bool:
    """Return whether a route exists: it refuses the request as incomplete, or knows no such model.

    A status of 404 that names the model is about the model and not about the route.
    """
    if look.status == 404:
        text = dumps(look.value)
        return model in text and "model" in text.lower()
    return look.status in _REFUSED


def _why_of_ids(name: str, client: Client, served: ServedModels) -> str | None:
    """Return why a route takes token ids as a wire has it; None if nothing says so."""
    if served.owner in _PARAMETERS:
        return f"/v1/models says owned_by {name}" if served.owner == name else None
    page = client.look("/openapi.json")
    if page.status == 200 and f'"{_PARAMETERS[name]}"' in dumps(page.value):
        return f"{_ROUTES[name]} takes {_PARAMETERS[name]}"
    return None


def _in_words(look: Look) -> str:
    """Write what a route answered; one that exists says why this model cannot use it."""
    reason = error_text(look.value) if look.status == HTTPStatus.NOT_IMPLEMENTED else ""
    return look.problem or f"status {look.status}{reason and f', {reason}'}"


def _explain_no_wire(request: ServerRequest, looks: Mapping[str, Look]) -> str:
    tried = "; ".join(
        f"{_ROUTES[name]} ({name}): {_in_words(look)}" for name, look in looks.items()
    )
    if any(look.status in _DENIED for look in looks.values()):
        wanted = (
            "a key is wanted; give the key by --api-key-env"
            if request.key_variable is None
            else f"the key in {request.key_variable} is not accepted"
        )
        return f"{request.urls[0]}: {wanted}. Tried: {tried}"
    return (
        f"{request.urls[0]}: no supported API was detected. Tried: {tried}. "
        "If it has one of these, name it with --wire"
    )
