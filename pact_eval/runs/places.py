"""Places of runs and logs: local paths, or URLs of object stores, whose files are copied here.

    /tmp/pact-eval-x1y2/0/pact-17/run.json             s3://bucket/runs/pact-17
                         /pact-17/predictions.parquet
                         /pact-17/content-free/run.json, ...

Everything else reads local files, so the seal of a run is checked on its exact bytes. fsspec reads
the stores: obstore for S3, Google and Azure, and the client of the Hugging Face Hub. A run is
copied once per process, unless its files change. The copies are removed at the end. Nothing is
written to a store.

Messages name URLs, never copies, and never repeat what a store says: it may hold keys. `pathlib`
drops a slash of `s3://bucket/run`; both spellings are the same URL.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, Final

from pact_eval._files import OBJECT_STORES, is_url, nothing_is_written, writing
from pact_eval.errors import InputError, PactError, RecordError, RunError, missing_extra
from pact_eval.progress import step
from pact_eval.runs.provenance import NAME as PROVENANCE_NAME
from pact_eval.runs.seal import CALIBRATION_NAME, CONTENT_FREE, PREDICTIONS, UNANSWERED

RUNS: Final = "runs"
"""Folder of runs if no setting names another."""

MOST_FILES: Final = 10_000
"""Most files of a log that are copied."""

_EXPECTED: Final = "expected a path, or a URL that begins with s3://, gs://, az:// or hf://"
_SLASH: Final = re.compile(rf"^({'|'.join(OBJECT_STORES)}):/(?!/)")
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PATTERN: Final = re.compile(r"[*?\[]")
_RUN_FILES: Final = (PROVENANCE_NAME, CALIBRATION_NAME, PREDICTIONS, UNANSWERED)
_RANGE_BYTES: Final = 1 << 24
_RETRIES: Final = 3
_MOST_THREADS: Final = 8
_LOOK_SECONDS: Final = 0.05
_REMEDIES: Final = {
    "s3": "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL and the "
    "network; a public bucket needs AWS_SKIP_SIGNATURE=true, and an address without TLS needs "
    "AWS_ALLOW_HTTP=true",
    "gs": "check GOOGLE_APPLICATION_CREDENTIALS and the network; a public bucket needs "
    "GOOGLE_SKIP_SIGNATURE=true",
    "az": "check AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY and the network",
    "hf": "check HF_ENDPOINT, HF_HUB_OFFLINE and the network, and set HF_TOKEN, or log in with "
    "`hf auth login`",
}

_Files = Mapping[str, Mapping[str, Any]]
"""What a store says of files, by their names below a folder: size, and what changes with them."""

_copies: Final[dict[Path, str]] = {}
_runs: Final[dict[str, tuple[_Files, Path]]] = {}
_root: Final[list[Path]] = []


def url_of(place: str | Path) -> str | None:
    """Return the URL that somebody gave, without a slash at its end; None for a local path.

    Args:
        place: what was given; a path that was a URL has lost a slash.

    Raises:
        InputError: it is a URL of another kind, holds credentials or a query, or has parts that
            are not names. The message does not repeat credentials.

    Examples:
        >>> url_of("s3://bucket/runs/pact/"), url_of(Path("runs/pact"))
        ('s3://bucket/runs/pact', None)
        >>> url_of("s3://AKIA:secret@bucket/runs/pact")
        Traceback (most recent call last):
            ...
        pact_eval.errors.InputError: s3://...: expected a bucket after s3://; a URL may not hold \
