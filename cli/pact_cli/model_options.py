"""Options for the model that answers: a local one, or one on a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from pact_cli.commands import COUNT, POSITIVE, Command, WholeNumber, choice, option
from pact_cli.hub_places import adapter_here
from pact_cli.options import ADAPTER, gathered
from pact_eval.errors import AdapterError
from pact_eval.models.folders import check_quantisation, refuse_other_folder
from pact_eval.scoring.request import (
    DEVICES,
    AttentionName,
    DtypeName,
    EngineName,
    ModelRequest,
)
from pact_eval.scoring.servers.request import MOST_CONCURRENT, ServerRequest, WireName
from pact_eval.scoring.workers.messages import WorkersRequest


def _quantize(context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    """Refuse other methods with the reason; torch is not loaded for that."""
    if name is not None:
        try:
            check_quantisation(name)
        except AdapterError as error:
            raise click.BadParameter(
                str(error).removeprefix("--quantize: "), context, parameter
            ) from None
    return name


_MODEL: Final = [
    click.argument("adapter", type=ADAPTER, required=False),
    option(
        "--base-model",
        group="Model",
        metavar="PATH_OR_ID",
        help="Folder or hub id (organisation/name, with @revision or not) of the base model. "
        "Default: the one that the adapter names. Only a hub id uses the network.",
    ),
    option(
        "--no-adapter",
        group="Model",
        is_flag=True,
        help="Score the base model alone, without the adapter.",
    ),
    option(
        "--device",
        group="Speed",
        type=click.Choice(DEVICES),
        default="auto",
        show_default=True,
        help="Device that runs the model; auto takes the accelerator that torch offers here, or "
        "else the CPU.",
    ),
    option(
        "--dtype",
        group="Speed",
        type=choice(DtypeName),
        default="auto",
        show_default=True,
        help="Precision of the model; auto is bf16 on CUDA, fp32 elsewhere.",
    ),
    option(
        "--batch-tokens",
        group="Speed",
        type=COUNT,
        help="Tokens per forward pass, padding included; halved if memory runs out. "
        "Default: 4096 on a CPU, 32768 on other devices.",
    ),
    option(
        "--engine",
        group="Speed",
        type=choice(EngineName),
        default="auto",
        show_default=True,
        help="Engine: fork computes shared prefixes once, batched pads full prompts, naive runs "
        "one prompt at a time; auto takes the first one that works and agrees with naive.",
    ),
    option(
        "--attention",
        group="Speed",
        type=choice(AttentionName),
        default="auto",
        show_default=True,
        help="Kernel of attention on a CPU: torch's fused one, or explicit products; auto takes "
        "the faster one of a probe. Logits differ by rounding only.",
    ),
    option(
        "--merge",
        group="Model",
        is_flag=True,
        help="Add the adapter to the weights before scoring. This is faster; the run records how "
        "much it changes the logits.",
    ),
    option(
        "--quantize",
        group="Model",
        metavar="nf4",
        callback=_quantize,
        help="Store the linear layers of the base model in four bits (NF4 with double "
        "quantisation, computed in bf16). Every output shows it with the name of the run. Needs "
        "the extra `quantize`.",
    ),
    option(
        "--contract",
        group="Model",
        metavar="NAME_OR_PATH",
        help="Prompt contract: nimble, generic (the prompt that transformers gives any chat "
        "model), or a folder or JSON file with a decision template of transformers. Default: the "
        "one that the folders state, else nimble.",
    ),
    option(
        "--allow-contract-mismatch",
        group="Model",
        is_flag=True,
        help="Score an adapter that was trained on another prompt contract, tokenizer or chat "
        "template; the run records it.",
    ),
]

_SERVER: Final = [
    option(
        "--server",
        group="Server",
        metavar="URL",
        multiple=True,
        help="Address of a server that answers instead of a model here, such as "
        "http://127.0.0.1:8000. Give several for replicas of one server.",
    ),
    option(
        "--model",
        "model_name",
        group="Server",
        metavar="NAME",
        help="Name of the model, as the server knows it.",
    ),
    option(
        "--wire",
        group="Server",
        type=choice(WireName),
        default="auto",
        show_default=True,
        help="Format of requests and answers; auto asks the server: vllm or sglang if the "
        "tokenizer is known, then systemone, then openai-decisions.",
    ),
    option(
        "--api-key-env",
        "key_variable",
        group="Server",
        metavar="VARIABLE",
        help="Environment variable with the API key. The key is neither stored nor shown.",
    ),
    option(
        "--concurrency",
        group="Server",
        type=WholeNumber(1, MOST_CONCURRENT),
        default=ServerRequest.concurrency,
        show_default=True,
        help="Requests under way at the same time.",
    ),
    option(
        "--requests-per-minute",
        group="Server",
        type=POSITIVE,
        help="Limit on the rate of requests. Default: none.",
    ),
    option(
        "--timeout",
        "timeout_seconds",
        group="Server",
        type=POSITIVE,
        default=ServerRequest.timeout_seconds,
        show_default=True,
        help="Most time for one try in seconds, from the connection to the last byte; five times "
        "as long until the first reply.",
    ),
    option(
        "--score-views",
        group="Server",
        is_flag=True,
        help="Show the levels of scores in other orders too. On servers that number the levels, "
        "this asks another question.",
    ),
    option(
        "--base-name",
        group="Server",
        metavar="NAME",
        help="Name of the base model on the server: check that the adapter is applied.",
    ),
    option(
        "--local",
        group="Server",
        metavar="ADAPTER",
        type=ADAPTER,
        help="Adapter (folder or hub id) that the server should serve: compare both on a few "
        "prompts. Needs the extra `model`.",
    ),
    option(
        "--local-base",
        group="Server",
        metavar="PATH_OR_ID",
        help="Base model of --local. Default: the one that the adapter names.",
    ),
    option(
        "--local-dtype",
        group="Server",
        type=choice(DtypeName),
        default="auto",
        show_default=True,
        help="Precision of the server, for --local; auto tries fp32, then that of the stored "
        "weights.",
    ),
    option(
        "--tokenizer",
        group="Model",
        metavar="PATH_OR_ID",
        help="Tokenizer of the base model: a folder or a hub id. The wires vllm and sglang need "
        "it. Default: that of --local's base, or that of a server on this machine.",
    ),
]

_WORKERS: Final = [
    option(
        "--workers",
        "count",
        group="Speed",
        metavar="N",
        type=COUNT,
        help="Score with N processes, each with its own copy of the model: one GPU each on CUDA, "
        "or a share of the cores. The rows are those of one process. Needs the extra `ray`.",
    ),
    option(
        "--ray",
        "address",
        group="Speed",
        metavar="ADDRESS",
        help="Score with workers on the Ray cluster that this machine belongs to: host:port, or "
        "auto. Without --workers: one worker per GPU, or per machine if there is none.",
    ),
]

_OF_A_PROBE: Final = ("base_name", "local", "local_base", "concurrency")

_SERVER_OF_RUN: Final = [
    *_SERVER,
    option(
        "--no-probe",
        "probe",
        group="Server",
        is_flag=True,
        flag_value=False,
        default=True,
        help="Do not probe the server before the run (see `pact-eval probe`).",
    ),
]


def model_options(command: Command) -> Command:
    """Add the options for a model here; the command gets `model: ModelRequest`."""
    return gathered("model", _model_request, _MODEL)(command)


def model_or_server_options(command: Command) -> Command:
    """Add the options for a model here or on a server.

    The command gets `request`: a `ModelRequest`, or a `ServerRequest` if `--server` is given.
    """
    return gathered("request", _gatherer(_SERVER_OF_RUN), [*_MODEL, *_SERVER_OF_RUN])(command)


def workers_options(command: Command) -> Command:
    """Add --workers and --ray; the command gets `workers`, None if neither is given."""

    def gather(count: int | None, address: str | None) -> WorkersRequest | None:
        if count is None and address is None:
            return None
        return WorkersRequest(count, address)

    return gathered("workers", gather, _WORKERS)(command)


def model_or_server_to_ask_options(command: Command) -> Command:
    """Add the options for a model here, or on a server that is not scored but asked.

    The command gets `request`: a `ModelRequest`, or a `ServerRequest` if `--server` is given.
    """
    to_ask = [option for option in _SERVER if _parameter_names([option])[0] not in _OF_A_PROBE]
    return gathered("request", _gatherer(to_ask), [*_MODEL, *to_ask])(command)


def server_options(command: Command) -> Command:
    """Add the options for a server; the command gets `server: ServerRequest`."""

    def gather(**chosen: Any) -> ServerRequest:
        if not chosen["server"]:
            message = "expected --server URL"
            raise click.UsageError(message)
        return _server_request(**chosen)

    return gathered("server", gather, _SERVER)(command)


def _gatherer(
    server: Sequence[Callable[[Any], Any]],
) -> Callable[..., ModelRequest | ServerRequest]:
    """Return what makes a request of the options for a model here and of those for a server."""

    def gather(**chosen: Any) -> ModelRequest | ServerRequest:
        of_server = {name: chosen.pop(name) for name in _parameter_names(server)}
        if of_server["server"]:
            _refuse_options(_MODEL, "--server")
            return _server_request(**of_server)
        _refuse_options(server, "an adapter or base model (give --server)")
        return _model_request(**chosen)

    return gather


def _refuse_options(options: Sequence[Callable[[Any], Any]], use: str) -> None:
    """Refuse options on the command line that have no meaning with a use."""
    context = click.get_current_context()
    names = _parameter_names(options)
    refused = [
        parameter.opts[0] if isinstance(parameter, click.Option) else "ADAPTER"
        for parameter in context.command.params
        if parameter.name in names
        and context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    ]
    if refused:
        message = f"{', '.join(refused)}: cannot be used with {use}"
        raise click.UsageError(message)


def _parameter_names(options: Sequence[Callable[[Any], Any]]) -> tuple[str, ...]:
    """Return the names that the parameters of options have in the command."""

    def holder() -> None: ...

    for add in options:
        add(holder)
    parameters: list[click.Parameter] = getattr(holder, "__click_params__", [])
    return tuple(str(parameter.name) for parameter in parameters)


def _server_request(
    server: tuple[str, ...], model_name: str | None, **options: Any
) -> ServerRequest:
    if model_name is None:
        message = "--server: expected --model NAME, as the server knows it"
        raise click.UsageError(message)
    if options.get("local") is not None:
        options["local"] = adapter_here(options["local"]).folder
    return ServerRequest(urls=server, model=model_name, **options)


def _model_request(
    adapter: Path | None, base_model: str | None, *, no_adapter: bool, **options: Any
) -> ModelRequest:
    if adapter is None and not (no_adapter and base_model):
        message = "expected ADAPTER, or --base-model with --no-adapter for a base model alone"
        raise click.UsageError(message)
    try:
        if adapter is not None:
            refuse_other_folder(adapter)
        request = ModelRequest(
            adapter=adapter, base_model=base_model, apply_adapter=not no_adapter, **options
        )
    except AdapterError as error:
        raise click.UsageError(str(error)) from None
    return request if adapter is None else replace(request, adapter=adapter_here(adapter).folder)
