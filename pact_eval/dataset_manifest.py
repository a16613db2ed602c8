"""Writing the manifest of a dataset."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pact_eval.audit.index import index_of_records
from pact_eval.dataset_files import (
    MANIFEST_NAME,
    DataFile,
    FileFacts,
    dataset_files,
    make_manifest,
    read_manifest,
)

__all__ = ["WrittenManifest", "write_manifest"]


@dataclass(frozen=True)
class WrittenManifest:
    """A manifest that was written.

    Attributes:
        path: where it lies.
        files: the dataset's files.
        facts: what it says of each.
        changed: whether it differs from the one that was there; False leaves the file untouched.
    """

    path: Path
    files: tuple[DataFile, ...]
    facts: tuple[FileFacts, ...]
    changed: bool


def write_manifest(folder: Path) -> WrittenManifest:
    """Write or update `manifest.json` in a dataset's folder.

    Args:
        folder: every `*.jsonl` in it, and every dataset file that an older manifest names, belongs
            to the dataset.

    Returns:
        What was written. Keys of an older manifest that are not ours are kept.

    Raises:
        InputError: there is no dataset, or nothing tells what a file is for.
        RecordError: a line is no record, or an id stands twice: nothing is written for such data.
    """
    path = folder / MANIFEST_NAME
    previous = read_manifest(path).value if path.exists() else None
    index = index_of_records(dataset_files(folder, previous, unnamed=True))
    manifest = make_manifest(index.files, index.facts, previous)
    changed = manifest != previous
    if changed:
        partial = path.with_name(f"{path.name}.partial")
        text = json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    return WrittenManifest(path, index.files, index.facts, changed)
