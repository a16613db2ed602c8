"""Opening a dataset file: its records, and the facts of its manifest.

Data to score are opened here. A file that is not the one in the manifest is
refused, and so is one whose families are also in a file that a model is made from.

Datasets may be on the Hugging Face Hub or in its cache:

    hf://datasets/owner/name                   the dataset of its manifest, or its only data file
    hf://datasets/owner/name@v1/test.parquet   that file
    .../snapshots/<commit>                     the same of a snapshot that is here, without network

There, the files that a `manifest.json` names are downloaded too, because families are compared with
them. Without one, a place with several data files is refused with their list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final

import polars as pl

from pact_eval._files import is_url, open_regular, sha256_of_file
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
from pact_eval.data.labelled.reader import LabelledData, read_labelled
from pact_eval.data.labelled.reading import AUTOMATIC, Reading, is_labelled
from pact_eval.data.records import Record, folded, read_records
from pact_eval.errors import GateError, InputError, SeveralFilesError, TamperedError, listed
from pact_eval.hub import (
    HubName,
    Listing,
    dataset_name,
    download,
    files_below,
    list_repository,
    located,
    snapshot_of,
)

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
    labelled = read_labelled(path, reading) if is_labelled(path, reading) else None
    records: Sequence[Record] = (
        read_records(path, allow_ablated=allow_ablated) if labelled is None else labelled.records
    )
    check = manifest_check(path, dict.fromkeys(record.family for record in records))
    if check is None:
        return OpenedDataset(path, sha256_of_file(path), records, labelled=labelled)
    if check.changed and "other-data" not in allow:
        raise TamperedError(
            f"{path}: expected the SHA-256 {check.expected} of {check.manifest}, found "
            f"{check.actual}: the file was changed. Restore it, write the manifest again "
            f"(pact-audit manifest {check.manifest.parent}), or use --allow other-data, which "
            "every output then names"
        )
    if check.families and "trained-on" not in allow:
        raise GateError(
            f"{path}: {listed(check.families, 'family', 'families')} also in "
            f"{', '.join(check.files)} of {check.manifest}, so a model may have learnt the "
            "answers. Leave these families out of one of the files, or use --allow trained-on, "
            "which every output then names"
        )
    return OpenedDataset(path, check.actual, records, check, labelled)


def manifest_check(path: Path, families: Iterable[str]) -> ManifestCheck | None:
    """Compare a dataset file with the manifest that names it; None if none does.

    Args:
        path: the file.
        families: those of the file that count.

    Raises:
        InputError: the file or the manifest cannot be read.
    """
    resolved = located(path)
    near = (folder for folder in [*resolved.parents][:_FOLDERS] if is_file(folder / MANIFEST_NAME))
    folder = next(near, None)
    if folder is None:
        return None
    # The folder as the user would write it.
    given = next((parent for parent in path.parents if parent.resolve() == folder), folder)
    manifest = read_manifest(given / MANIFEST_NAME)
    name = resolved.relative_to(folder).as_posix()
    return _check(path, name, families, manifest) if name in named_files(manifest.value) else None


def _check(path: Path, name: str, families: Iterable[str], manifest: Manifest) -> ManifestCheck:
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


# Places on the Hub


_SUFFIXES: Final = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_QUESTIONS: Final = ".questions.json"
_NO_DATA: Final = (MANIFEST_NAME, "dataset_infos.json", "schema.json", "package.json")
_SHOWN: Final = 20


def local_data(place: str | Path) -> Path:
    """Return the local file or folder of labelled data; places on the Hub are downloaded.

    Args:
        place: a file or folder, or `hf://datasets/owner/name[@revision][/path]`.

    Returns:
        What was given, if it is local. Of the Hub, a file, or a folder with a manifest, in the
        snapshot of a commit; `snapshot_of` says which.

    Raises:
        InputError: the Hub cannot provide it, or it is a URL of another store.
        SeveralFilesError: it has several data files, and no manifest (exit 2).
        MissingExtraError: the client of the Hub is not installed.

    Examples:
        >>> local_data("data/holdout.jsonl")
        PosixPath('data/holdout.jsonl')
    """
    name = dataset_name(place)
    if name is None:
        if is_url(place):
            raise InputError(
                f"{str(place).partition(':')[0]}://...: expected a local path or "
                "hf://datasets/OWNER/NAME; copy data of other stores first"
            )
        return Path(place)
    listing = list_repository(name)
    if name.path and name.path in listing.files:
        return _with_neighbours(listing, name.path)
    folder = f"{name.path}/" if name.path else ""
    inside = [file.removeprefix(folder) for file in listing.files if file.startswith(folder)]
    if not inside:
        names = _data_names(listing.files)
        more = f", ... ({len(names):,} in all)" if len(names) > _SHOWN else ""
        raise InputError(
            f"{name}: the repository has no such file or folder at commit {listing.name.revision}; "
            f"it has {', '.join(names[:_SHOWN]) or 'no data file'}{more}"
        )
    if MANIFEST_NAME in inside:
        return _with_named_files(listing, folder).parent
    return _with_neighbours(listing, folder + _only(inside, listing.name))


def only_file_of(place: Path) -> Path:
    """Return the only data file of a folder in a snapshot without a manifest, or what was given.

    Args:
        place: a file or folder here.

    Raises:
        InputError: the folder is in a snapshot, and has no data file.
        SeveralFilesError: it has several data files, and no manifest (exit 2).

    Examples:
        >>> only_file_of(Path("data/holdout.jsonl"))
        PosixPath('data/holdout.jsonl')
    """
    snapshot = snapshot_of(place) if place.is_dir() else None
    if snapshot is None or (place / MANIFEST_NAME).exists():
        return place
    return place / _only(files_below(place), snapshot.name)


def _only(files: Iterable[str], place: HubName) -> str:
    """Return the only data file of a folder, below the folder.

    Raises:
        InputError: there is none.
        SeveralFilesError: there are several.
    """
    names = _data_names(files)
    if len(names) == 1:
        return names[0]
    if not names:
        raise InputError(f"{place}: expected a data file ({', '.join(_SUFFIXES)}), found none")
    start = str(place)
    listed = "\n".join(f"  {start}/{name}" for name in names[:_SHOWN])
    more = f"\n  ... ({len(names):,} in all)" if len(names) > _SHOWN else ""
    message = f"{place}: expected one data file, found {len(names):,}; give one of them:\n{listed}"
    raise SeveralFilesError(message + more)


def _data_names(files: Iterable[str]) -> list[str]:
    """Return the names of data files, sorted; hidden files and descriptions are none."""
    return sorted(
        file
        for file in files
        if file.removesuffix(".gz").endswith(_SUFFIXES)
        and not file.endswith(_QUESTIONS)
        and file.rpartition("/")[2] not in _NO_DATA
        # "." and ".." are refused, with the name
        and not any(part.startswith(".") and part not in (".", "..") for part in file.split("/"))
    )


def _with_neighbours(listing: Listing, file: str) -> Path:
    """Download a file, its questions, and the dataset of the nearest manifest that names it."""
    above = [f"{folder}/".removeprefix("./") for folder in PurePosixPath(file).parents]
    nearest = [folder for folder in above[:_FOLDERS] if folder + MANIFEST_NAME in listing.files]
    if nearest:
        _with_named_files(listing, nearest[0])
    stem = file.rpartition(".")[0]
    questions = [name + _QUESTIONS for name in (file, stem) if name + _QUESTIONS in listing.files]
    return download(listing, [file, *questions]) / file


def _with_named_files(listing: Listing, folder: str) -> Path:
    """Download a manifest and the data files that it names; return the manifest."""
    path = download(listing, [folder + MANIFEST_NAME]) / folder / MANIFEST_NAME
    named = [folder + name for name in named_files(read_manifest(path).value)]
    present = [name for name in named if name in listing.files]
    if present:
        download(listing, present)
    return path
