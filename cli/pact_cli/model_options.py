"""Options for what answers: a model here, or one on a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from pact_cli.options import PATH, Command, gathered, number
from pact_eval.errors import AdapterError
from pact_eval.models import check_quantisation
from pact_eval.scoring.servers.request import WIRES, ServerRequest
from pact_eval.scoring.workers.request import WorkersRequest

if TYPE_CHECKING:
    from pact_eval.scoring.request import ModelRequest

_DTYPES = ["auto", "fp32", "bf16", "fp16", "float32", "bfloat16", "float16"]


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
    click.argument("adapter", type=PATH, required=False),
    click.option(
        "--base-model",
        metavar="PATH_OR_ID",
        help="Folder or hub id (organisation/name) of the base model. Default: the one that "
        "the adapter names. Only a hub id uses the network.",
    ),
    click.option(
        "--no-adapter",
        is_flag=True,
        help="Score the base model alone, without the adapter.",
    ),
    click.option(
        "--device",
        type=click.Choice(["auto", "cpu", "cuda"]),
        default="auto",
        show_default=True,
        help="Device that runs the model; auto takes CUDA if it is available.",
    ),
    click.option(
        "--dtype",
        type=click.Choice(_DTYPES),
        default="auto",
        show_default=True,
        help="Precision of the model; auto is fp32 on a CPU, bf16 on CUDA.",
    ),
    click.option(
        "--batch-tokens",
        type=click.IntRange(min=1),
        help="Tokens per forward pass, padding included; halved if memory runs out. "
        "Default: 4096 on a CPU, 32768 on CUDA.",
    ),
    click.option(
        "--engine",
        type=click.Choice(["auto", "fork", "batched", "naive"]),
        default="auto",
        show_default=True,
        help="Engine: fork computes shared prefixes once, batched pads full prompts, naive runs "
        "one prompt at a time; auto takes the first one that works and agrees with naive.",
    ),
    click.option(
        "--merge",
        is_flag=True,
        help="Add the adapter to the weights before scoring. This is faster; the run records how "
        "much it changes the logits.",
    ),
    click.option(
        "--quantize",
        metavar="nf4",
        callback=_quantize,
        help="Store the linear layers of the base model in four bits (NF4 with double "
        "quantisation, computed in bf16). Every output shows it with the name of the run. Needs "
        "the extra `quantize`.",
    ),
    click.option(
        "--contract",
        metavar="NAME_OR_PATH",
        help="Prompt contract: nimble, generic (the prompt that transformers gives any chat "
        "model), or a folder or JSON file with a decision template of transformers. Default: the "
        "one that the folders state, else nimble.",
    ),
    click.option(
        "--allow-contract-mismatch",
        is_flag=True,
        help="Score an adapter that was trained on another prompt contract, tokenizer or chat "
        "template; the run records it.",
    ),
]

_SERVER: Final = [
    click.option(
        "--server",
        metavar="URL",
        multiple=True,
        help="Address of a server that answers instead of a model here, such as "
        "http://127.0.0.1:8000. Give several for replicas of one server.",
    ),
    click.option(
        "--model", "model_name", metavar="NAME", help="Name of the model, as the server knows it."
    ),
    click.option(
        "--wire",
        type=click.Choice(WIRES),
        default="auto",
        show_default=True,
        help="Format of requests and answers; auto asks the server: vllm or sglang if the "
        "tokenizer is known, then systemone, then openai-decisions.",
    ),
    click.option(
        "--api-key-env",
        "key_variable",
        metavar="VARIABLE",
        help="Environment variable with the API key. The key is neither stored nor shown.",
    ),
    click.option(
        "--concurrency",
        type=click.IntRange(1, 256),
        default=8,
        show_default=True,
        help="Requests under way at the same time.",
    ),
    click.option(
        "--requests-per-minute",
        type=click.FloatRange(min=0, min_open=True),
        callback=number,
        help="Limit on the rate of requests. Default: none.",
    ),
    click.option(
        "--timeout",
        "timeout_seconds",
        type=click.FloatRange(min=0, min_open=True),
        callback=number,
        default=120.0,
        show_default=True,
        help="Most time for one try in seconds, from the connection to the last byte; five times "
        "as long until the first reply.",
    ),
    click.option(
        "--score-views",
        is_flag=True,
        help="Show the levels of scores in other orders too. On servers that number the levels, "
        "this asks another question.",
    ),
    click.option(
        "--base-name",
        metavar="NAME",
        help="Name of the base model on the server: check that the adapter is applied.",
    ),
    click.option(
        "--local",
        metavar="ADAPTER",
        type=PATH,
        help="Adapter folder that the server should serve: compare both on a few prompts. Needs "
        "the extra `model`.",
    ),
    click.option(
        "--local-base",
        metavar="PATH_OR_ID",
        help="Base model of --local. Default: the one that the adapter names.",
    ),
    click.option(
        "--local-dtype",
        type=click.Choice(_DTYPES),
        default="auto",
        show_default=True,
        help="Precision of the server, for --local; auto tries fp32, then that of the stored "
        "weights.",
    ),
    click.option(
        "--tokenizer",
        metavar="PATH_OR_ID",
        help="Tokenizer of the base model: a folder or a hub id. The wires vllm and sglang need "
        "it. Default: that of --local's base, or that of a server on this machine.",
    ),
]

_WORKERS: Final = [
    click.option(
        "--workers",
        "count",
        metavar="N",
        type=click.IntRange(min=1),
        help="Score with N processes, each with its own copy of the model: one GPU each on CUDA, "
        "or a share of the cores. The rows are those of one process. Needs the extra `ray`.",
    ),
    click.option(
        "--ray",
        "address",
        metavar="ADDRESS",
        help="Score with workers on the Ray cluster that this machine belongs to: host:port, or "
        "auto. Without --workers: one worker per GPU, or per machine if there is none.",
    ),
]

_OF_A_PROBE: Final = ("base_name", "local", "local_base", "concurrency")

_SERVER_OF_RUN: Final = [
    *_SERVER,
    click.option(
        "--no-probe",
        "probe",
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

    The command gets `asked`: a `ModelRequest`, or a `ServerRequest` if `--server` is given.
    """
    return gathered("asked", _gatherer(_SERVER_OF_RUN), [*_MODEL, *_SERVER_OF_RUN])(command)


