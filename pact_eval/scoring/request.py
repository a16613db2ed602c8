"""Request to score a model. It needs no torch: a wrong path is found before torch is loaded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypedDict, get_args

from pact_eval._choices import check_choice
from pact_eval.data.labelled.reading import ReadingOptions
from pact_eval.errors import AdapterError, InputError, ServerError
from pact_eval.models import find_adapter, is_base_alone
from pact_eval.scoring.servers.wire import ServerRequest, WireName
from pact_eval.templates.files import is_decision_model

EngineName = Literal["auto", "fork", "batched", "naive"]
"""Names of engines; auto is the first of the others that works with the model."""


DtypeName = Literal["auto", "fp32", "bf16", "fp16", "float32", "bfloat16", "float16"]
"""Names of precisions; auto is that of the device."""

KernelName = Literal["fused", "products"]
"""Names of the kernels that attend to shared prefixes on a CPU."""

AttentionName = Literal["auto", KernelName]
"""Names of kernels that a user may choose; auto is the faster one of a probe."""

DEVICES: Final = ("auto", "cpu", "cuda", "mps", "xpu")
"""Devices that a user may choose; auto is the accelerator that torch offers, or else the CPU."""


@dataclass(frozen=True)
class ModelRequest:
    """Model to score, and settings, as the user requested them.

    Attributes:
        adapter: adapter folder, or a full decision model of transformers; None for a base model
            alone.
        base_model: folder or hub id; None takes the one that the adapter names.
        apply_adapter: False scores the base model that the adapter names.
        device: one of `DEVICES`.
        dtype: precision of weights and computation.
        batch_tokens: tokens per pass, padding included; None takes the device's default.
        allow_contract_mismatch: score an adapter that was trained on another prompt contract,
            tokenizer or chat template.
        engine: name of the engine; auto takes the fastest one that agrees with the plain forward
            pass.
        attention: kernel that attends to shared prefixes on a CPU; auto takes the faster one of a
            probe, and a resumed run the one that it has recorded.
        merge: add the adapter to the weights before scoring, and record how much logits change.
        contract: prompt contract: "nimble", "generic", "plain", or a folder or JSON file with a
            decision template; None takes the one that the files state.
        quantize: "nf4" stores the linear layers of the base in four bits; see `quantisation`.

    Raises:
        AdapterError: there is no adapter to add to the weights, or a pass has no token.
    """

    adapter: Path | None
    base_model: str | None = None
    apply_adapter: bool = True
    device: str = "auto"
    dtype: DtypeName = "auto"
    batch_tokens: int | None = None
    allow_contract_mismatch: bool = False
    engine: EngineName = "auto"
    attention: AttentionName = "auto"
    merge: bool = False
    contract: str | None = None
    quantize: str | None = None

    def __post_init__(self) -> None:
        if self.merge and (self.adapter is None or not self.apply_adapter):
            raise AdapterError("merge adds the adapter to the weights, --no-adapter leaves it out")
        if self.batch_tokens is not None and self.batch_tokens < 1:
            raise AdapterError(f"--batch-tokens: expected at least 1, got {self.batch_tokens}")


class ModelOptions(TypedDict, total=False):
    """Fields of `ModelRequest`, which documents them."""

    device: str
    dtype: DtypeName
    batch_tokens: int | None
    allow_contract_mismatch: bool
    engine: EngineName
    attention: AttentionName
    merge: bool
    contract: str | None
    quantize: str | None


class ServerOptions(TypedDict, total=False):
    """Fields of `ServerRequest`, which documents them; `timeout` is in seconds.

    `model` is required, `api_key_env` is the environment variable with the key, and `no_probe`
    starts without a probe of the server.
    """

    model: str
    wire: WireName
    api_key_env: str | None
    concurrency: int
    requests_per_minute: float | None
    timeout: float
    score_views: bool
    base_name: str | None
    local: Path | str | None
    local_base: str | None
    local_dtype: DtypeName
    tokenizer: str | None
    no_probe: bool


class ScoreOptions(ModelOptions, ServerOptions, ReadingOptions, total=False):
    """Options for a model here or that of a server, and for labelled data."""


_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "device": DEVICES,
    "dtype": get_args(DtypeName),
    "engine": get_args(EngineName),
    "attention": get_args(AttentionName),
    "wire": get_args(WireName),
    "local_dtype": get_args(DtypeName),
}
_FIELDS: Final = {"api_key_env": "key_variable", "timeout": "timeout_seconds"}


def request_of(
    *,
    adapter: Path | str | None = None,
    base_model: str | None = None,
    no_adapter: bool = False,
    server: str | Sequence[str] | None = None,
    options: ScoreOptions | None = None,
) -> ModelRequest | ServerRequest:
    """Return the request for a model here, or for the model of a server.

    Args:
        adapter: adapter folder, or hub id `owner/name[@revision]`; None for a base model alone.
        base_model: folder or hub id; None takes what the adapter names.
        no_adapter: whether the base that the adapter names is scored alone.
        server: address of a server, or those of its replicas; None for a model here.
        options: further options of either.

    Raises:
        InputError: an option belongs to the other of the two, or does not go with another option.
        ServerError: the name of the model is missing, or an address is not one.
        TypeError: there is no such option.
    """
    values: dict[str, Any] = dict(options or {})
    for name, choices in _CHOICES.items():
        check_choice(f"--{name.replace('_', '-')}", values.get(name), choices)
    of_server = {name: values.pop(name) for name in ServerOptions.__annotations__ if name in values}
    if server is None:
        _refuse(of_server, "an adapter or base model, only with --server")
        return ModelRequest(
            adapter=None if adapter is None else find_adapter(adapter).folder,
            base_model=base_model,
            apply_adapter=adapter is not None and not no_adapter,
            **values,
        )
    of_model = {"adapter": adapter, "base_model": base_model, "no_adapter": no_adapter or None}
    chosen = [name for name, value in of_model.items() if value is not None]
    _refuse([*chosen, *values], "--server")
    if of_server.get("model") is None:
        raise ServerError("--server: expected --model NAME, as the server knows it")
    settings = {_FIELDS.get(name, name): value for name, value in of_server.items()}
    probe = not settings.pop("no_probe", False)
    if settings.get("local") is not None:
        settings["local"] = find_adapter(settings["local"]).folder
    urls = (server,) if isinstance(server, str) else tuple(server)
    return ServerRequest(urls=urls, probe=probe, **settings)


def request_of_local(request: ServerRequest) -> ModelRequest:
    """Return the request for the model here that a server is compared with.

    Args:
        request: names an adapter, or a base model alone.

    Raises:
        AdapterError: a base model is named, and another one for it.
        ServerError: no local model is named.
    """
    if request.local is None:
        raise ServerError("expected --local, a model here to compare the server with")
    if not is_base_alone(request.local) or is_decision_model(request.local):
        return ModelRequest(request.local, request.local_base)
    if request.local_base is not None:
        message = f"{request.local}: a base model (config.json); --local-base gives another one"
        raise AdapterError(message)
    return ModelRequest(None, str(request.local), apply_adapter=False)


def _refuse(names: Collection[str], use: str) -> None:
    """Refuse options that have no meaning with a use."""
    if names:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in names)
        raise InputError(f"{options}: cannot be used with {use}")
