"""Choice of the tokenizer of prompts that are sent as token ids.

In this order: the one that the user names, that of the base model of `--local`, and, of a server on
this machine, that of the folder which the server says it has loaded.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pact_eval.errors import AdapterError, ContractMismatchError, PromptError, missing_extra
from pact_eval.hub.names import model_name
from pact_eval.models.hub_adapters import model_folder
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.servers.request import ServerRequest, is_loopback
from pact_eval.scoring.servers.served import ServedModels

_FILES: Final = ("tokenizer*", "*.json", "*.jinja", "vocab.txt", "merges.txt", "*.model")


@dataclass(frozen=True)
class PromptSource:
    """Source of prompts.

    Attributes:
        encoder: makes them.
        why: which tokenizer it has.
    """

    encoder: Encoder
    why: str


def find_encoder(request: ServerRequest, served: ServedModels) -> PromptSource | None:
    """Return the encoder for prompts that are sent as token ids; None if no tokenizer is known.

    Args:
        request: names a tokenizer or a local adapter.
        served: what the server lists.

    Raises:
        MissingExtraError: a tokenizer is known, and transformers is not installed.
        AdapterError: the tokenizer or the local adapter cannot be read.
        PromptError: the tokenizer cannot render the contract.
    """
    try:
        if request.tokenizer is not None:
            return PromptSource(_encoder(request.tokenizer), f"tokenizer {request.tokenizer}")
        if request.local is not None:
            return _of_local(request)
        return _of_server(request, served)
    except ModuleNotFoundError as error:
        purpose, otherwise = "a prompt as token ids", "--wire systemone if the server speaks it"
        raise missing_extra(purpose, str(error.name), "model", otherwise) from error


def _of_server(request: ServerRequest, served: ServedModels) -> PromptSource | None:
    """Return the tokenizer that a server on this machine has loaded; None if it cannot be used."""
    folder = served.folder_of(request.model)
    if folder is None or not all(map(is_loopback, request.urls)):
        return None
    # Not Path.is_dir, which raises an error for a name that is too long.
    if not os.path.isabs(folder) or not os.path.isdir(folder):  # noqa: PTH112, PTH117
        return None
    try:
        return PromptSource(_encoder(folder), f"tokenizer of the server, {folder}")
    except (AdapterError, PromptError):  # nobody has asked for it
        return None


def _of_local(request: ServerRequest) -> PromptSource:
    from pact_eval.scoring.model import identify  # needs torch
    from pact_eval.scoring.request import ModelRequest

    encoder = identify(ModelRequest(request.local, request.local_base), may_differ=False).encoder
    if encoder.contract is not NIMBLE:
        message = (
            f"{request.local}: its contract is {encoder.contract.label}; a server of this wire "
            f"gets prompts of {NIMBLE.label}"
        )
        raise ContractMismatchError(message)
    return PromptSource(encoder, f"tokenizer of {request.local}")


def _encoder(name: str) -> Encoder:
    """Return the encoder with the tokenizer of a folder or a hub id."""
    from pact_eval.scoring.tokenizer import load_tokenizer, longest_prompt

    folder, hub_name = Path(name), model_name(name)
    if not folder.is_dir() and hub_name is not None:
        folder = model_folder(hub_name, _FILES)
    tokenizer = load_tokenizer(folder)
    limit = longest_prompt(folder, {}) if (folder / "config.json").exists() else None
    return Encoder(tokenizer, NIMBLE, limit)
