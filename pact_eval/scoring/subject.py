"""What is scored: a base model with or without an adapter, identified before it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from pact_eval._files import sha256_of_file
from pact_eval._json import Json
from pact_eval.errors import AdapterError, ContractMismatchError
from pact_eval.models import AdapterFiles, read_adapter_files, read_json_object
from pact_eval.prompts import NIMBLE, Encoder, NimbleContract
from pact_eval.scoring.allocator import keep_freed_memory
from pact_eval.scoring.engine import Engine, EngineName
from pact_eval.scoring.loading import (
    BaseModel,
    attach_adapter,
    load_base,
    resolve_base,
    resolve_device,
    resolve_dtype,
)
from pact_eval.scoring.tokenizer import load_tokenizer

__all__ = ["LoadedSubject", "Subject", "SubjectRequest", "identify"]

# Larger batches are not faster on a CPU; a GPU wants to be full.
_BATCH_TOKENS: Final = {"cpu": 4096, "cuda": 32768}


@dataclass(frozen=True)
class SubjectRequest:
    """What the user asks to be scored, and on what.

    Attributes:
        adapter: adapter folder, or None for a base model alone.
        base_model: folder or hub id; None takes what the adapter names.
        apply_adapter: False scores the base model that the adapter names.
        device: auto, cpu or cuda.
        dtype: auto or a name in `loading.DTYPES`.
        batch_tokens: tokens a pass, padding included; None takes the device's default.
        allow_contract_mismatch: score an adapter whose prompt contract is not ours.
        engine: how views pass through the model; auto takes the fastest that the oracle confirms.
        merge: add the adapter to the weights before scoring, and record the drift.
    """

    adapter: Path | None
    base_model: str | None = None
    apply_adapter: bool = True
    device: str = "auto"
    dtype: str = "auto"
    batch_tokens: int | None = None
    allow_contract_mismatch: bool = False
    engine: EngineName = "auto"
    merge: bool = False


@dataclass(frozen=True)
class Subject:
    """A model that is known by its hashes and not loaded yet.

    Attributes:
        adapter: the adapter's files, or None.
        base: the base model on disk.
        contract: the prompt contract that it is scored on.
        contract_mismatch: why the adapter's contract is another one, where that was allowed.
        device: where it will run.
        dtype: in what precision.
        batch_tokens: tokens a pass, padding included.
        encoder: turns records into token ids.
        engine: how views pass through the model.
        merge: whether the adapter is added to the weights before scoring.
    """

    adapter: AdapterFiles | None
    base: BaseModel
    contract: NimbleContract
    contract_mismatch: str | None
    device: torch.device
    dtype: torch.dtype
    batch_tokens: int
    encoder: Encoder
    engine: EngineName = "auto"
    merge: bool = False

    @property
    def settings(self) -> Mapping[str, Json]:
        """What identifies the subject in `run.json`."""
        adapter = self.adapter
        return {
            "adapter": None
            if adapter is None
            else {"sha256": adapter.sha256, "config_sha256": adapter.config_sha256},
            "base": {
                "sha256": self.base.sha256,
                "config_sha256": sha256_of_file(self.base.folder / "config.json"),
                "revision": self.base.revision,
            },
            "prompts_sha256": self.encoder.fingerprint,
            "contract": {
                "name": self.contract.name,
                "fingerprint": self.contract.fingerprint,
                "mismatch": self.contract_mismatch,
            },
            "device": self.device.type,
            "dtype": str(self.dtype).removeprefix("torch."),
            "batch_tokens": self.batch_tokens,
            # Only where they are asked for: runs of earlier versions do not name them.
            **({} if self.engine == "auto" else {"engine": self.engine}),
            **({"merge": True} if self.merge else {}),
        }

    def load(self) -> LoadedSubject:
        """Load the weights; on a CPU, have the process keep the memory that passes free.

        Raises:
            AdapterError: the base or the adapter cannot be loaded, or they do not fit.
        """
        if self.device.type == "cpu":
            keep_freed_memory()
        model = load_base(self.base, self.adapter, self.device, self.dtype)
        if self.adapter is not None:
            model = attach_adapter(model, self.adapter)
        return LoadedSubject(self, model, Engine(model, self.batch_tokens, self.engine))


@dataclass(frozen=True)
class LoadedSubject:
    """A subject with its weights in memory.

    Attributes:
        subject: what it is.
        model: the transformers or PEFT model.
        engine: scores encoded views with it.
    """

    subject: Subject
    model: Any
    engine: Engine

    @property
    def attention(self) -> str:
        """The attention implementation that transformers chose."""
        return str(getattr(self.model.config, "_attn_implementation", "unknown"))


def identify(request: SubjectRequest) -> Subject:
    """Find and check everything about a subject that needs no weights in memory.

    Args:
        request: what the user asked for.

    Returns:
        The subject.

    Raises:
        AdapterError: a folder is missing or cannot be used, or no base model is known.
        ContractMismatchError: the adapter was trained on another prompt contract.
        PromptError: the tokenizer cannot speak the contract.
    """
    files = read_adapter_files(request.adapter) if request.adapter is not None else None
    base = _base_of(request, files)
    mismatch = None
    if files is not None and request.apply_adapter:
        mismatch = _contract_mismatch(files, allowed=request.allow_contract_mismatch)
        _refuse_other_base(files, base)
    device = resolve_device(request.device)
    return Subject(
        adapter=files if request.apply_adapter else None,
        base=base,
        contract=NIMBLE,
        contract_mismatch=mismatch,
        device=device,
        dtype=resolve_dtype(request.dtype, device),
        batch_tokens=request.batch_tokens or _BATCH_TOKENS[device.type],
        encoder=Encoder(load_tokenizer(base.folder), NIMBLE, _max_prompt_tokens(files, base)),
        engine=request.engine,
        merge=request.merge and files is not None and request.apply_adapter,
    )


def _base_of(request: SubjectRequest, files: AdapterFiles | None) -> BaseModel:
    name = request.base_model or (files.base_model if files is not None else None)
    if name is None:
        message = "no base model is known; give --base-model"
        raise AdapterError(message)
    # A revision belongs to the base that the adapter names, not to one given instead.
    named = files is not None and name == files.base_model
    revision = files.base_revision if files is not None and named else None
    start = Path() if request.base_model or request.adapter is None else request.adapter
    return resolve_base(name, start, revision)


def _contract_mismatch(files: AdapterFiles, *, allowed: bool) -> str | None:
    try:
        if files.schema_config is None:
            message = "it has no schema_config.json, so its prompt contract is unknown"
            raise ContractMismatchError(message)
        NIMBLE.check_adapter(files.schema_config)
    except ContractMismatchError as error:
        if allowed:
            return str(error)
        message = f"{files.folder}: {error}; --allow-contract-mismatch scores it all the same"
        raise ContractMismatchError(message) from None
    return None


def _refuse_other_base(files: AdapterFiles, base: BaseModel) -> None:
    config = files.schema_config or {}
    wanted = config.get("base_weights_sha256")
    if wanted is not None and wanted != base.sha256:
        message = (
            f"{files.folder}: the adapter is for another base: its schema_config.json names "
            f"weights with SHA-256 {wanted}, {base.folder} has {base.sha256}"
        )
        raise AdapterError(message)


def _max_prompt_tokens(files: AdapterFiles | None, base: BaseModel) -> int:
    """The contract's limit, or the adapter's own; never more than the base has positions."""
    adapter = (files.schema_config if files is not None else None) or {}
    config = read_json_object(base.folder / "config.json")
    text_config = config.get("text_config")
    text = text_config if isinstance(text_config, dict) else config
    limits = [adapter.get("max_length"), text.get("max_position_embeddings")]
    usable = [n for n in limits if isinstance(n, int) and not isinstance(n, bool) and n > 0]
    if limits[0] not in usable:
        usable.append(NIMBLE.max_prompt_tokens)
    return min(usable)
