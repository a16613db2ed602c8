"""Check "separation": is nothing in two files, word for word or nearly?"""

from __future__ import annotations

from typing import Final

import polars as pl

from pact_eval.audit.context import DataContext
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.audit.near_duplicates import add_near_duplicates
from pact_eval.audit.registry import Check
from pact_eval.data import Index, folded
from pact_eval.errors import Place

_SHARED: Final = {
    "id": ("shared-id", "record id"),
    "family": ("shared-family", "family"),
    "source_family": ("shared-source-family", "source family"),
    "source_id": ("shared-source-id", "source id"),
    "context": ("shared-context", "context"),
}


def check_separation(index: Index, findings: Collector, *, threshold: float) -> CheckResult:
    """Look for values that occur in several files, and for contexts that nearly do.

    Args:
        index: the dataset.
        findings: collects what is shared.
        threshold: cosine from which two contexts are near duplicates, in (0, 1].

    Returns:
        The result, with the near duplicates' numbers as `measured`.
    """
    for column, (code, what) in _SHARED.items():
        _add_shared(index, findings, column, code, what)
    for number, file in enumerate(index.files):
        rows = index.frame.filter(pl.col("file") == number)
        if rows.height and rows["source_id"].null_count() == rows.height:
            expected = "provenance.source_id, to see what two files share"
            findings.add("source-id-missing", Place(file.name), expected, "none")
    measured = add_near_duplicates(index, findings, threshold=threshold)
    scope = f"{len(index):,} records in {len(index.files)} files"
    if len(index.files) == 1:
        scope = f"{len(index):,} records in one file"
    return findings.result(scope, measured)


def _add_shared(index: Index, findings: Collector, column: str, code: str, what: str) -> None:
    """Report each value of a column that occurs in several files, once per later file.

    Names are compared as a reader sees them, in one case and with single spaces.
    """
    values = index.frame[column]
    if values.dtype == pl.String:
        values = values.map_elements(folded, return_dtype=pl.String)
    shared = (
        index.frame.lazy()
        .select("file", values.alias(column))
        .with_row_index("row")
        .drop_nulls(column)
        .with_columns(
            first_row=pl.col("row").first().over(column),
            first_file=pl.col("file").first().over(column),
        )
        .filter(pl.col("file") != pl.col("first_file"))
        .unique(["file", column], keep="first", maintain_order=True)
        .collect()
    )
    for row, first_row, value in shared.select("row", "first_row", column).iter_rows():
        expected = f"no {what} of another file"
        found = f"that of {index.place(first_row)}"
        if column != "context":
            found = f"{value}, as in {index.place(first_row)}"
        findings.add(code, index.place(row), expected, found)


SEPARATION: Final[Check[DataContext]] = Check(
    name="separation",
    question="Does nothing occur in two files, word for word or nearly?",
    run=lambda context: check_separation(
        context.index,
        context.collector("separation"),
        threshold=context.settings.near_duplicate,
    ),
    needs=("records",),
    cost=3.0,
    codes={
        "shared-id": ("error", "A record id is in two files."),
        "shared-family": ("error", "A family is in two files."),
        "shared-source-family": ("error", "A source family is in two files."),
        "shared-source-id": ("error", "A source id is in two files."),
        "shared-context": ("error", "A context is in two files."),
        "source-id-missing": ("note", "No record of a file names its source."),
        "near-duplicate": ("error", "A context of one file nearly repeats one of another file."),
        "near-duplicate-within": ("note", "Two families of one file have nearly the same context."),
    },
)
