"""Datasets on the Hugging Face Hub and in its cache: choice of the files to read.

    hf://datasets/owner/name                   the dataset of its manifest, or its only data file
    hf://datasets/owner/name@v1/test.parquet   that file
    .../snapshots/<commit>                     the same of a snapshot that is here, without network

A `manifest.json` decides, as in a folder: the files that it names are downloaded too, because
families are compared with them. Without one, a place with several data files is refused with their
list: nothing else says which of them is meant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from pact_eval._files import is_url
from pact_eval.data.files import MANIFEST_NAME, named_files, read_manifest
from pact_eval.errors import InputError, SeveralFilesError
from pact_eval.hub.downloads import Listing, download, files_below, list_repository, snapshot_of
from pact_eval.hub.names import HubName, dataset_name

__all__ = ["local_data", "only_file_of"]

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
            message = (
                f"{str(place).partition(':')[0]}://...: expected a local path or "
                "hf://datasets/OWNER/NAME; copy data of other stores first"
            )
            raise InputError(message)
        return Path(place)
    listing = list_repository(name)
    if name.path and name.path in listing.files:
        return _with_neighbours(listing, name.path)
    folder = f"{name.path}/" if name.path else ""
    inside = [file.removeprefix(folder) for file in listing.files if file.startswith(folder)]
    if not inside:
        message = (
            f"{name}: the repository has no such file or folder at commit {listing.name.revision}; "
            f"it has {_listed(_data_names(listing.files)) or 'no data file'}"
        )
        raise InputError(message)
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
        message = f"{place}: expected a data file ({', '.join(_SUFFIXES)}), found none"
        raise InputError(message)
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
        and not any(_is_hidden(part) for part in file.split("/"))
    )


def _is_hidden(part: str) -> bool:
    return part.startswith(".") and part not in (".", "..")  # these two are refused, with the name


def _with_neighbours(listing: Listing, file: str) -> Path:
    """Download a file, its questions, and the dataset of the nearest manifest that names it."""
    folders = [*_folders_above(file)][:3]
    for folder in folders:
        if folder + MANIFEST_NAME in listing.files:
            _with_named_files(listing, folder)
            break
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


def _folders_above(file: str) -> Iterable[str]:
    """Yield the folders around a file, the nearest first, each with a slash at its end."""
    parts = file.split("/")[:-1]
    for number in range(len(parts), -1, -1):
        yield "".join(f"{part}/" for part in parts[:number])


def _listed(names: Collection[str]) -> str:
    shown = ", ".join([*names][:_SHOWN])
    return f"{shown}, ... ({len(names):,} in all)" if len(names) > _SHOWN else shown
