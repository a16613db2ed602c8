"""Writing the manifest of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pact_eval._files import sha256_of_file, write_atomically
from pact_eval._json import Json, dumps_indented
from pact_eval.data.files import (
    MANIFEST_NAME,
    DataFile,
    FileFacts,
    dataset_files,
    is_file,
    lies_inside,
    make_manifest,
    read_manifest,
)
from pact_eval.data.index import index_of_records


@dataclass(frozen=True)
class WrittenManifest:
    """A manifest that was written.

    Attributes:
        path: its path.
        files: the dataset's files.
        facts: what it says of each.
        changed: whether it differs from the one that was there; False leaves the file untouched.
    """

    path: Path
    files: tuple[DataFile, ...]
    facts: tuple[FileFacts, ...]
    changed: bool


def _rehash(folder: Path, previous: Mapping[str, Json] | None) -> Mapping[str, Json] | None:
    """Return an older manifest with the present hashes of the files that are still there."""
    hashes = previous.get("file_sha256") if previous is not None else None
    if previous is None or not isinstance(hashes, dict):
        return previous
    there = [name for name in hashes if lies_inside(folder, name) and is_file(folder / name)]
    return {**previous, "file_sha256": {name: sha256_of_file(folder / name) for name in there}}


def write_manifest(folder: Path) -> WrittenManifest:
    """Write or update `manifest.json` in a dataset's folder.

    Args:
        folder: every `*.jsonl` in it, and every dataset file that an older manifest names, belongs
            to the dataset.

    Returns:
        What was written. Keys of an older manifest that are not ours are kept.

    Raises:
        InputError: there is no dataset, or nothing tells what a file is for.
        RecordError: a line is not a record, or an id appears twice: nothing is written for such
            data.
    """
    path = folder / MANIFEST_NAME
    previous = read_manifest(path).value if path.exists() else None
    index = index_of_records(dataset_files(folder, previous, unnamed=True))
    manifest = make_manifest(index.files, index.facts, _rehash(folder, previous))
    changed = manifest != previous
    if changed:
        write_atomically(path, dumps_indented(manifest))
    return WrittenManifest(path, index.files, index.facts, changed)
