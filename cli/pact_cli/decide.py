"""`pact-eval decide`: answer one request of several fields."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pact_cli.commands import command
from pact_cli.console import output, print_json
from pact_cli.errors import needs_model_extra
from pact_cli.model_options import model_options
from pact_cli.options import json_option, order_seed_option

if TYPE_CHECKING:
    from pact_eval.scoring.model import ModelRequest


@command()
@click.option(
    "--context",
    required=True,
    metavar="FILE_OR_TEXT",
    help="The context: a file (a .json file is read as JSON), or the text itself.",
)
@click.option(
    "--schema",
    required=True,
    type=click.Path(path_type=Path),
    help="JSON file of questions by field name.",
)
@click.option(
    "--k",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of views to average over.",
)
@order_seed_option
@model_options
@json_option
def decide(
    context: str, schema: Path, k: int, order_seed: int, model: ModelRequest, as_json: bool
) -> None:
    """Answer every field of one request.

    ADAPTER is a LoRA folder as PEFT writes it. Without an adapter, give --base-model and
    --no-adapter.
    """
    with needs_model_extra():
        from pact_eval.scoring.decide import decide as decide_request
        from pact_eval.scoring.model import identify
    from pact_eval.prompts import read_context, read_schema
    from pact_reports.tables.decision import decision_table
    from pact_reports.writers.json import decisions_json
    from pact_reports.writers.terminal import show

    state, fields = read_context(context), read_schema(schema)
    decisions = decide_request(identify(model).load(), state, fields, k=k, order_seed=order_seed)
    if as_json:
        print_json(decisions_json(decisions))
    else:
        show(output(), [decision_table(decisions)])
