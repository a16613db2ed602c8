"""`pact-eval decide`: answer one request of several fields."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pact_cli.choices import contract_remarks
from pact_cli.commands import COUNT, command, option
from pact_cli.console import announce, emit
from pact_cli.errors import needs_model_extra
from pact_cli.model_options import model_or_server_to_ask_options
from pact_cli.options import PATH, json_option, order_seed_option
from pact_eval.scoring.request import server_extra

if TYPE_CHECKING:
    from pact_eval._json import Json
    from pact_eval.data.records import Field
    from pact_eval.scoring.request import ModelRequest
    from pact_eval.scoring.servers.request import ServerRequest

_K_OF_A_SERVER = 4


@command(loads=("pact_eval.prompts.encoding",))
@option(
    "--context",
    group="Data",
    required=True,
    metavar="FILE_OR_TEXT",
    help="The context: a file (a .json file is read as JSON), or the text itself.",
)
@option(
    "--schema",
    group="Data",
    required=True,
    type=PATH,
    help="JSON file of questions by field name.",
)
@option(
    "--k",
    group="Views",
    type=COUNT,
    help="Number of views to average over. Default: 1; of a server, 4.",
)
@order_seed_option
@option(
    "--as-shipped",
    group="Numbers",
    is_flag=True,
    help="Apply the temperatures that the decision template ships.",
)
@model_or_server_to_ask_options
@json_option
def decide(
    context: str,
    schema: Path,
    k: int | None,
    order_seed: int,
    as_shipped: bool,
    request: ModelRequest | ServerRequest,
    as_json: bool,
) -> None:
    """Answer every field of one request.

    ADAPTER is a LoRA folder as PEFT writes it, or a hub id. Without an adapter, give --base-model
    and --no-adapter. With --server and --model, a server answers; each field is asked in K orders
    of its answers, and five times in the first: what the order moves is shown beside noise.
    """
    from pact_eval.prompts.requests import read_context, read_schema
    from pact_eval.scoring.servers.request import ServerRequest

    state, fields = read_context(context), read_schema(schema)
    if isinstance(request, ServerRequest):
        if as_shipped:
            message = "--as-shipped: a server applies its own temperatures"
            raise click.UsageError(message)
        _by_server(request, state, fields, k or _K_OF_A_SERVER, order_seed, as_json)
    else:
        remaining = {"as_shipped": as_shipped, "as_json": as_json}
        _by_model(request, state, fields, k or 1, order_seed, **remaining)


def _by_model(
    model: ModelRequest,
    state: Json,
    fields: tuple[Field, ...],
    k: int,
    order_seed: int,
    *,
    as_shipped: bool,
    as_json: bool,
) -> None:
    with needs_model_extra():
        from pact_eval.scoring.contracts import shipped_temperatures
        from pact_eval.scoring.decide import decide as decide_request
        from pact_eval.scoring.model import identify
        from pact_eval.scoring.quantisation import quantisation_remarks
    from pact_reports.views.servers import present_decide

    loaded = identify(model).load()
    source = loaded.source
    announce([*contract_remarks(source), *quantisation_remarks(source.quantisation)])
    temperatures = shipped_temperatures(loaded.source.contract) if as_shipped else None
    decisions = decide_request(
        loaded, state, fields, k=k, order_seed=order_seed, temperatures=temperatures
    )
    emit(present_decide(decisions), as_json=as_json)


def _by_server(
    server: ServerRequest,
    state: Json,
    fields: tuple[Field, ...],
    k: int,
    order_seed: int,
    as_json: bool,
) -> None:
    with server_extra():
        from pact_eval.scoring.servers.decide import decide_served
    from pact_reports.views.servers import present_served_decisions

    served = decide_served(server, state, fields, k=k, order_seed=order_seed)
    emit(present_served_decisions(served), as_json=as_json)
