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
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final

from pact_eval._json import Json, dumps
from pact_eval.errors import (
    AdapterError,
    ContractMismatchError,
    PromptError,
    ServerError,
    missing_extra,
)
from pact_eval.hub.names import model_name
from pact_eval.models.hub_adapters import model_folder
from pact_eval.progress import step
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.request import request_of_local
from pact_eval.scoring.servers.client import Client, Look
from pact_eval.scoring.servers.dialects import VLLM, OpenAIDecisions, SGLang, SystemOne
from pact_eval.scoring.servers.replies import error_text
from pact_eval.scoring.servers.request import ServerRequest, is_loopback
from pact_eval.scoring.servers.wire import Wire

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
        owners = [_text(card.get("owned_by")) for card in self.cards.values()]
        return next(filter(None, owners), None)

    @property
    def base_names(self) -> tuple[str, ...]:
        """Names of models that are not adapters of another one."""
        served = _text(self.info.get("served_model_name"))
        listed = [name for name, card in self.cards.items() if not _text(card.get("parent"))]
        return tuple(dict.fromkeys([*listed, *([served] if served else [])]))

    def base_of(self, model: str) -> str | None:
        """Return the name of the base model if a model is listed as an adapter of it.

        Examples:
            >>> cards = {"base": {"root": "/models/b"}, "mine": {"parent": "base"}}
            >>> ServedModels(cards).base_of("mine"), ServedModels(cards).base_of("base")
            ('base', None)
        """
        parent = _text(self.cards.get(model, {}).get("parent"))
        return None if parent in (None, model) else parent

    def folder_of(self, model: str) -> str | None:
        """Return the folder or hub id of the base model's files, as the server has it.

        Examples:
            >>> cards = {"base": {"root": "/models/b"}, "mine": {"parent": "base"}}
            >>> ServedModels(cards).folder_of("mine")
            '/models/b'
        """
        for key in ("tokenizer_path", "model_path"):
            folder = _text(self.info.get(key))
            if folder is not None:
                return folder
        base = self.base_of(model) or model
        base = base if base in self.cards or not self.base_names else self.base_names[0]
        return _text(self.cards.get(base, {}).get("root"))


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


def _text(value: Json) -> str | None:
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
    from pact_eval.scoring.tokenizer import load_tokenizer, longest_prompt

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
