"""Opening a dataset file: its records, and the facts of its manifest.

Data to score are opened here. A file that is not the one in the manifest is
refused, and so is one whose families are also in a file that a model is made from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from pact_eval._files import open_regular, sha256_of_file
from pact_eval.data.files import (
    MANIFEST_NAME,
    ROLES,
    DataFile,
    Manifest,
    dataset_files,
    is_file,
    named_files,
    read_manifest,
)
from pact_eval.data.labelled.reading import AUTOMATIC, Reading, is_labelled
from pact_eval.data.records import Record, folded, read_records
from pact_eval.errors import GateError, InputError, TamperedError, listed
from pact_eval.hub.downloads import located

if TYPE_CHECKING:
    from pact_eval.data.labelled.reader import LabelledData

__all__ = ["ManifestCheck", "OpenedDataset", "manifest_check", "open_dataset"]

_FOLDERS: Final = 3


@dataclass(frozen=True)
class ManifestCheck:
    """Comparison of a dataset file with the manifest.

    Attributes:
        manifest: the manifest that names the file.
        expected: SHA-256 that it gives; None if it gives none.
        actual: SHA-256 of the file.
        families: families of the file that are also in files that a model is made from.
        files: names of these files.
        unchecked: why families were not compared with some files; "" if they were.
    """

    manifest: Path
    expected: str | None
    actual: str
    families: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    unchecked: str = ""

    @property
    def changed(self) -> bool:
        """Whether the file is not the one that the manifest names."""
        return self.expected is not None and self.expected.lower() != self.actual


@dataclass(frozen=True)
class OpenedDataset:
    """A dataset file that was opened.

    Attributes:
        path: the file.
        sha256: of its bytes.
        records: its records, in file order.
        manifest: what its manifest says of it; None if no manifest names it.
        labelled: how it was read, if it is a labelled file; None for the full format.
    """

    path: Path
    sha256: str
    records: Sequence[Record] = field(repr=False)
    manifest: ManifestCheck | None = None
    labelled: LabelledData | None = None


def open_dataset(
    path: Path,
    *,
    allow: Collection[str] = (),
    allow_ablated: bool = False,
    reading: Reading = AUTOMATIC,
) -> OpenedDataset:
    """Read a dataset file, and compare it with the manifest that names it.

    The manifest is the `manifest.json` in the folder of the file, or in one of the two above it.

    Args:
        path: the file.
        allow: "other-data" accepts a file that is not the one in the manifest, "trained-on" one
            with families of files that a model is made from.
        allow_ablated: as for `read_records`.
        reading: how a labelled file is read.

    Raises:
        InputError: the file or the manifest cannot be read.
        ShapeError: nothing decides how a labelled file is read.
        RecordError: a record is malformed.
        TamperedError: the file is not the one that the manifest names.
        GateError: it has families of a file to train on, to select or to calibrate.
    """
    labelled = _labelled(path, reading) if is_labelled(path, reading) else None
    records: Sequence[Record] = (
        read_records(path, allow_ablated=allow_ablated) if labelled is None else labelled.records
    )
    check = manifest_check(path, dict.fromkeys(record.family for record in records))
    if check is None:
        return OpenedDataset(path, sha256_of_file(path), records, labelled=labelled)
    if check.changed and "other-data" not in allow:
        message = (
            f"{path}: expected the SHA-256 {check.expected} of {check.manifest}, found "
            f"{check.actual}: the file was changed. Restore it, write the manifest again "
            f"(pact-audit manifest {check.manifest.parent}), or use --allow other-data, which "
            "every output then names"
        )
        raise TamperedError(message)
    if check.families and "trained-on" not in allow:
        message = (
            f"{path}: {listed(check.families, 'family', 'families')} also in "
            f"{', '.join(check.files)} of {check.manifest}, so a model may have learnt the "
            "answers. Leave these families out of one of the files, or use --allow trained-on, "
            "which every output then names"
        )
        raise GateError(message)
    return OpenedDataset(path, check.actual, records, check, labelled)


def _labelled(path: Path, reading: Reading) -> LabelledData:
    from pact_eval.data.labelled.reader import read_labelled

    return read_labelled(path, reading)


def manifest_check(path: Path, families: Iterable[str]) -> ManifestCheck | None:
    """Compare a dataset file with the manifest that names it; None if none does.

    Args:
        path: the file.
        families: those of the file that count.

    Raises:
        InputError: the file or the manifest cannot be read.
    """
    manifest = _manifest_of(path)
    return None if manifest is None else _checked(path, families, manifest)


def _manifest_of(path: Path) -> Manifest | None:
    """Return the nearest manifest around a file, if it names the file."""
    resolved = located(path)
    for folder in list(resolved.parents)[:_FOLDERS]:
        place = folder / MANIFEST_NAME
        if is_file(place):
            manifest = read_manifest(_as_given(path, folder) / MANIFEST_NAME)
            name = resolved.relative_to(folder).as_posix()
            return manifest if name in named_files(manifest.value) else None
    return None


def _as_given(path: Path, folder: Path) -> Path:
    """Return a folder around a file as the user would write it."""
    for parent in path.parents:
        if parent.resolve() == folder:
            return parent
    return folder


def _checked(path: Path, families: Iterable[str], manifest: Manifest) -> ManifestCheck:
    name = located(path).relative_to(manifest.folder.resolve()).as_posix()
    hashes = manifest.value["file_sha256"]
    stated = hashes.get(name) if isinstance(hashes, dict) else None
    check = ManifestCheck(
        manifest.folder / manifest.name,
        stated if isinstance(stated, str) else None,
        sha256_of_file(path),
    )
    try:
        files = dataset_files(manifest.folder, manifest.value)
    except InputError as error:  # such as a file whose role is unknown
        return replace(check, unchecked=str(error))
    role = next(file.role for file in files if file.name == name)
    names = {folded(family): family for family in families}
    shared: dict[str, None] = {}
    sources, unreadable = [], []
    for file in (file for file in files if ROLES.index(file.role) < ROLES.index(role)):
        try:
            met = sorted(names[family] for family in _families(file) if family in names)
        except (OSError, InputError, pl.exceptions.PolarsError) as error:
            unreadable.append(f"{file.path}: cannot be read ({str(error).splitlines()[0]})")
            continue
        sources += [file.name] if met else []
        shared |= dict.fromkeys(met)
    return replace(
        check, families=tuple(shared), files=tuple(sources), unchecked="; ".join(unreadable)
    )


def _families(file: DataFile) -> Iterable[str]:
    """Return the families of a file, in one case; it is not checked for anything else."""
    with open_regular(file.path) as opened:  # polars would take "[" in a path for a pattern
        frame = pl.read_ndjson(opened, schema={"family": pl.String})
    return {folded(family) for family in frame["family"].unique().drop_nulls().to_list()}