credentials, which the environment gives (AWS_ACCESS_KEY_ID, ...)
    """
    if not is_url(place):
        return None
    text = place if isinstance(place, str) else place.as_posix()
    scheme, _, rest = text.partition(":/")
    scheme = scheme.lower()
    if scheme not in OBJECT_STORES:
        raise InputError(f"{scheme}://...: {_EXPECTED}")
    bucket, _, path = rest.removeprefix("/").partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise InputError(
            f"{scheme}://...: expected a bucket after {scheme}://; a URL may not hold credentials, "
            "which the environment gives (AWS_ACCESS_KEY_ID, ...)"
        )
    start, question, query = path.partition("?")
    if question and "=" in query:
        message = f"{scheme}://{bucket}/{start}?...: expected a URL without a query or signature"
        raise InputError(message)
    url = f"{scheme}://{bucket}/{path}".rstrip("/")
    path = path.rstrip("/")
    if path and not all(map(_is_name, path.split("/"))):
        raise InputError(
            f"{url!r}: expected names between single slashes, without `.`, `..`, backslashes "
            "and control characters"
        )
    if _PATTERN.search(_parent(path)):
        raise InputError(f"{url}: expected `*`, `?` and `[` in the last part only")
    return url


def _is_name(part: str) -> bool:
    """Return whether a part of a URL can be the name of a local file that stays in its folder.

    Examples:
        >>> [_is_name(part) for part in ("run.json", "..", "", "a/b", "C:")]
        [True, False, False, False, False]
    """
    return part not in ("", ".", "..") and not re.search(r"[\x00-\x1f\x7f/\\]|^[A-Za-z]:", part)


def run_folder(place: str | Path) -> Path:
    """Return the local folder of a run: the one that was given, or the copy of a URL.

    Args:
        place: a run folder, or its URL.

    Raises:
        RunError: there is no complete run at the URL.
        InputError: the URL cannot be read, or there is no space for the copy.
        MissingExtraError: the library that reads it is not installed.

    Examples:
        >>> run_folder("runs/pact")
        PosixPath('runs/pact')
    """
    url = url_of(place)
    if url is None:
        return Path(place)
    if _is_pattern(url):
        raise RunError(f"{url}: expected one run folder, got a pattern")
    return _copy_run(url)


def run_folders(places: Iterable[str | Path]) -> list[Path]:
    """Return the local folders of runs; a pattern stands for the folders that match, by name.

    Args:
        places: run folders, URLs, or URLs with `*`, `?` or `[` in the last part.

    Raises:
        RunError: there is no complete run at a URL, or nothing matches a pattern.
        InputError: a URL cannot be read, or there is no space for the copy.
        MissingExtraError: the library that reads it is not installed.
    """
    folders: list[Path] = []
    for place in places:
        url = url_of(place)
        if url is None or not _is_pattern(url):
            folders.append(run_folder(place))
            continue
        matching = _matching(url, "directory")
        if not matching:
            raise RunError(f"{url}: no such run folder{_absence(url)}")
        folders += [_copy_run(f"{_parent(url)}/{name}") for name in sorted(matching)]
    return folders


def log_path(place: str | Path) -> Path:
    """Return the local file or folder of a log: the one that was given, or the copy of a URL.

    Args:
        place: a file or folder, a URL, or a URL with a pattern: a folder of the files that match.

    Raises:
        InputError: the URL cannot be read, has too many files or names that lead out of their
            folder, or there is no space for the copy.
        MissingExtraError: the library that reads it is not installed.
    """
    url = url_of(place)
    if url is None:
        return Path(place)
    if not _is_pattern(url) and _entries(url):
        return _copy_log(url, url, lambda: dict(islice(_files_below(url), MOST_FILES + 1)))
    folder = _copy_log(_parent(url), url, lambda: _matching(url, "file"))
    return folder if _is_pattern(url) else folder / url.rpartition("/")[2]


def shown(path: Path) -> str:
    """Return what a path is called in outputs: itself, or the URL that it is a copy of.

    Examples:
        >>> shown(Path("runs/pact")), shown(Path("s3://bucket/runs/pact"))
        ('runs/pact', 's3://bucket/runs/pact')
    """
    for folder in (path, *path.parents) if _copies else ():
        url = _copies.get(folder)
        if url is not None:
            return "/".join((url, *path.relative_to(folder).parts))
    return _SLASH.sub(r"\1://", str(path), count=1)


def with_urls(text: str) -> str:
    """Return a text with URLs in place of their copies."""
    for copy, url in _copies.items():
        text = text.replace(str(copy), url)
    return text


@contextmanager
def naming_urls() -> Iterator[None]:
    """Let errors of the block name URLs instead of their copies.

    Raises:
        PactError: what the block raises.
    """
    try:
        yield
    except RecordError as error:
        source = with_urls(error.source)
        problems = [
            replace(problem, message=with_urls(problem.message), remedy=with_urls(problem.remedy))
            for problem in error.problems
        ]
        raise RecordError(source, problems) from None
    except PactError as error:
        text = with_urls(str(error))
        if text == str(error):
            raise
        raise type(error)(text) from None


def refuse_remote(path: Path) -> None:
    """Refuse to write to an object store, or into a copy that is removed at the end.

    Args:
        path: the file or folder to write.

    Raises:
        InputError: it is a URL, or inside the copy of one.

    Examples:
        >>> refuse_remote(Path("s3://bucket/report.html"))
        Traceback (most recent call last):
            ...
        pact_eval.errors.InputError: s3://bucket/report.html: nothing is written to object stores; \
