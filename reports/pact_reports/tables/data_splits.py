"""Data splits: counts of records, families and kinds per file."""

from __future__ import annotations

from collections.abc import Sequence

from pact_eval.errors import InputError
from pact_eval.evaluation.data_splits import Split, data_splits
from pact_reports.table import Column, Row, Table
from pact_reports.tables.cells import count_cell, count_column, text_cell
from pact_reports.tables.request import TableRequest


def build_splits(request: TableRequest) -> Table:
    """Make the table of data splits: named folders, and the data that runs scored.

    Raises:
        InputError: a folder holds no dataset, or there is neither run nor folder.
        RecordError: a line is not a record.
    """
    splits = data_splits(request.experiment, request.data)
    if not splits:
        message = "no run and no dataset"
        raise InputError(message)
    return splits_table(splits)


def splits_table(splits: Sequence[Split]) -> Table:
    """Lay out data splits: one row per file."""
    rows = []
    for split in splits:
        reason = None if split.source_families is not None else "the records name none"
        cells = [
            text_cell(split.name),
            text_cell(split.role or "–"),
            count_cell(split.source_families, reason),
            *map(count_cell, (split.records, split.families, split.pairs, *split.kinds)),
            count_cell(split.runs),
        ]
        rows.append(Row(tuple(cells)))
    return Table(
        name="splits",
        title="Data splits",
        caption=(
            "Records of each file by kind, the families that they form, those of them that are "
            "pairs of a base and a counterfactual record, and the source families above them. "
            "Runs: how many of those shown here scored the file."
        ),
        columns=(
            Column("File", "left"),
            Column("Role", "left"),
            *map(
                count_column,
                (
                    "Source fam.",
                    "Records",
                    "Families",
                    "Pairs",
                    "Choice",
                    "Boolean",
                    "Score",
                    "Runs",
                ),
            ),
        ),
        rows=tuple(rows),
    )
