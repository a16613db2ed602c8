"""`pact-audit ablate`: the contexts without their evidence."""

from __future__ import annotations

from pathlib import Path

from pact_cli.audit.options import provenance
from pact_cli.commands import command, option
from pact_cli.console import emit
from pact_cli.options import PATH, json_option, path_argument

__all__ = ["ablate"]


@command(loads=("pact_eval.data.ablation",))
@path_argument("source", "FILE.jsonl")
@option("--out", required=True, type=PATH, help="File to write.")
@option(
    "--allow-missing",
    is_flag=True,
    help="Skip pairs whose context cannot be ablated.",
)
@json_option
def ablate(source: Path, out: Path, allow_missing: bool, as_json: bool) -> None:
    """Write the context of every pair without its evidence.

    One record per pair, without a reference; `ablation.answers` holds the two answers between which
    the context no longer decides. Use the file to train with the necessity term, or to score how
    confident a model is without evidence.
    """
    from pact_eval.data.ablation import write_ablated_records
    from pact_reports.views.datasets import present_ablated_file

    written = write_ablated_records(source, out, allow_missing=allow_missing)
    emit(present_ablated_file(written), provenance=provenance(), as_json=as_json)
