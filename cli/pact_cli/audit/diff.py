"""`pact-audit diff`: changes between two versions of a dataset file."""

from __future__ import annotations

from pathlib import Path

from pact_cli.commands import NATURAL, command, option
from pact_cli.console import emit
from pact_cli.options import json_option, path_argument

__all__ = ["diff"]


@command(loads=("pact_eval.data.diff",))
@path_argument("old", "OLD.jsonl")
@path_argument("new", "NEW.jsonl")
@option(
    "--max-shown",
    type=NATURAL,
    default=20,
    show_default=True,
    help="Records shown in each list; the rest are counted. JSON always has all.",
)
@json_option
def diff(old: Path, new: Path, max_shown: int, as_json: bool) -> None:
    """Show which records and references differ in two versions.

    Records are joined on their ids. Differences in JSON white space and escapes are ignored.
    """
    from pact_eval.data.diff import diff_datasets
    from pact_reports.views.datasets import present_dataset_diff

    emit(present_dataset_diff(diff_datasets(old, new), max_shown), as_json=as_json)
