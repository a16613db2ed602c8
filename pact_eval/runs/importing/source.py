"""Imported predictions, whatever their source: their rows, and the run written from them.

A source is one file of this package. It reads its format into `ImportedRows` and calls
`write_import`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pact_eval._files import sha256_of_file
from pact_eval._json import Json
from pact_eval.runs.folder import RunWriter


@dataclass(frozen=True)
class ImportedRows:
    """The rows of an import, with remarks.

    Attributes:
        frame: the rows of a run, logits as float64.
        values: the column that the predictions came from.
        ignored_columns: columns of the file that a run does not use.
        renormalised: number of rows whose probabilities sum to 1 only within 1e-3, because they
            were rounded; their log-probabilities are renormalised.
        zero_on_reference: number of rows with a probability of exactly 0 on the reference.
    """

    frame: pl.DataFrame
    values: str
    ignored_columns: tuple[str, ...]
    renormalised: int
    zero_on_reference: int

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks about the import for the user, one sentence each."""
        remarks = []
        if self.frame["code_order"].list.len().min() == 0:
            remarks.append("No code_order: the effect of letters in those views is unknown.")
        if self.ignored_columns:
            remarks.append(f"Ignored columns: {', '.join(self.ignored_columns)}.")
        if self.renormalised:
            remarks.append(
                f"{self.renormalised:,} rows summed to 1 only roughly; they were renormalised."
            )
        if self.zero_on_reference:
            remarks.append(
                f"{self.zero_on_reference:,} rows give the reference a probability of 0, so NLL is "
                "infinite."
            )
        return tuple(remarks)


def write_import(
    rows: ImportedRows,
    path: Path,
    out: Path,
    labels: Mapping[str, Json],
    *,
    settings: Mapping[str, Json],
    started: float,
) -> None:
    """Write imported rows as a run; importing the same file again leaves the run unchanged.

    Args:
        rows: the imported rows.
        path: the file that they were read from.
        out: the run folder.
        labels: arm, seed and command line of the run.
        settings: options of the source that determine the rows.
        started: `time.monotonic()` when reading began.

    Raises:
        RunError: the folder cannot be used, or has a run with other settings.
    """
    decided: dict[str, Json] = {
        "data": {"sha256": sha256_of_file(path)},
        **settings,
        "k": rows.frame["view"].n_unique(),
        "values": rows.values,
    }
    names: dict[str, Json] = {"source": "import", "data": str(path), **labels}
    facts: dict[str, Json] = {
        "ignored_columns": [*rows.ignored_columns],
        "renormalised": rows.renormalised,
        "zero_on_reference": rows.zero_on_reference,
    }
    with RunWriter(out, decided, names) as writer:
        if not writer.complete:
            writer.write_part(0, rows.frame)
            writer.finish(time.monotonic() - started, facts)
