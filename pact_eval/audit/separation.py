"""Check "separation": content of two files that is equal or nearly equal."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from pact_eval._typing import BoolArray
from pact_eval.audit.context import DataContext
from pact_eval.audit.findings import Check, CheckResult, Collector, Leak
from pact_eval.audit.near_duplicates import Pairs, add_near_duplicates
from pact_eval.data.files import ROLES
from pact_eval.data.index import Index
from pact_eval.data.records import folded
from pact_eval.errors import Place, counted

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
        The result, with the near duplicates' numbers as `measured`, and the leaks. With one file
        it is skipped: only near duplicates within that file are reported. It is also skipped, with
        its findings, if a file names no source families: nobody can say that none is shared.
    """
    for column, (code, what) in _SHARED.items():
        _add_shared(index, findings, column, code, what)
    for number, file in enumerate(index.files):
        rows = index.frame.filter(pl.col("file") == number)
        if rows.height and rows["source_id"].null_count() == rows.height:
            expected = "provenance.source_id, to see what two files share"
            findings.add("source-id-missing", Place(file.name), expected, "none")
    measured, across = add_near_duplicates(index, findings, threshold=threshold)
    records = counted(len(index), "record")
    if len(index.files) == 1:
        result = findings.result(f"{records} in one file", measured)
        return replace(result, skipped="one file")
    result = findings.result(f"{records} in {len(index.files)} files", measured)
    unsourced = _files_without_source(index)
    reason = f"{', '.join(unsourced)}: no source is named, so none could be compared"
    return replace(result, leaks=_leaks(index, across), skipped=reason if unsourced else None)


def _files_without_source(index: Index) -> list[str]:
    """Return the names of the files of which no record names its source family."""
    sourced = dict(index.frame.group_by("file").agg(pl.col("sourced").any()).iter_rows())
    return [file.name for n, file in enumerate(index.files) if not sourced.get(n, True)]


def _add_shared(index: Index, findings: Collector, column: str, code: str, what: str) -> None:
    """Report each value of a column that occurs in several files, once per later file.

    Names are compared as a reader sees them, in one case and with single spaces.
    """
    shared = (
        index.frame.lazy()
        .select("file", _comparable_column(index, column))
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
        actual = f"that of {index.place(first_row)}"
        if column != "context":
            actual = f"{value}, as in {index.place(first_row)}"
        findings.add(code, index.place(row), expected, actual)


def _comparable_column(index: Index, column: str) -> pl.Series:
    """Return the values of a column as they are compared."""
    values = index.frame[column]
    return (
        values.map_elements(folded, return_dtype=pl.String) if values.dtype == pl.String else values
    )


def _leaks(index: Index, across: Pairs) -> tuple[Leak, ...]:
    """Return, for each file, its records that are also in files of an earlier role.

    A model is trained, selected and calibrated before it is evaluated, in the order of `ROLES`.
    Files of the same role are two datasets for one purpose, and no leak.
    """
    leaks = []
    for number, file in enumerate(index.files):
        earlier = ROLES[: ROLES.index(file.role)]
        rows = {
            other.name: _shared_rows(index, across, number, source)
            for source, other in enumerate(index.files)
            if other.role in earlier
        }
        sources = tuple(name for name, shared in rows.items() if shared.any())
        if sources:
            leaked = index.frame.filter(np.logical_or.reduce(list(rows.values())))
            families = leaked["family"].unique(maintain_order=True)
            sha256 = index.facts[number].sha256
            leaks.append(Leak(file.name, sha256, sources, tuple(leaked["id"]), tuple(families)))
    return tuple(leaks)


def _shared_rows(index: Index, across: Pairs, file: int, source: int) -> BoolArray:
    """Tell which rows are records of a file that share something with a record of another file."""
    files = index.frame["file"].to_numpy()
    own, theirs = files == file, files == source
    shared = np.zeros(len(files), dtype=np.bool_)
    for column in _SHARED:
        values = _comparable_column(index, column)
        shared_values = values.filter(theirs).drop_nulls().unique()
        shared |= own & values.is_in(shared_values.implode()).fill_null(value=False).to_numpy()
    for row, other in ((across.row, across.other), (across.other, across.row)):
        shared[row[own[row] & theirs[other]]] = True
    return shared


CHECK: Final[Check[DataContext]] = Check(
    name="separation",
    question="Does nothing occur in two files, word for word or nearly?",
    run=lambda context: check_separation(
        context.index, context.collector("separation"), threshold=context.settings.near_duplicate
    ),
    needs=("records",),
    cost=3.0,
    codes={
        "shared-id": ("error", "A record id is in two files."),
        "shared-family": ("error", "Records that belong together are in two files."),
        "shared-source-family": ("error", "Records of one source are in two files."),
        "shared-source-id": ("error", "A source id is in two files."),
        "shared-context": ("error", "A context is in two files."),
        "source-id-missing": ("note", "No record of a file names its source."),
        "near-duplicate": ("error", "A context of one file nearly repeats one of another file."),
        "near-duplicate-within": ("note", "Two groups of one file have nearly the same context."),
    },
)
