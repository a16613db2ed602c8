"""Copies of runs and logs of object stores, in a temporary folder of this process.

`places` asks for them. Everything else reads local files, so the seal of a run is checked on its
exact bytes.

    /tmp/pact-eval-x1y2/0/pact-17/run.json             s3://bucket/runs/pact-17
                         /pact-17/predictions.parquet
                         /pact-17/content-free/run.json, ...

A run is copied once per process. Later, only its small files are read again: `run.json` has the
hash of the rows, so an equal `run.json` means equal rows. The folder is removed at the end.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Event, Lock
from typing import Final, TypeVar

from pact_eval._files import MOST_TEXT_BYTES, writing
from pact_eval._waiting import in_background, waited
from pact_eval.errors import InputError, RunError
from pact_eval.progress import step
from pact_eval.runs.provenance import NAME as PROVENANCE_NAME
from pact_eval.runs.remote.stores import RemoteFile, Store, absence, store_of
from pact_eval.runs.remote.urls import Url, is_name, stands_for
from pact_eval.runs.seal import CALIBRATION_NAME, CONTENT_FREE, PREDICTIONS, UNANSWERED

MOST_FILES: Final = 10_000
"""Most files of a log that are copied."""

LISTING_SECONDS: Final = 120.0
"""Longest time for the listing of a folder, in seconds."""

Listing = TypeVar("Listing")

_SMALL: Final = (PROVENANCE_NAME, CALIBRATION_NAME, f"{CONTENT_FREE}/{PROVENANCE_NAME}")
_ROWS: Final = tuple(
    f"{folder}{name}" for folder in ("", f"{CONTENT_FREE}/") for name in (PREDICTIONS, UNANSWERED)
)


def copied_runs(url: Url) -> list[Path]:
    """Return the copies of the run folders that a URL stands for, those of a pattern by name."""
    if not url.is_pattern:
        return [_copied_run(url)]
    return [_copied_run(folder) for folder in _matching_folders(url)]


def copied_log(url: Url) -> Path:
    """Return the copy of a file or folder, or a folder with the files that match a pattern."""
    store = store_of(url)
    if url.is_pattern:
        children = _listed(url, lambda: store.children(url.folder))
        files = [file for file in children.files if fnmatchcase(file.name, url.name)]
        return _copied_files(store, url.folder, url, files)
    size = waited(lambda: store.size(url))
    if size is not None:
        copy = _new_folder() / _local_name(url)
        _copy(store, str(url), [_Transfer(url, size, copy)])
        stands_for(copy, url)
        return copy
    files = _listed(url, lambda: [*islice(store.files(url), MOST_FILES + 1)])
    return _copied_files(store, url, url, [file for file in files if file.name])


@dataclass(frozen=True, slots=True)
class _Transfer:
    """A file to copy: from where, how many bytes, and to where."""

    url: Url
    size: int
    target: Path


_runs: Final[dict[Url, Path]] = {}
_root: list[Path] = []


def _new_folder() -> Path:
    """Return an empty folder for one copy, inside one that is removed at the end."""
    if not _root:
        made = Path(tempfile.mkdtemp(prefix="pact-eval-"))
        _root.append(made)
        atexit.register(_remove, made, os.getpid())
    return Path(tempfile.mkdtemp(dir=_root[0], prefix=""))


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a process that was forked
        shutil.rmtree(folder, ignore_errors=True)


def _local_name(url: Url) -> str:
    return url.name if is_name(url.name) else "copy"


def _matching_folders(url: Url) -> list[Url]:
    children = _listed(url, lambda: store_of(url).children(url.folder))
    names = sorted(name for name in children.folders if fnmatchcase(name, url.name))
    if not names:
        message = f"{url}: no such run folder{absence(url)}"
        raise RunError(message)
    wrong = next((name for name in names if not is_name(name)), None)
    if wrong is not None:
        raise _strange(url.folder, wrong)
    return [url.folder / name for name in names]


def _listed(url: Url, listing: Callable[[], Listing]) -> Listing:
    """Return a listing of a store, which may have pages without end.

    Raises:
        InputError: it takes longer than `LISTING_SECONDS`, or cannot be read.
    """
    with step(f"Listing {url}"):
        try:
            return waited(listing, LISTING_SECONDS)
        except TimeoutError:
            message = (
                f"{url}: the store has not ended its listing within {LISTING_SECONDS:g} s; give a "
                "folder in it"
            )
            raise InputError(message) from None


def _copied_run(url: Url) -> Path:
    """Copy a run, unless its `run.json` and calibrator are those of the copy that is here."""
    store = store_of(url)
    sizes = _sizes(store, url)
    if PROVENANCE_NAME not in sizes:
        raise RunError(_no_run(store, url))
    if PREDICTIONS not in sizes:
        message = (
            f"{url}: the run is not complete (it has no {PREDICTIONS}); resume it where it is "
            "scored, and copy it again"
        )
        raise RunError(message)
    copy = _new_folder() / _local_name(url)
    small = [name for name in _SMALL if name in sizes]
    for name in small:
        if sizes[name] > MOST_TEXT_BYTES:
            message = f"{url / name}: expected at most {MOST_TEXT_BYTES:,} bytes, got more"
            raise RunError(message)
    _copy(store, str(url), _transfers(url, copy, small, sizes))
    earlier = _runs.get(url)
    if earlier is not None and _same(earlier, copy):
        shutil.rmtree(copy.parent, ignore_errors=True)
        return earlier
    _copy(store, str(url), _transfers(url, copy, _ROWS, sizes))
    stands_for(copy, url)
    _runs[url] = copy
    return copy


def _sizes(store: Store, url: Url) -> dict[str, int]:
    """Return the sizes of the files that a run has, by name; the first names what is wrong."""
    sizes: dict[str, int] = {}

    def look(name: str, _stopped: Event) -> None:
        size = store.size(url / name)
        if size is not None:
            sizes[name] = size

    for names in (_SMALL[:1], (*_SMALL[1:], *_ROWS)):
        in_background([partial(look, name) for name in names])
    return sizes


def _transfers(
    url: Url, copy: Path, names: Iterable[str], sizes: dict[str, int]
) -> list[_Transfer]:
    return [_Transfer(url / name, sizes[name], copy / name) for name in names if name in sizes]


def _same(one: Path, other: Path) -> bool:
    """Return whether two copies have the same small files."""
    return all(
        (one / name).exists() == (other / name).exists()
        and (not (one / name).exists() or (one / name).read_bytes() == (other / name).read_bytes())
        for name in _SMALL
    )


def _no_run(store: Store, url: Url) -> str:
    children = _listed(url, lambda: store.children(url))
    if not children.folders and not children.files:
        return f"{url}: no such run folder{absence(url)}"
    message = f"{url}: the folder is not a run folder (it has no {PROVENANCE_NAME})"
    if children.folders:
        message += f"; it holds {len(children.folders):,} folders: give '{url}/*'"
    return message


def _copied_files(store: Store, folder: Url, url: Url, files: Sequence[RemoteFile]) -> Path:
    """Copy files of a folder into a folder that stands for a URL."""
    if not files:
        message = f"{url}: no such file or folder{absence(url)}"
        raise InputError(message)
    if len(files) > MOST_FILES:
        message = f"{url}: expected at most {MOST_FILES:,} files, got more; give a folder in it"
        raise InputError(message)
    wrong = next((file.name for file in files if not all(map(is_name, file.name.split("/")))), None)
    if wrong is not None:
        raise _strange(folder, wrong)
    copy = _new_folder() / _local_name(folder)
    _copy(
        store,
        str(url),
        [_Transfer(folder / file.name, file.size, copy / file.name) for file in files],
    )
    stands_for(copy, folder)
    return copy


def _strange(url: Url, name: str) -> InputError:
    return InputError(f"{url}: {name!r} cannot be the name of a local file inside its folder")


def _copy(store: Store, name: str, transfers: Sequence[_Transfer]) -> None:
    """Copy files; all of them, or an exception.

    Raises:
        InputError: a file cannot be read or written, changes meanwhile, or there is no space.
    """
    total = sum(transfer.size for transfer in transfers)
    free = shutil.disk_usage(_root[0]).free
    if total > free:
        message = (
            f"{name}: {total:,} bytes to copy, and {free:,} are free in {_root[0].parent}; set "
            "TMPDIR to a folder with more space"
        )
        raise InputError(message)
    moved, lock = [0], Lock()

    def move(transfer: _Transfer, stopped: Event) -> None:
        written = 0
        with writing(transfer.target):
            transfer.target.parent.mkdir(parents=True, exist_ok=True)
            with transfer.target.open("xb") as file:
                for chunk in store.chunks(transfer.url):
                    written += file.write(chunk)
                    with lock:
                        moved[0] += len(chunk)
                    if stopped.is_set() or written > transfer.size:
                        break
        if written != transfer.size and not stopped.is_set():
            message = f"{transfer.url}: changed while it was copied; repeat the command"
            raise InputError(message)

    with step(f"Copying {name}", total, "bytes") as copying:

        def look() -> None:
            copying.done = moved[0]

        in_background([partial(move, transfer) for transfer in transfers], look)
        look()
