"""Options for the model that answers: a local one, or one on a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import click

from pact_cli.commands import gathered, given, parameters_of, refuse
from pact_cli.param_types import AdapterPath, Count, Parsed, Positive, WholeNumber
from pact_cli.places import resolve_adapter
from pact_eval.errors import AdapterError
from pact_eval.models import check_quantisation, refuse_other_folder
from pact_eval.scoring.request import DEVICES, AttentionName, DtypeName, EngineName, ModelRequest
from pact_eval.scoring.servers.wire import MOST_CONCURRENT, ServerRequest, WireName
from pact_eval.scoring.workers.messages import WorkersRequest

if TYPE_CHECKING:  # it loads torch
    from pact_eval.scoring.model import ScoringModel


def _quantisation(name: str) -> str:
    """Refuse other methods with the reason; torch is not loaded for that."""
    check_quantisation(name)
    return name


def make_model(
    adapter: AdapterPath | None = None,
    *,
    base_model: str | None = None,
    no_adapter: bool = False,
    device: Annotated[str, click.Choice(DEVICES)] = "auto",
    dtype: DtypeName = "auto",
    batch_tokens: Count | None = None,
    engine: EngineName = "auto",
    attention: AttentionName = "auto",
    merge: bool = False,
    quantize: Annotated[str, Parsed(_quantisation)] | None = None,
    contract: str | None = None,
) -> ModelRequest:
    """Return the request to score a model here.

    Model:
        --base-model PATH_OR_ID: Folder or hub id (organisation/name, with @revision or not) of the
            base model. Default: the one that the adapter names. Only a hub id uses the network.
        --no-adapter: Score the base model alone, without the adapter.
        --merge: Add the adapter to the weights before scoring. This is faster; the run records how
            much it changes the logits.
        --quantize nf4: Store the linear layers of the base model in four bits (NF4 with double
            quantisation, computed in bf16). Every output shows it with the name of the run. Needs
            the extra `quantize`.
        --contract NAME_OR_PATH: Prompt contract: nimble, generic (the prompt that transformers
            gives any chat model), plain (nimble without a chat template), or a folder or JSON file
            with a decision template of transformers. Default: the one that the folders state, else
            nimble.

    Speed:
        --device: Device that runs the model; auto takes the accelerator that torch offers here, or
            else the CPU.
        --dtype: Precision of the model; auto keeps that of a run. A new one has bf16 on CUDA, and
            on a CPU with AMX or AVX-512 for bf16, from 100 million parameters; fp32 elsewhere.
        --batch-tokens: Tokens per forward pass, padding included; halved if memory runs out.
            Default: 4096 on a CPU, 32768 on other devices.
        --engine: Engine: fork computes shared prefixes once, batched pads full prompts, naive runs
            one prompt at a time; auto takes the first one that works and agrees with naive.
        --attention: Kernel of attention on a CPU: torch's fused one, or explicit products; auto
            takes the faster one of a probe. Logits differ by rounding only.
    """
    refuse(
        adapter is None and not (no_adapter and base_model),
        "expected ADAPTER, or --base-model with --no-adapter for a base model alone, or --server "
        "URL and --model NAME",
    )
    try:
        if adapter is not None:
            refuse_other_folder(adapter)
        request = ModelRequest(
            adapter=adapter,
            base_model=base_model,
            apply_adapter=not no_adapter,
            device=device,
            dtype=dtype,
            batch_tokens=batch_tokens,
            engine=engine,
            attention=attention,
            merge=merge,
            contract=contract,
            quantize=quantize,
        )
    except AdapterError as error:
        raise click.UsageError(str(error)) from None
    return request if adapter is None else replace(request, adapter=resolve_adapter(adapter).folder)


def make_server(
    *,
    server: tuple[str, ...] = (),
    model: str | None = None,
    wire: WireName = "auto",
    api_key_env: str | None = None,
    concurrency: Annotated[int, WholeNumber(1, MOST_CONCURRENT)] = ServerRequest.concurrency,
    requests_per_minute: Positive | None = None,
    timeout: Positive = ServerRequest.timeout_seconds,
    score_views: bool = False,
    base_name: str | None = None,
    local: AdapterPath | None = None,
    local_base: str | None = None,
    local_dtype: DtypeName = "auto",
    tokenizer: str | None = None,
    probe: bool = True,
) -> ServerRequest:
    """Return the request to ask a server.

    Server:
        --server URL: Address of a server that answers instead of a model here, such as
            http://127.0.0.1:8000. Give several for replicas of one server.
        --model NAME: Name of the model, as the server knows it.
        --wire: Format of requests and answers; auto asks the server: vllm or sglang if the
            tokenizer is known, then systemone, then openai-decisions.
        --api-key-env VARIABLE: Environment variable with the API key. The key is neither stored nor
            shown.
        --concurrency: Requests under way at the same time.
        --requests-per-minute: Limit on the rate of requests. Default: none.
        --timeout: Most time for one try in seconds, from the connection to the last byte; five
            times as long until the first reply.
        --score-views: Show the levels of scores in other orders too. On servers that number the
            levels, this asks another question.
        --base-name NAME: Name of the base model on the server: check that the adapter is applied.
        --local ADAPTER: Adapter (folder or hub id) or base model (folder) that the server should
            serve: compare both on a few prompts. Needs the extra `model`.
        --local-base PATH_OR_ID: Base model of --local. Default: the one that the adapter names.
        --local-dtype: Precision of the server, for --local; auto tries fp32, then that of the
            stored weights.
        --no-probe: Do not probe the server before the run (see --probe).

    Model:
        --tokenizer PATH_OR_ID: Tokenizer of the base model: a folder or a hub id. The wires vllm
            and sglang need it. Default: that of --local's base, or that of a server on this
            machine.
    """
    refuse(not server, "expected --server URL")
    if model is None:
        raise click.UsageError("--server: expected --model NAME, as the server knows it")
    return ServerRequest(
        urls=server,
        model=model,
        wire=wire,
        key_variable=api_key_env,
        concurrency=concurrency,
        requests_per_minute=requests_per_minute,
        timeout_seconds=timeout,
        score_views=score_views,
        base_name=base_name,
        local=None if local is None else resolve_adapter(local).folder,
        local_base=local_base,
        local_dtype=local_dtype,
        tokenizer=tokenizer,
        probe=probe,
    )


def make_workers(*, workers: Count | None = None, ray: str | None = None) -> WorkersRequest | None:
    """Return the request for workers; None if neither option is given.

    Speed:
        --workers N: Score with N processes, each with its own copy of the model: one GPU each on
            CUDA, or a share of the cores. The rows are those of one process. Needs the extra `ray`.
        --ray ADDRESS: Score with workers on the Ray cluster that this machine belongs to:
            host:port, or auto. Without --workers: one worker per GPU, or per machine if there is
            none.
    """
    return None if workers is None and ray is None else WorkersRequest(workers, ray)


_MODEL: Final = parameters_of(make_model)
_SERVER: Final = parameters_of(make_server)
_OF_A_RUN: Final = ("base_name", "local", "local_base", "local_dtype", "concurrency", "probe")


def _without(names: Sequence[str]) -> list[click.Parameter]:
    return [parameter for parameter in _SERVER if parameter.name not in names]


def _make_request(
    of_server: Sequence[click.Parameter], /, **values: Any
) -> ModelRequest | ServerRequest:
    """Return the request for a model here, or on a server if `--server` is given."""
    asked = {str(parameter.name): values.pop(parameter.name) for parameter in of_server}
    is_served = bool(asked["server"])
    refused = given(values if is_served else asked)
    use = "--server" if is_served else "an adapter or base model (give --server)"
    refuse(refused, f"{', '.join(refused)}: cannot be used with {use}")
    return make_server(**asked) if is_served else make_model(**values)


model_or_server_options = gathered("request", partial(_make_request, _SERVER), [*_MODEL, *_SERVER])
"""Add the options for a model here or on a server, which the command gets as `request`."""

_TO_ASK: Final = _without(_OF_A_RUN)
model_or_server_to_ask_options = gathered(
    "request", partial(_make_request, _TO_ASK), [*_MODEL, *_TO_ASK]
)
"""Add the options for a model here, or on a server that is not scored but asked."""

workers_options = gathered("workers", make_workers)
"""Add --workers and --ray; the command gets `workers`, None if neither is given."""


def with_allowed(request: ModelRequest | ServerRequest, allow: Sequence[str]) -> Any:
    """Return the request, which accepts another prompt contract if `--allow` says so.

    Raises:
        click.UsageError: there is no contract here, because a server makes the prompts.
    """
    if "other-contract" not in allow:
        return request
    if isinstance(request, ServerRequest):
        raise click.UsageError(
            "--allow other-contract is for an adapter here; a server makes its own prompts"
        )
    return replace(request, allow_contract_mismatch=True)


def contract_remarks(model: ScoringModel) -> tuple[str, ...]:
    """Return what to say of the contract of a model: nothing of the usual one that it states."""
    contract, remark = model.contract, model.recorded_contract.remark
    remarks = () if contract.name == "nimble" else (f"Contract: {contract.label}",)
    return remarks if remark is None else (*remarks, f"{contract.name}: {remark}")


def dtype_remarks(model: ScoringModel) -> tuple[str, ...]:
    """Return the precision that auto took and why; nothing of one that the user named."""
    if model.why_dtype is None:
        return ()
    dtype = str(model.dtype).removeprefix("torch.")
    return (f"Precision: {dtype} ({model.why_dtype}); --dtype chooses another one",)