def workers_options(command: Command) -> Command:
    """Add --workers and --ray; the command gets `workers`, None if neither is given."""

    def gather(count: int | None, address: str | None) -> WorkersRequest | None:
        if count is None and address is None:
            return None
        return WorkersRequest(count, address)

    return gathered("workers", gather, _WORKERS)(command)


def model_or_server_to_ask_options(command: Command) -> Command:
    """Add the options for a model here, or on a server that is not scored but asked.

    The command gets `asked`: a `ModelRequest`, or a `ServerRequest` if `--server` is given.
    """
    to_ask = [option for option in _SERVER if _parameter_names([option])[0] not in _OF_A_PROBE]
    return gathered("asked", _gatherer(to_ask), [*_MODEL, *to_ask])(command)


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
    given = [
        parameter.opts[0] if isinstance(parameter, click.Option) else "ADAPTER"
        for parameter in context.command.params
        if parameter.name in names
        and context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    ]
    if given:
        message = f"{', '.join(given)}: cannot be used with {use}"
        raise click.UsageError(message)


def _parameter_names(options: Sequence[Callable[[Any], Any]]) -> tuple[str, ...]:
    """Return the names that the parameters of options have in the command."""

    def holder() -> None: ...

    for option in options:
        option(holder)
    parameters: list[click.Parameter] = getattr(holder, "__click_params__", [])
    return tuple(str(parameter.name) for parameter in parameters)


def _server_request(
    server: tuple[str, ...], model_name: str | None, **options: Any
) -> ServerRequest:
    if model_name is None:
        message = "--server: expected --model NAME, as the server knows it"
        raise click.UsageError(message)
    return ServerRequest(urls=server, model=model_name, **options)


def _model_request(
    adapter: Path | None, base_model: str | None, *, no_adapter: bool, merge: bool, **options: Any
) -> ModelRequest:
    if merge and no_adapter:
        message = "--merge adds the adapter to the weights, --no-adapter leaves it out"
        raise click.UsageError(message)
    if adapter is None and not (no_adapter and base_model):
        message = "expected ADAPTER, or --base-model with --no-adapter for a base model alone"
        raise click.UsageError(message)
    from pact_eval.scoring.request import ModelRequest

    return ModelRequest(
        adapter=adapter,
        base_model=base_model,
        apply_adapter=not no_adapter,
        merge=merge,
        **options,
    )
