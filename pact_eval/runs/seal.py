"""The seal of a run: hashes that tie its rows and its provenance together, and their checks.

    "seal": {"predictions_sha256": ..., "references_sha256": ..., "items": 324, "views": 1296,
             "k": 4, "provenance_sha256": ...}

`RunWriter` seals a run when it writes the last row, and an import when it is imported. Every reader
of a run checks the two hashes of files: that of `predictions.parquet`, and that of `run.json`
itself. While a run is being written, `run.json` has the hash of each part instead.

A seal shows changes: of rows or labels, by accident or by hand. It is no signature: anyone can
write a folder with a seal of its own. Compare `seal_digest` with a published one for that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

import polars as pl

from pact_eval._files import sha256_of_file
from pact_eval._json import Json, sha256_of_json
from pact_eval.errors import InputError, RunError, TamperedError
from pact_eval.runs.provenance import NAME, Provenance, Seal, as_written

PREDICTIONS = "predictions.parquet"
"""Name of the file of rows in a run folder."""

CALIBRATION_NAME: Final = "calibration.json"
"""A calibrator's name in a run folder: fitted on that run, or to be applied to it. Not sealed."""

UNANSWERED = "unanswered.parquet"
"""Name of the file of items without an answer, if there are any."""

CONTENT_FREE: Final = "content-free"
"""Name of the folder of content-free prompts in a run folder: a run with its own seal."""

PARTS = "parts"
"""Name of the folder of rows while a run is being written."""

_NOT_HASHED = ("seal", "parts")
_ADVICE = "restore the folder from a copy, or repeat the run in another folder"


def seal_of_rows(
    file: Path, frame: pl.DataFrame, unanswered: Path | None = None
) -> dict[str, Json]:
    """Return the values of a seal that depend on the rows alone.

    Args:
        file: the rows as they were written.
        frame: the same rows; columns as in `SCHEMA` or `ABLATED_SCHEMA`.
        unanswered: the file of unanswered items; None if all are answered.
    """
    items = frame["id"].n_unique()
    return {
        "predictions_sha256": sha256_of_file(file),
        "references_sha256": references_sha256(frame),
        "items": items,
        "views": len(frame),
        "k": len(frame) // items if items else 0,
        **({} if unanswered is None else {"unanswered_sha256": sha256_of_file(unanswered)}),
    }


def sealed(recorded: Mapping[str, Json], rows: Mapping[str, Json]) -> dict[str, Json]:
    """Return the content of a `run.json` with its seal.

    Args:
        recorded: the content; an earlier seal in it is replaced.
        rows: the values of `seal_of_rows`.
    """
    content = as_written({key: value for key, value in recorded.items() if key != "seal"})
    seal = dict(rows) | {"provenance_sha256": provenance_sha256(content, rows)}
    return content | {"seal": seal}


def provenance_sha256(recorded: Mapping[str, Json], rows: Mapping[str, Json]) -> str:
    """Return the SHA-256 of a `run.json` without its seal and parts, and of `seal_of_rows`."""
    hashed = {key: value for key, value in recorded.items() if key not in _NOT_HASHED}
    return sha256_of_json({"run": hashed, "rows": dict(rows)})


def references_sha256(frame: pl.DataFrame) -> str:
    """Return the SHA-256 over the item ids with their references, in the order of the ids.

    Two runs on the same items have the same hash, whatever the order of their rows. Each item gives
    the bytes `<length of the id in bytes>:<id>=<reference>;`, without a reference if it is null.

    Examples:
        >>> frame = pl.DataFrame({"id": ["b", "a", "b"], "reference": [1, 0, 1]})
        >>> references_sha256(frame) == hashlib.sha256(b"1:a=0;1:b=1;").hexdigest()
        True
    """
    # A damaged file may have no id at all: its hash differs, and its rows are checked elsewhere.
    ids = pl.col("id").cast(pl.String).fill_null("")
    items = frame.select(ids, "reference").unique().sort("id", "reference")
    reference = pl.col("reference").cast(pl.String).fill_null("")
    lines = items.select(pl.format("{}:{}={};", pl.col("id").str.len_bytes(), "id", reference))
    return hashlib.sha256("".join(lines.to_series().to_list()).encode()).hexdigest()


