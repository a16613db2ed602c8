"""Context of the dataset checks: files, index, and permissions of the caller."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pact_eval._choices import FINDINGS_KEPT, MOST_EDIT_WORDS, NEAR_DUPLICATE
from pact_eval._files import sha256_of_file
from pact_eval.audit.findings import Collector
from pact_eval.audit.schema import SchemaScan
from pact_eval.data.files import (
    MANIFEST_NAME,
    ROLES,
    DataFile,
    Manifest,
    dataset_files,
    named_files,
    read_manifest,
    role_of_name,
)
from pact_eval.data.index import Index, build_index
from pact_eval.data.labelled.reading import AUTOMATIC, Reading
from pact_eval.errors import InputError
from pact_eval.hub import located, short_name


@dataclass(frozen=True)
class DatasetSource:
    """Files to audit, and the manifest to compare them with.

    Attributes:
        files: the dataset's files.
        manifest: what they should be, or None.
        manifest_missing: name of a manifest that should exist and does not, or None.
        reading: how labelled files are read.
    """

    files: tuple[DataFile, ...]
    manifest: Manifest | None
    manifest_missing: str | None = None
    reading: Reading = AUTOMATIC

    def has_changed(self, file: DataFile) -> bool:
        """Return whether the manifest has another hash for a file."""
        hashes = {} if self.manifest is None else self.manifest.value.get("file_sha256")
        expected = hashes.get(file.name) if isinstance(hashes, dict) else None
        return expected is not None and expected != sha256_of_file(file.path)

    @classmethod
    def of_folder(cls, folder: Path, manifest: Path | None = None) -> DatasetSource:
        """Take the dataset of a folder.

        Args:
            folder: its folder.
            manifest: its manifest; None takes `manifest.json` if there is one.

        Raises:
            InputError: the folder has no dataset, the manifest cannot be read, or the role of a
                file is unknown.
        """
        path = manifest or folder / MANIFEST_NAME
        manifest_file = read_manifest(path) if manifest is not None or path.exists() else None
        if manifest_file is not None:  # this folder is audited, wherever the manifest is
            manifest_file = replace(manifest_file, folder=folder)
        files = dataset_files(folder, None if manifest_file is None else manifest_file.value)
        return cls(files, manifest_file, MANIFEST_NAME if manifest_file is None else None)

    @classmethod
    def of_paths(
        cls,
        paths: Sequence[Path],
        manifest: Path | None = None,
        *,
        train: Sequence[Path] = (),
        evaluation: Sequence[Path] = (),
    ) -> DatasetSource:
        """Take datasets and files of datasets, sorted by role.

        Args:
            paths: folders, and files. A file that the `manifest.json` next to it names stands for
                its folder. Of one that it does not name, the files to train on, to select
                checkpoints and to calibrate are taken as well.
            manifest: what to compare them with, instead of the manifests next to them.
            train: further files to train on, as they are.
            evaluation: further files to evaluate with, as they are.

        Raises:
            InputError: a path is missing, or as for `of_folder`.
        """
        folders: dict[Path, None] = {}
        files: list[DataFile] = []
        for path in paths:
            if not path.exists():
                raise InputError(f"{path}: no such file or folder")
            named = None if path.is_dir() or manifest else _files_in_manifest(path)
            if path.is_dir() or (named and path.name in named):
                folders[path if path.is_dir() else path.parent] = None
                continue
            if named:
                beside = cls.of_folder(path.parent).files
                files += [file for file in beside if file.role != "eval"]
            files.append(DataFile(short_name(path), "eval" if named else role_of_name(path), path))
        if len(folders) == 1 and not files:
            source = cls.of_folder(next(iter(folders)), manifest)
        else:
            files += [file for folder in folders for file in cls.of_folder(folder).files]
            unique = tuple({located(file.path): file for file in files}.values())
            source = cls(unique, None if manifest is None else read_manifest(manifest))
        more = [DataFile(short_name(path), "train", path) for path in train]
        more += [DataFile(short_name(path), "eval", path) for path in evaluation]
        every = sorted([*source.files, *more], key=lambda file: ROLES.index(file.role))
        return replace(source, files=tuple(every))


def _files_in_manifest(path: Path) -> list[str]:
    """Return the files that the manifest next to a file names; none without such a manifest."""
    beside = path.parent / MANIFEST_NAME
    try:
        return named_files(read_manifest(beside).value) if beside.is_file() else []
    except InputError:  # another kind of file of this name
        return []


@dataclass(frozen=True)
class NamedTokenizer:
    """A tokenizer and the name that findings give it.

    Attributes:
        name: its folder.
        tokenizer: a Hugging Face tokenizer with a chat template.
    """

    name: str
    tokenizer: Any


@dataclass(frozen=True)
class DataAuditSettings:
    """Limits and options of the checks.

    Attributes:
        only: the checks to run; None runs all of them. If a line is not a record, or a file is
            empty, the check "schema" runs as well.
        max_edit_words: most words that an edit may touch.
        near_duplicate: cosine from which two contexts are near duplicates, in (0, 1].
        keep: findings of each code that are reported in full; all are counted.
        k: views per record whose prompts are measured.
        seed: of the samples that large datasets are judged on, and of the resamples.
        tokenizer: the base model's, or None: prompts are not measured then.
    """

    only: Collection[str] | None = None
    max_edit_words: int = MOST_EDIT_WORDS
    near_duplicate: float = NEAR_DUPLICATE
    keep: int = FINDINGS_KEPT
    k: int = 1
    seed: int = 0
    tokenizer: NamedTokenizer | None = None


@dataclass(frozen=True)
class DataContext:
    """A dataset as the checks see it.

    Attributes:
        source: files and manifest.
        settings: what the checks allow.
        index: one row per record, and a way to read the records again.
        collectors: by check, what has seen records or families before the check runs.
    """

    source: DatasetSource
    settings: DataAuditSettings
    index: Index
    collectors: dict[str, Collector] = field(default_factory=dict)

    @classmethod
    def read(cls, source: DatasetSource, settings: DataAuditSettings) -> DataContext:
        """Read every line of the dataset once.

        Raises:
            InputError: a file cannot be read.
        """
        scan = SchemaScan("schema", settings.keep)
        return cls(source, settings, build_index(source.files, scan), {"schema": scan})

    def collector(self, check: str) -> Collector:
        """Return the collector of a check, with what it has seen before the check runs."""
        return self.collectors.get(check) or Collector(check, self.settings.keep)

    def rng(self) -> np.random.Generator:
        """Return a generator started from the seed: every check draws the same numbers."""
        return np.random.default_rng(self.settings.seed)

    def lacks(self, need: str) -> str | None:
        """Say why "records", a "manifest" or a "tokenizer" is not available; None if it is."""
        if need == "records":
            return None if len(self.index) else "no record could be read"
        if need == "tokenizer":
            return None if self.settings.tokenizer else "no --tokenizer given"
        has_manifest = self.source.manifest or self.source.manifest_missing
        return None if has_manifest else "no --manifest given"
