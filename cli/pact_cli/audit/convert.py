"""`pact-audit convert`: write a labelled file in the full format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pact_cli.audit.options import provenance
from pact_cli.commands import command
from pact_cli.console import emit
from pact_cli.hub_places import data_file_here
from pact_cli.labelled import reading_options
from pact_cli.options import DATASET, json_option, path_argument

if TYPE_CHECKING:
    from pact_eval.data.labelled.reading import Reading

__all__ = ["convert"]


@command(loads=("pact_eval.data.labelled.plain",))
@path_argument("source", "IN", DATASET)
@path_argument("out", "OUT.jsonl")
@reading_options
@json_option
def convert(source: Path, out: Path, reading: Reading, as_json: bool) -> None:
    """Write a labelled file in the full format, with a manifest.

    IN is JSON lines, CSV or Parquet of a known shape, here or on the Hub
    (hf://datasets/OWNER/NAME[@REVISION][/PATH]). OUT.jsonl has one record per question, and
    its folder gets a manifest.json, which names IN and its hash. What IN does not name has a
    default, and every record lists its defaults.
    """
    from pact_eval.data.labelled.plain import convert as convert_file
    from pact_reports.views.datasets import present_converted_file

    written = convert_file(data_file_here(source), out, reading)
    emit(present_converted_file(written), provenance=provenance(), as_json=as_json)