give a local path, and copy the result
    """
    url = url_of(path)
    name = shown(path) if url is None else url
    if url is not None or name != str(path):
        raise nothing_is_written(name)


def _is_pattern(url: str) -> bool:
    """Return whether the last part of a URL stands for all names that match it."""
    return bool(_PATTERN.search(url.rpartition("/")[2]))


def _parent(url: str) -> str:
    return url.rpartition("/")[0]


def _copy_run(url: str) -> Path:
    """Copy the files of a run, unless they are those of the copy that is here."""
    files = _run_files(url)
    earlier, copy = _runs.get(url, ({}, Path()))
    if earlier != files:
        copy = _copy(url, files, lambda: _run_files(url))
        _runs[url] = files, copy
    return copy


def _run_files(url: str) -> _Files:
    """List the files of a run.

    Raises:
        RunError: there is no run, or it is not complete.
    """
    entries = _entries(url)
    if not entries:
        raise RunError(f"{url}: no such run folder{_absence(url)}")
    if PROVENANCE_NAME not in entries:
        message = f"{url}: the folder is not a run folder (it has no {PROVENANCE_NAME})"
        folders = sum(entry["type"] == "directory" for entry in entries.values())
        more = f"; it holds {folders:,} folders: give '{url}/*'" if folders else ""
        raise RunError(message + more)
    if PREDICTIONS not in entries:
        raise RunError(
            f"{url}: the run is not complete (it has no {PREDICTIONS}); resume it where it is "
            "scored, and copy it again"
        )
    files = {name: entries[name] for name in _RUN_FILES if name in entries}
    if CONTENT_FREE in entries:
        inside = _entries(f"{url}/{CONTENT_FREE}")
        files |= {f"{CONTENT_FREE}/{name}": inside[name] for name in _RUN_FILES if name in inside}
    return files


def _copy_log(folder: str, url: str, listing: Callable[[], _Files]) -> Path:
    """Copy the files of a log that are below a folder."""
    with step(f"Listing {url}"):
        files = listing()
    if not files:
        raise InputError(f"{url}: no such file or folder{_absence(url)}")
    if len(files) > MOST_FILES:
        message = f"{url}: expected at most {MOST_FILES:,} files, got more; give a folder in it"
        raise InputError(message)
    return _copy(folder, files, listing)


def _matching(url: str, kind: str) -> _Files:
    """List the files or folders whose names match the last part of a URL."""
    folder, _, pattern = url.rpartition("/")
    if folder.endswith("/"):  # of a bucket
        return {}
    return {
        name: entry
        for name, entry in _entries(folder).items()
        if entry["type"] == kind and fnmatchcase(name, pattern)
    }


def _files_below(url: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the files of a folder and of all folders in it, by their names below it."""
    for name, entry in _entries(url).items():
        if entry["type"] == "directory":
            yield from ((f"{name}/{file}", found) for file, found in _files_below(f"{url}/{name}"))
        else:
            yield name, entry


def _entries(url: str) -> _Files:
    """List what a folder of a store holds, by name; nothing if there is no such folder.

    Raises:
        InputError: the store cannot be read, or a name cannot be that of a local file.
    """
    store = _store(url)
    with _explain(url):
        try:
            entries = store.ls(url, detail=True)
        except FileNotFoundError:
            return {}
    folder = url.partition("://")[2]
    # A store may list the folder itself; the Hub's client lists a file as what it holds.
    named = {
        entry["name"].rstrip("/").rpartition("/")[2]: entry
        for entry in entries
        if entry["name"].strip("/") != folder
    }
    wrong = next((name for name in named if not _is_name(name)), None)
    if wrong is not None:
        raise InputError(f"{url}: {wrong!r} cannot be the name of a local file inside its folder")
    return named


def _copy(folder: str, files: _Files, listing: Callable[[], _Files]) -> Path:
    """Copy files of a folder of a store; all of them, or an exception.

    Args:
        folder: URL of the folder.
        files: the files, by their names below it.
        listing: lists them again.

    Raises:
        InputError: a file cannot be read or written, changes meanwhile, or there is no space.
    """
    name = folder.rpartition("/")[2]
    total = sum(entry["size"] for entry in files.values())
    copy = _new_folder(folder, total) / (name if _is_name(name) else "copy")
    copied = dict.fromkeys(files, 0)
    store = _store(folder)

    def copy_file(file: str, stopped: Event) -> None:
        with writing(copy / file):
            (copy / file).parent.mkdir(parents=True, exist_ok=True)
            with (copy / file).open("xb") as target:
                for content in _ranges(store, f"{folder}/{file}", files[file]["size"]):
                    copied[file] += target.write(content)
                    if stopped.is_set():
                        return

    with step(f"Copying {folder}", total, "bytes") as copying:

        def look() -> None:
            copying.done = sum(copied.values())

        _in_background([partial(copy_file, file) for file in files], look)
        look()
    if sum(copied.values()) != total or listing() != files:
        raise InputError(f"{folder}: changed while it was copied; repeat the command")
    _copies[copy] = folder
    return copy


