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
from pathlib import Path
from typing import Final

from pact_eval._json import Json, at, dumps
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
from pact_eval.scoring.servers.client import Client, Look, error_text
from pact_eval.scoring.servers.dialects import DIALECTS, Wire
from pact_eval.scoring.servers.wire import ServerRequest, is_loopback

Card = Mapping[str, Json]


@dataclass(frozen=True)
class ServedModels:
    """The models that a server lists.

    Attributes:
        cards: by name, the entry of `/v1/models`; empty without the page.
        info: the page `/model_info` of SGLang; None without it.
    """

    cards: Mapping[str, Card] = field(default_factory=dict)
    info: Json = None

    @property
    def owner(self) -> str | None:
        """Stated owner of the models: servers give their own name, such as "vllm"."""
        owners = [_told(card.get("owned_by")) for card in self.cards.values()]
        return next(filter(None, owners), None)

    @property
    def base_names(self) -> tuple[str, ...]:
        """Names of models that are not adapters of another one."""
        served = _told(at(self.info, "served_model_name"))
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
        base = self.base_of(model) or model
        base = base if base in self.cards or not self.base_names else self.base_names[0]
        root = _told(self.cards.get(base, {}).get("root"))
        stated = [_told(at(self.info, key)) for key in ("tokenizer_path", "model_path")]
        return next(filter(None, stated), root)


def read_cards(client: Client) -> dict[str, Card]:
    """Return the entries of the page `/v1/models` by name."""
    page = client.get("/v1/models")
    lists = [at(page, key) for key in ("data", "models")]
    return {
        str(entry.get("id", entry.get("name"))): entry
        for entries in lists
        if isinstance(entries, list)
        for entry in entries
        if isinstance(entry, dict)
    }


