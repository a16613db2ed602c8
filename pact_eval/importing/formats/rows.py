"""Source "rows": JSON lines or Parquet in our own format; see `row_reader.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from pact_eval._files import decoded, read_lines
from pact_eval._json import Json, loads
from pact_eval.errors import InputError, Problem
from pact_eval.importing.grouping import Grouping
from pact_eval.importing.parquet_rows import parquet_files, parquet_rows
from pact_eval.importing.references import References, read_references
from pact_eval.importing.row_reader import RowReader, as_object
from pact_eval.importing.source import ImportOptions, Log, LogFacts, LogRow, Source, Start

_ANSWERED: Final = ("probabilities", "log_probabilities", "logits", "answer", "status")


class Rows(Source):
    """Rows in our own format, whatever made them."""

    title = "anything"
    reads = "JSON lines, `.parquet`, or a folder of `.parquet` files"
    own = True

    def recognises(self, start: Start) -> bool:
        """Every file that no other source recognises, and every folder of Parquet files."""
        return not start.path.is_dir() or bool(parquet_files(start.path))

    def open(self, path: Path, options: ImportOptions) -> Log:
        """Open a file of rows, or a folder of Parquet files."""
        names = RowReader(options.mapping)
        files = parquet_files(path)
        rows = (
            parquet_rows(files, names, options.grouping)
            if files
            else _rows(path, names, options.grouping)
        )
        if options.data is None:
            return Log(rows, files or (path,))
        references = read_references(options.data, options.reading)
        return Log(
            _completed(rows, references, names),
            files or (path,),
            facts=lambda _outcome: LogFacts(remarks=references.remarks),
            references=references,
        )


SOURCE: Final = Rows()
"""The entry of the registry."""


def _completed(
    rows: Iterator[LogRow | Problem], references: References, names: RowReader
) -> Iterator[LogRow | Problem]:
    """Yield rows with what their records know."""
    for entry in rows:
        if isinstance(entry, Problem):
            yield entry
            continue
        try:
            yield replace(entry, row=references.complete(entry.row, names))
        except ValueError as error:
            yield Problem(entry.line, entry.record, f"{entry.where}{error}")


def _rows(path: Path, names: RowReader, grouping: Grouping) -> Iterator[LogRow | Problem]:
    for number, raw in read_lines(path):
        record_id: str | None = None
        try:
            value = loads(decoded(raw, number))
            record_id = names.id_if_readable(value)
            row = as_object(value)
            row |= grouping.of_entry(row)
        except ValueError as error:
            yield Problem(number, record_id, str(error))
            continue
        if _is_question(row):
            message = (
                f"{path}:{number}: a record of a dataset, which has no answer of a model; score it "
                f"with `pact-eval score ADAPTER --data {path}`"
            )
            raise InputError(message)
        yield LogRow(number, record_id, row)


def _is_question(row: Mapping[str, Json]) -> bool:
    """Tell whether a row is a record of a dataset: a context and questions, and no answers."""
    inputs = row.get("input")
    return isinstance(inputs, dict) and "questions" in inputs and not row.keys() & {*_ANSWERED}
