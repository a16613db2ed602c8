"""`pact-eval probe`: a short examination of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pact_cli.commands import command
from pact_cli.console import emit
from pact_cli.model_options import server_options
from pact_cli.options import json_option
from pact_eval.errors import GateError
from pact_eval.scoring.request import server_extra

if TYPE_CHECKING:
    from pact_eval.scoring.servers.request import ServerRequest


@command()
@server_options
@json_option
def probe(server: ServerRequest, as_json: bool) -> None:
    """Say what a server is: its model, noise, orders, adapter.

    Who answers? What does noise alone move? Does the server see the order of the answers, and is
    the adapter applied? This asks five frozen items, in 12 to 24 requests, and in five more if the
    name of the base model is known. Exit code 3: the adapter is not applied, or --local or the
    tokenizer differs.
    """
    with server_extra():
        from pact_eval.scoring.servers.source import probe as probe_server
    from pact_reports.views.servers import present_server_probe

    probed = probe_server(server)
    emit(present_server_probe(probed), as_json=as_json)
    if probed.faults:
        raise GateError("; ".join(probed.faults))