def _in_background(tasks: Sequence[Callable[[Event], None]], look: Callable[[], None]) -> None:
    """Do tasks in at most 8 threads, which do not outlive Ctrl-C as those of a pool do.

    Args:
        tasks: the tasks, each of which stops early if the event is set; after the first exception,
            no other task begins.
        look: called every 50 ms in the thread that waits.

    Raises:
        Exception: the first that a task raises.
    """
    waiting: SimpleQueue[Callable[[Event], None]] = SimpleQueue()
    for task in tasks:
        waiting.put(task)
    failures: list[BaseException] = []
    stopped = Event()

    def work() -> None:
        try:
            while not stopped.is_set():
                waiting.get_nowait()(stopped)
        except Empty:
            return
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            failures.append(error)
            stopped.set()

    threads = [Thread(target=work, daemon=True) for _ in range(min(_MOST_THREADS, len(tasks)))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(_LOOK_SECONDS)
                look()
    finally:
        stopped.set()
    if failures:
        raise failures[0]


def _ranges(store: Any, url: str, size: int) -> Iterator[bytes]:
    """Yield the bytes of a file, at most about 16 MiB at a time."""
    for start in range(0, size, _RANGE_BYTES):
        with _explain(url):
            yield store.cat_file(url, start, min(start + _RANGE_BYTES, size))


def _new_folder(url: str, total: int) -> Path:
    """Return an empty folder for a copy of so many bytes, inside one that is removed at the end.

    Raises:
        InputError: there is no space for the copy.
    """
    if not _root:
        made = Path(tempfile.mkdtemp(prefix="pact-eval-"))
        _root.append(made)
        atexit.register(_remove, made, os.getpid())
    free = shutil.disk_usage(_root[0]).free
    if total > free:
        raise InputError(
            f"{url}: {total:,} bytes to copy, and {free:,} are free in {_root[0].parent}; set "
            "TMPDIR to a folder with more space"
        )
    return Path(tempfile.mkdtemp(dir=_root[0], prefix=""))


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a process that was forked
        shutil.rmtree(folder, ignore_errors=True)


def _store(url: str) -> Any:
    """Return the fsspec file system that a URL leads to.

    Raises:
        MissingExtraError: the library that reads it is not installed.
        InputError: the environment does not configure it.
    """
    scheme = url.partition(":")[0]
    library = "huggingface_hub" if scheme == "hf" else "obstore"
    try:
        if scheme == "hf":
            from huggingface_hub import HfFileSystem

            return HfFileSystem(skip_instance_cache=True)
        from obstore.fsspec import FsspecStore

        bucket_store: Any = FsspecStore  # its hints leave out what all file systems take
        retries = {"max_retries": _RETRIES}
        return bucket_store(scheme, retry_config=retries, skip_instance_cache=True)
    except ModuleNotFoundError:
        raise missing_extra(f"{url}: reading it", library, "remote") from None


@contextmanager
def _explain(url: str) -> Iterator[None]:
    """Raise what prevents reading as one line, without the words of the store.

    Raises:
        InputError: the store cannot be read.
    """
    scheme = url.partition(":")[0]
    try:
        yield
    except PactError:
        raise
    except FileNotFoundError:
        message = f"{url}: no such bucket, repository, folder or file{_absence(url)}"
    except Exception as error:  # noqa: BLE001 - of the libraries, and of those for their requests
        message = f"{url}: the store denies access, has no such bucket, or cannot be reached "
        message += f"({type(error).__name__}); {_REMEDIES[scheme]}"
        if scheme == "hf" and isinstance(error, (ValueError, NotImplementedError)):
            message = f"{url}: expected hf://datasets/OWNER/NAME[@REVISION]/PATH"
    else:
        return
    raise InputError(message)


def _absence(url: str) -> str:
    """Return what else may be the reason if nothing is found; "" if there is nothing."""
    if not url.startswith("hf://"):  # other stores say whether access is denied
        return ""
    return "; if the repository is private, set HF_TOKEN, or log in with `hf auth login`"
