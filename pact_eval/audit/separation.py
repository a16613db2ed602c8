"""Check "separation": content of two files that is equal or nearly equal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from pact_eval.audit.context import DataContext
from pact_eval.audit.findings import Check, CheckResult, Collector, Leak, leak_of
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
    # Names are compared as a reader sees them, in one case and with single spaces.
    values = index.frame.select(
        pl.col("file"),
        *(pl.col(name).map_elements(folded, pl.String) for name in _SHARED if name != "context"),
        pl.col("context"),
    )
    for column in _SHARED:
        _add_shared(index, values, column, findings)
    of_files = index.frame.group_by("file").agg(
        pl.col("source_id").is_null().all(), pl.col("sourced").any()
    )
    sources = {row[0]: row[1:] for row in of_files.iter_rows()}
    unsourced = []
    for number, file in enumerate(index.files):
        lacks_ids, is_sourced = sources.get(number, (False, True))
        if lacks_ids:
            expected = "provenance.source_id, to see what two files share"
            findings.add("source-id-missing", Place(file.name), expected, "none")
        if not is_sourced:
            unsourced.append(file.name)
    measured, across = add_near_duplicates(index, findings, threshold=threshold)
    records, n_files = counted(len(index), "record"), len(index.files)
    if n_files == 1:
        return findings.result(f"{records} in one file", measured, skipped="one file")
    reason = f"{', '.join(unsourced)}: no source is named, so none could be compared"
    return findings.result(
        f"{records} in {n_files} files",
        measured,
        skipped=reason if unsourced else None,
        leaks=_leaks(index, values, across),
    )


def _add_shared(index: Index, values: pl.DataFrame, column: str, findings: Collector) -> None:
    """Report each value of a column that occurs in several files, once per later file."""
    code, what = _SHARED[column]
    shared = (
        values.lazy()
        .select("file", column)
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
        there = index.place(first_row)
        actual = f"that of {there}" if column == "context" else f"{value}, as in {there}"
        findings.add(code, index.place(row), f"no {what} of another file", actual)


def _leaks(index: Index, values: pl.DataFrame, across: Pairs) -> Iterator[Leak]:
    """Yield, for each file, its records that are also in files of an earlier role.

    A model is trained, selected and calibrated before it is evaluated, in the order of `ROLES`.
    Files of the same role are two datasets for one purpose, and no leak.
    """
    files = values["file"].to_numpy()
    for number, file in enumerate(index.files):
        leaked, sources = np.zeros(len(files), dtype=np.bool_), []
        for source, other in enumerate(index.files):
            if other.role not in ROLES[: ROLES.index(file.role)]:
                continue
            own, theirs = files == number, files == source
            shared = np.zeros_like(leaked)
            for column in _SHARED:
                shared_values = values.filter(theirs)[column].drop_nulls().unique()
                is_shared = values[column].is_in(shared_values.implode()).fill_null(value=False)
                shared |= own & is_shared.to_numpy()
            for row, neighbour in ((across.row, across.other), (across.other, across.row)):
                shared[row[own[row] & theirs[neighbour]]] = True
            if shared.any():
                leaked |= shared
                sources.append(other.name)
        if sources:
            yield leak_of(index, number, leaked, sources)


CHECK: Final[Check[DataContext]] = Check(
    name="separation",
    question="Does nothing occur in two files, word for word or nearly?",
    run=lambda context, findings: check_separation(
        context.index, findings, threshold=context.settings.near_duplicate
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
