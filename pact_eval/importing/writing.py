"""Imports: a log of a known format, read and written as a run."""

from __future__ import annotations

import gzip
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import polars as pl

from pact_eval._files import open_regular, reading, sha256_of_file
from pact_eval._json import Json
from pact_eval.errors import InputError
from pact_eval.importing.reading import read_log
from pact_eval.importing.registry import source_names, source_of, sources
from pact_eval.importing.source import ImportedRows, ImportOptions, Source, Start, unpacking
from pact_eval.runs.folder import Run, RunWriter
from pact_eval.runs.places import log_path, naming_urls, refuse_remote, shown
from pact_eval.runs.provenance import Data, RunLabels, RunNames, seen_from
from pact_eval.runs.seal import metadata_frame, with_metadata

_START_BYTES: Final = 1 << 16
_GZIP: Final = b"\x1f\x8b"


def find_source(path: Path, name: str | None = None) -> Source:
    """Return the format of a log.

    Args:
        path: a file or folder.
        name: name of the format; None looks at the content.

    Raises:
        InputError: the path cannot be read, or has no known format, or there is no such name, or
            the content is that of another format than the named one.
    """
    start = start_of(path)
    recognising = next((source for source in sources() if source.recognises(start)), None)
    if name is None and recognising is not None:
        return recognising
    if name is None:
        with reading(path), open_regular(path):  # raises: a folder, and what is in it
            message = f"{path}: not a log of a known format ({', '.join(source_names())})"
            raise InputError(message)
    named = source_of(name)
    if recognising is not None and not recognising.own and not named.recognises(start):
        message = (
            f"{path}: --from {name}, but its content is that of {recognising.name}; use "
            f"--from {recognising.name}, or leave --from out"
        )
        raise InputError(message)
    return named


def start_of(path: Path) -> Start:
    """Return what a source is recognised by.

    Raises:
        InputError: the path cannot be read.
    """
    if path.is_dir():
        return Start(path, b"", frozenset())
    with reading(path), open_regular(path) as file:
        content = file.read(_START_BYTES)
    if content.startswith(_GZIP):
        with reading(path), unpacking(path), gzip.open(path) as unpacked:
            content = unpacked.read(_START_BYTES)
    return Start(path, content, _first_keys(content))


def _first_keys(content: bytes) -> frozenset[str]:
    """Return the keys of the object on the first line; of a long line, those that can be seen."""
    line = content.lstrip().split(b"\n", 1)[0]
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # its source says what is wrong with the line
        return frozenset()
    return frozenset(value) if isinstance(value, dict) else frozenset()


@dataclass(frozen=True, repr=False)
class ImportedRun(Run):
    """A run that was imported, read; see `Run`.

    Attributes:
        remarks: what to know of the log, one sentence each.
    """

    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, run: Run, remarks: tuple[str, ...]) -> ImportedRun:
        """Return a run with remarks on its import."""
        return cls(run.folder, run.provenance, run.predictions, remarks)


def default_folder(path: Path | str) -> Path:
    """Return the folder of an import that gets none: the name of its log, in `runs`.

    Examples:
        >>> default_folder("data/tickets.csv.gz").as_posix()
        'runs/tickets'
    """
    name = Path(str(path).rstrip("/")).name
    return Path("runs") / (name.lstrip("._").split(".")[0] or "imported")


def import_run(
    path: Path, out: Path, labels: RunLabels, options: ImportOptions | None = None
) -> ImportedRows:
    """Read a log and write it as a run. Importing the same log again leaves the run as it is.

    Args:
        path: a log, or its URL; see `registry.py`.
        out: the run folder.
        labels: what names the run: arm, seed, command line.
        options: how the log is read; None detects its format.

    Returns:
        What was imported.

    Raises:
        InputError: the log cannot be read.
        RecordError: a row is malformed, or the log contradicts itself; then nothing is written.
        RunError: the folder cannot be used, or has a run with other settings.
    """
    started = time.monotonic()
    options = options or ImportOptions()
    refuse_remote(out)
    path = log_path(path)
    with naming_urls():
        source = find_source(path, options.source)
        if options.data is not None and not source.own:
            message = (
                f"--data is for rows of your own; {path} is a log of {source.title}, which has its "
                "references: leave --data out"
            )
            raise InputError(message)
        rows, log = read_log(source, path, options)
    settings: dict[str, Json] = {
        "data": Data(_sha256(log.files)).to_json(),
        **({} if source.own else {"log": source.name}),
        **options.settings,
        **({} if log.references is None else {"references": log.references.to_json()}),
        "k": rows.frame["view"].n_unique(),
        "values": rows.values,
    }
    names: RunNames = {"source": "import", "data": shown(path), **cast("RunNames", labels)}
    if options.data is not None:
        names["references"] = str(options.data)
        names["data_from_run"] = seen_from(out, options.data)
    if rows.model is not None:
        names["base_model"] = rows.model
    with RunWriter(out, settings, names) as writer:
        if not writer.complete:
            joined = log.references
            metadata = rows.metadata if joined is None else metadata_frame(joined.records)
            writer.write_part(0, with_metadata(_by_item(rows.frame), metadata))
            writer.finish(time.monotonic() - started, rows.facts.to_json())
    return rows


def _by_item(frame: pl.DataFrame) -> pl.DataFrame:
    """Put the views of each item next to each other, as `score` does; items keep their order.

    Logs list epochs, trials or requests in an order of their own.
    """
    first = pl.col("_row").min().over("id")
    ordered = frame.with_row_index("_row").sort(first, "view", maintain_order=True)
    return ordered.drop("_row")


def _sha256(files: Sequence[Path]) -> str:
    """Return the hash of a file; of several, that of their hashes in order."""
    hashes = [sha256_of_file(file) for file in files]
    if len(hashes) == 1:
        return hashes[0]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()