def _told(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


_FILES: Final = ("tokenizer*", "*.json", "*.jinja", "vocab.txt", "merges.txt", "*.model")


def find_encoder(request: ServerRequest, served: ServedModels) -> tuple[Encoder, str] | None:
    """Return the encoder for prompts that are sent as token ids, and which tokenizer it has.

    Its tokenizer is that of the user, of the local model, or of a server on this machine. None if
    no tokenizer is known.

    Args:
        request: names a tokenizer or a local model.
        served: what the server lists.

    Raises:
        MissingExtraError: a tokenizer is known, and transformers is not installed.
        AdapterError: the tokenizer or the local model cannot be read.
        PromptError: the tokenizer cannot render the contract.
    """
    folder = served.folder_of(request.model)
    try:
        if request.tokenizer is not None:
            return _encoder(request.tokenizer), f"tokenizer {request.tokenizer}"
        if request.local is not None:
            from pact_eval.scoring.model import identify  # needs torch

            encoder = identify(request_of_local(request), may_differ=False).encoder
            if encoder.contract is not NIMBLE:
                raise ContractMismatchError(
                    f"{request.local}: its contract is {encoder.contract.label}; a server of this "
                    f"wire gets prompts of {NIMBLE.label}"
                )
            return encoder, f"tokenizer of {request.local}"
        # Not Path.is_dir, which raises an error for a name that is too long.
        is_here = folder is not None and os.path.isabs(folder) and os.path.isdir(folder)  # noqa: PTH112, PTH117
        if folder is None or not is_here or not all(map(is_loopback, request.urls)):
            return None
        try:
            return _encoder(folder), f"tokenizer of the server, {folder}"
        except (AdapterError, PromptError):  # nobody has asked for it
            return None
    except ModuleNotFoundError as error:
        purpose, otherwise = "a prompt as token ids", "--wire systemone if the server speaks it"
        raise missing_extra(purpose, str(error.name), "model", otherwise) from error


def _encoder(name: str) -> Encoder:
    """Return the encoder with the tokenizer of a folder or a hub id."""
    from pact_eval.scoring.contracts import load_tokenizer, longest_prompt

    folder, hub_name = Path(name), model_name(name)
    if not folder.is_dir() and hub_name is not None:
        folder = model_folder(hub_name, _FILES)
    tokenizer = load_tokenizer(folder)
    limit = longest_prompt(folder, {}) if (folder / "config.json").exists() else None
    return Encoder(tokenizer, NIMBLE, limit)


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
        served = ServedModels(read_cards(client))
        if served.owner == "sglang":
            served = ServedModels(served.cards, client.get("/model_info"))
        reasons: dict[str, str] = {request.wire: "as given"}
        if request.wire == "auto":
            reasons = _possible(request, client, served)
    of_ids = next((name for name in reasons if DIALECTS[name].parameter), None)
    plain = next((name for name in reasons if not DIALECTS[name].parameter), None)
    prompts = None if of_ids is None else find_encoder(request, served)
    if of_ids is not None and prompts is not None:
        encoder, tokenizer = prompts
        wire = Wire(of_ids, encoder=encoder, base_names=served.base_names)
        parts, others = [reasons[of_ids], tokenizer], [plain] if plain else []
    elif plain is not None:
        wire = Wire(plain, score_views=request.score_views)
        parts = [reasons[plain]]
        others = [name for name in reasons if name not in (plain, of_ids)]
    else:
        raise ServerError(
            f"{request.urls[0]}: --wire {of_ids} ({reasons[str(of_ids)]}) sends token ids: give "
            "the base model's tokenizer by --tokenizer FOLDER_OR_ID, or --local ADAPTER"
        )
    parts += [f"{DIALECTS[other].path} exists too (--wire {other})" for other in others]
    if of_ids is not None and prompts is None:
        parts.append(f"with --tokenizer, --wire {of_ids} would give every kind K views")
    return FoundWire(wire, "; ".join(parts), served.base_of(request.model))


def _possible(request: ServerRequest, client: Client, served: ServedModels) -> dict[str, str]:
    """Return the wires that a server may speak, and why.

    Raises:
        ServerError: there is none; the message has what was tried.
    """
    looks = {
        name: client.look(row.path, {"model": request.model}) for name, row in DIALECTS.items()
    }
    url, first = request.urls[0], looks["vllm"]
    if all(look.status is None for look in looks.values()):
        raise ServerError(
            f"{url}: no route answers ({first.problem}); is the server running? If it is, it may "
            "hang up on requests without a question: name its wire, --wire"
        )
    reasons = {}
    for name, look in looks.items():
        row, owner = DIALECTS[name], served.owner
        if not _exists(look, request.model) or (owner, name) == ("sglang", "openai-decisions"):
            continue
        if not row.parameter:
            reasons[name] = f"{row.path} exists"
        elif owner in ("vllm", "sglang"):
            reasons |= {name: f"/v1/models says owned_by {name}"} if owner == name else {}
        else:
            page = client.look("/openapi.json")
            if page.status == 200 and f'"{row.parameter}"' in dumps(page.value):
                reasons[name] = f"{row.path} takes {row.parameter}"
    if not reasons:
        raise ServerError(_explain_no_wire(request, looks))
    return reasons


def _explain_no_wire(request: ServerRequest, looks: Mapping[str, Look]) -> str:
    tried = []
    for name, look in looks.items():
        # A route that exists says why this model cannot use it.
        why = error_text(look.value) if look.status == 501 else ""
        answer = look.problem or f"status {look.status}{why and f', {why}'}"
        tried.append(f"{DIALECTS[name].path} ({name}): {answer}")
    key = request.key_variable
    message = "no supported API was detected"
    if any(look.status in (401, 403) for look in looks.values()):
        message = f"the key in {key} is not accepted"
        if key is None:
            message = "a key is wanted; give the key by --api-key-env"
    tries = "; ".join(tried)
    return (
        f"{request.urls[0]}: {message}. Tried: {tries}. If it has one of these, name it by --wire"
    )


def _exists(look: Look, model: str) -> bool:
    """Return whether a route exists: it refuses the request as incomplete, or knows no such model.

    A status of 404 that names the model is about the model and not about the route.
    """
    if look.status == 404:
        text = dumps(look.value)
        return model in text and "model" in text.lower()
    return look.status in (200, 400, 413, 415, 422, 500)
