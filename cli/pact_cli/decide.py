"""`pact-eval decide`: answer one request of several fields."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pact_cli.commands import command, refuse
from pact_cli.console import announce, emit
from pact_cli.errors import needs_model_extra
from pact_cli.model_options import (
    contract_remarks,
    dtype_remarks,
    model_or_server_to_ask_options,
    with_allowed,
)
from pact_cli.options import ContractAllow, OrderSeed
from pact_cli.param_types import Count
from pact_eval.errors import server_extra
from pact_eval.prompts.requests import read_context, read_schema
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.servers.wire import ServerRequest
from pact_reports.views.servers import present_decide, present_served_decisions

_K_OF_A_SERVER: Final = 4


@command(
    more=(
        *("order_seed", "dtype", "quantize", "contract", "allow", "wire", "api_key_env"),
        "tokenizer",
    ),
    settings=(
        *("batch_tokens", "engine", "attention", "merge", "requests_per_minute", "timeout"),
        "score_views",
    ),
)
@model_or_server_to_ask_options
def decide(
    *,
    context: str,
    schema: Path,
    k: Count | None = None,
    order_seed: OrderSeed = 0,
    as_shipped: bool = False,
    allow: ContractAllow = (),
    request: ModelRequest | ServerRequest,
) -> None:
    """Answer every field of one request.

    ADAPTER is a LoRA folder as PEFT writes it, or a hub id. Without an adapter, give --base-model
    and --no-adapter. With --server and --model, a server answers; each field is asked in N orders
    of its answers, and five times in the first: what the order moves is shown beside noise.

    Data:
        --context FILE_OR_TEXT: The context: a file (a .json file is read as JSON), or the text
            itself.
        --schema: JSON file of questions by field name.

    Views:
        --k: Number of orders of the answers to average over. Default: 1; of a server, 4.

    Numbers:
        --as-shipped: Apply the temperatures that the decision template ships.
    """
    request = with_allowed(request, allow)
    state, fields = read_context(context), read_schema(schema)
    if isinstance(request, ServerRequest):
        refuse(as_shipped, "--as-shipped: a server applies its own temperatures")
        with server_extra():
            from pact_eval.scoring.servers.decide import decide_served

        served = decide_served(request, state, fields, k=k or _K_OF_A_SERVER, order_seed=order_seed)
        emit(present_served_decisions(served))
        return
    with needs_model_extra():
        from pact_eval.scoring.contracts import shipped_temperatures
        from pact_eval.scoring.decide import decide as decide_request
        from pact_eval.scoring.model import identify
        from pact_eval.scoring.quantisation import quantisation_remarks

    loaded = identify(request).load()
    source = loaded.source
    announce([*contract_remarks(source), *dtype_remarks(source)])
    announce(quantisation_remarks(source.quantisation))
    temperatures = shipped_temperatures(source.contract) if as_shipped else None
    decisions = decide_request(
        loaded, state, fields, k=k or 1, order_seed=order_seed, temperatures=temperatures
    )
    emit(present_decide(decisions))