def check_seal(folder: Path, provenance: Provenance) -> Seal:
    """Check that the files of a complete run are those that were sealed.

    Args:
        folder: the run folder.
        provenance: its `run.json`.

    Returns:
        The seal.

    Raises:
        TamperedError: `run.json` or `predictions.parquet` has changed since the run was sealed, the
            seal was removed, or the rows were put into the folder of a run that is not complete.
        RunError: the rows cannot be read.
    """
    seal = provenance.seal
    if seal is None and provenance.parts:
        raise TamperedError(
            f"{folder / PREDICTIONS}: not written by this run, which is not complete; remove the "
            "file and repeat the command that started the run"
        )
    if seal is None:
        raise TamperedError(f"{folder / NAME}: the seal of the run was removed; {_ADVICE}")
    if provenance_sha256(provenance.recorded, rows_of_seal(seal)) != seal.provenance_sha256:
        raise TamperedError(f"{folder / NAME}: changed since the run was sealed; {_ADVICE}")
    files = {PREDICTIONS: seal.predictions_sha256, UNANSWERED: seal.unanswered_sha256}
    for name, expected in files.items():
        if expected is not None and (digest := _sha256_of_rows(folder / name)) != expected:
            raise TamperedError(
                f"{folder / name}: changed since the run was sealed (SHA-256: expected "
                f"{expected[:12]}, got {digest[:12]}); {_ADVICE}"
            )
    return seal


def rows_changed(folder: Path, seal: Seal) -> bool:
    """Return whether the rows of a run are not those that were sealed.

    Raises:
        RunError: the file cannot be read.
    """
    return _sha256_of_rows(folder / PREDICTIONS) != seal.predictions_sha256


def unsealed_files(folder: Path, seal: Seal) -> tuple[str, ...]:
    """Return what a sealed run has that looks like its own, and that its seal does not cover.

    A process that was killed at its very end leaves `parts`; the scoring command removes them.

    Args:
        folder: the run folder.
        seal: its seal.

    Returns:
        `unanswered.parquet`, `parts`, both or neither.
    """
    names = (PARTS,) if seal.unanswered_sha256 is not None else (UNANSWERED, PARTS)
    return tuple(name for name in names if (folder / name).exists())


def check_counts(folder: Path, provenance: Provenance, *, items: int, views: int) -> None:
    """Check the counts in `run.json`, those of the seal included, against the rows.

    The hashes of a seal that somebody wrote by hand fit its rows, whatever its counts say.

    Args:
        folder: the run folder.
        provenance: its `run.json`.
        items: number of items in the rows.
        views: number of rows.

    Raises:
        TamperedError: `run.json` has another number of items or views, or another K.
    """
    wrong = wrong_counts(provenance, items=items, views=views)
    if wrong:
        message = f"{folder / NAME}: not the provenance of these rows ({'; '.join(wrong)}); "
        raise TamperedError(message + _ADVICE)


def wrong_counts(provenance: Provenance, *, items: int, views: int) -> tuple[str, ...]:
    """Return how the counts in `run.json` contradict the rows, one sentence each.

    Examples:
        >>> recorded = Provenance.of({"counts": {"items": 12}, "settings": {"k": 2}})
        >>> wrong_counts(recorded, items=12, views=48)
        ('K: the rows have 4, recorded are 2',)
    """
    seal, counts = provenance.seal, provenance.counts
    k = views // items if items else 0
    unanswered = sum(counts.unanswered.values())
    compared = {
        "items": (items, counts.items, seal and seal.items),
        "views": (views, counts.views, seal and seal.views),
        "K": (k, provenance.k, seal and seal.k),
        "records of the data": (items + unanswered, provenance.data.records),
    }
    differences = (
        f"{what}: the rows have {actual:,}, recorded are {count:,}"
        for what, (actual, *recorded) in compared.items()
        for count in recorded
        if count is not None and count != actual
    )
    return tuple(dict.fromkeys(differences))


def seal_digest(seal: Seal) -> str:
    """Return one SHA-256 that identifies a sealed run: its rows, settings and labels.

    Examples:
        >>> seal_digest(Seal("aa", "bb", "cc", 1, 2, 2))[:8]
        '27c29f9e'
    """
    return sha256_of_json(seal.to_json())


def rows_of_seal(seal: Seal) -> dict[str, Json]:
    """Return the values of `seal_of_rows` in a seal."""
    return {key: value for key, value in seal.to_json().items() if key != "provenance_sha256"}


def _sha256_of_rows(path: Path) -> str:
    """Hash the file of rows, once per process while its size and times do not change."""
    try:
        file_stat = path.stat()
        return _hash_file(
            path.resolve(), file_stat.st_ino, file_stat.st_size, file_stat.st_mtime_ns
        )
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror or error})") from None
    except InputError as error:  # a pipe or a device
        raise RunError(str(error)) from None


@lru_cache(maxsize=1024)
def _hash_file(path: Path, inode: int, size: int, modified_ns: int) -> str:  # noqa: ARG001
    return sha256_of_file(path)
